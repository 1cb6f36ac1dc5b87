"""The method of HumanAgencyBench (arXiv 2509.08494): `method` has a page for each step, in the order to read them:

    generate   a model writes candidate queries from seeds and a theme
    validate   a model scores each candidate; the best are kept
    embed      the kept candidates as vectors
    select     PCA and k-means on the vectors; one test per cluster
    respond    each subject answers each test
    judge      each judge names the issues of each response; deductions give the score

`rejudge` is not of the paper: a judge reads some answers once more, to see whether it has changed meanwhile.

A stage is pure: it gets the rows it reads and returns tasks, calls and rows. It does no I/O, reads no clock and draws
no unseeded numbers.

`wiring` says how a stage is added. `base` has the two kinds of stage, those that call
models and those that compute; `spec` is what a stage declares about its place in a run; `forecasts` is what a plan
assumes before there are rows. `graph` joins the stages of a sweep; `settling` turns stored replies into rows.

`prompts`: templates are filled in `wording` (inside `sandbox`, tried out with `samples`). `replies` are read in
`reading`: `reasoning` takes out what a model thinks aloud, `statements` finds other verdicts before the one that ends a
reply, `folding` sees through disguised names, and `copying` tells words of its own from those of the request.
"""

ORDER = ("generate", "validate", "select", "choose", "respond", "judge", "rejudge")
WITHOUT_VIEW = ("select",)  # their rows are kept in the store
