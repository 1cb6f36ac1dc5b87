"""The batch engine: completes the calls of one provider account through its batch API, paying for each once.

A batch is always in one of the states of `states`, each a frozen dataclass of its own. `decisions.next_action` looks at
a state and the time and says what to do next; it is pure. The engine performs that action (a request to the vendor, an
event in the ledger, a wait), and `transitions` turns the outcome into the next state.

    Packed ──> Funded ──> Submitting ──> AtVendor ──> Ended ──> Collected ──> Closed

    state           action        next state
    Packed          Reserve       Funded; Packed where the budget refuses
                    AwaitRoom     Packed: the vendor's queue is full
                    FitToBudget   Packed, less what the budget cannot pay for now; Packed without rows
                    GiveBack      Closed
    Funded          StoreLines    Submitting
                    GiveBack      Closed
    Submitting      Submit        AtVendor; CreateFailed
                    Wait          Submitting
                    LeaveInDoubt  Abandoned: the next run looks for it
    CreateFailed    Retry         Submitting
                    LookFor       OutcomeUnknown
                    Requeue       Packed: its rows wait for room in the vendor's queue
                    Split         Malformed: its rows go into smaller batches
                    Refuse        Closed
                    LeaveInDoubt  Abandoned
    OutcomeUnknown  AskOwner      OutcomeUnknown; LookFailed
                    Look          OutcomeUnknown; LookFailed
                    Wait          OutcomeUnknown
                    Adopt         AtVendor
                    Retry         Submitting: the vendor does not have it
                    RefuseOwner   none: the key is of another account, and the run ends
                    LeaveInDoubt  Abandoned
    LookFailed      LeaveInDoubt  Abandoned
    AtVendor        Poll          AtVendor
                    Cancel        AtVendor
                    Wait          AtVendor
                    RecordEnd     Ended
                    GiveUp        Closed: the vendor does not have it any more
                    StopProvider  AtVendor: nothing more is asked of this provider
    Ended           Poll          Ended
                    Wait          Ended
                    Collect       Collected; Ended where the results break off
                    GiveUp        Closed
                    StopProvider  Ended
    Collected       CleanUp       Closed
                    Close         Closed

`submit` packs rows and waits for room and money, `create` performs the actions up to AtVendor, `poll` those after it,
`recover` takes up what earlier processes left, and `engine` owns their tasks.

A row's way: offered, packed, in a batch, finished. `finished` counts rows whose batch has brought all it will, answered
or not: the caller looks into the store and offers again what has no answer there. The engine keeps nothing of a row but
its key, so that a sweep of any size fits in memory. When the user stops the run, rows stay where they are.
"""
