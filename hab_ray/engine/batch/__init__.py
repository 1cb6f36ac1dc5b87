"""The batch engine: completes the calls of one provider account through its batch API, paying for each once.

A batch is always in one of the frozen states of `states`. `decisions.next_action`, a pure function of the state and the
time, chooses the next action. The engine performs it (a request to the vendor, an event in the ledger, a wait), and
`transitions` turns the outcome into the next state.

    Packed ──> Funded ──> Submitting ──> AtVendor ──> Ended ──> Collected ──> Closed

    state           action        next state
    Packed          Reserve       Funded; Packed where the budget refuses
                    AwaitRoom     Packed: the vendor's queue is full
                    FitToBudget   Packed, without the rows that the budget cannot pay for now, perhaps all of them
                    GiveBack      Closed
    Funded          StoreLines    Submitting
                    GiveBack      Closed
    Submitting      Submit        AtVendor; CreateFailed
                    Wait          Submitting
                    GiveBack      Closed: the vendor does not have it
                    LeaveInDoubt  Abandoned: the next run searches for it
    CreateFailed    Retry         Submitting
                    LookFor       OutcomeUnknown
                    Requeue       Packed: its rows wait for room in the vendor's queue
                    Split         Malformed: its rows are packed into smaller batches
                    Refuse        Closed
                    LeaveInDoubt  Abandoned
    OutcomeUnknown  AskOwner      OutcomeUnknown
                    Look          OutcomeUnknown
                    Wait          OutcomeUnknown
                    Adopt         AtVendor
                    Retry         Submitting: the vendor does not have it; none if the key may be another account's
                    RefuseOwner   none: the API key belongs to another account, and the run ends
                    LeaveInDoubt  Abandoned
    AtVendor        Poll          AtVendor
                    Cancel        AtVendor
                    Wait          AtVendor
                    RecordEnd     Ended
                    GiveUp        Closed: it is gone; AtVendor until the vendor says whose the key is; none if another's
                    StopProvider  AtVendor: no further request to this provider
    Ended           Poll          Ended
                    Wait          Ended
                    Collect       Collected; Ended if the results break off
                    GiveUp        Closed; Ended until the vendor says whose the key is; none if another's
                    StopProvider  Ended
    Collected       CleanUp       Closed
                    Close         Closed

`submit` packs rows and waits for room and money, `create` performs the actions up to AtVendor, `poll` those after it,
`recover` resumes batches of earlier processes, and `engine` owns the tasks.

A row is offered, packed, in a batch, finished. A row is finished once its batch is closed, answered or not: the caller
checks the store and offers unanswered rows again. The engine keeps only the key of a row, so that a sweep of any size
fits in memory. When the user stops the run, rows stay where they are.
"""
