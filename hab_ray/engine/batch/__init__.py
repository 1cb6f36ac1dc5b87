"""The batch engine: completes the calls of one provider account through its batch API, paying for each once.

A batch is always in one of the states of `states`, each a frozen dataclass of its own. `decisions.next_action` looks at
a state and the time and says what to do next; it is pure. The engine performs that action (a request to the vendor, an
event in the ledger, a wait), and `transitions` turns the outcome into the next state.

    Packed ── Reserve ──> Funded ── StoreLines ──> Submitting ── Submit ──> AtVendor, or CreateFailed
       │ AwaitRoom, LeaveOut: for the vendor's queue, for the budget                 │
       └─ GiveBack ──> Closed                                                       │
                                                                                     │
    CreateFailed ── Retry ─────────> Submitting                                      │
                 ── Requeue ───────> Requeued: packed again, waits for room          │
                 ── Split ─────────> Malformed: its rows go into smaller batches     │
                 ── Refuse ────────> Closed                                          │
                 ── LookFor ───────> OutcomeUnknown                                  │
                                                                                     │
    OutcomeUnknown ── AskOwner, Look, Wait ──> OutcomeUnknown, or LookFailed         │
                   ── Adopt ─────────> AtVendor                                      │
                   ── Retry ─────────> Submitting: the vendor does not have it       │
                   ── RefuseOwner ──── ends the run: the key is of another account   │
    these three, LookFailed ── LeaveInDoubt ──> Abandoned: the next run looks for it │
                                                                                     v
    AtVendor ── Poll, Cancel, Wait ──> AtVendor ── RecordEnd ──> Ended
    Ended    ── Poll, Wait ──────────> Ended ── Collect ──> Collected ── CleanUp or Close ──> Closed
    AtVendor, Ended ── GiveUp ───────> Closed: the vendor has neither batch nor results any more
                    ── StopProvider ─> the same; nothing more is asked of this provider

`submit` packs rows and waits for room and money, `create` performs the actions up to AtVendor, `poll` those after it,
`recover` takes up what earlier processes left, and `engine` owns their tasks.

A row's way: offered, packed, in a batch, finished. `finished` counts rows whose batch has brought all it will, answered
or not: the caller looks into the store and offers again what has no answer there. The engine keeps nothing of a row but
its key, so that a sweep of any size fits in memory. When the user stops the run, rows stay where they are.
"""
