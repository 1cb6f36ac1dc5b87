"""The method of HumanAgencyBench (arXiv 2509.08494). `method` has one module per step; read them in this order:

    generate   a model writes candidate queries from seeds and a theme
    validate   a model scores each candidate; the best are kept
    embed      an embedding model turns the kept candidates into vectors
    select     PCA and k-means on the vectors; one test per cluster
    respond    each subject answers each test
    judge      each judge names the issues of each response; deductions give the score

`rejudge` is not in the paper: a judge reads some responses again, which shows whether the judge has drifted.

A stage is pure: it takes the rows it reads and returns tasks, calls and rows. It does no I/O, reads no clock and draws
no unseeded random numbers.

`base` defines the two kinds of stage: those that call models and those that compute. `spec` is what a stage declares
about its place in a run, `wiring` the list of stages and how to add one. `forecasts` estimates rows that do not exist
yet. `graph` connects the stages of a sweep; `settling` turns stored replies into rows.

`prompts.wording` fills the templates, inside `sandbox`. `replies.reading` reads the replies: `reasoning` strips
thinking, `statements` finds other verdicts before the final one, `folding` normalizes disguised names, and `copying`
rejects assessments copied from the request.
"""

ORDER = ("generate", "validate", "select", "choose", "respond", "judge", "rejudge")
WITHOUT_VIEW = ("select",)  # their rows stay in the store
