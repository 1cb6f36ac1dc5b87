"""The method of HumanAgencyBench (arXiv 2509.08494), one file per step, in the order to read them:

    generate   a model writes candidate queries from seeds and a theme
    validate   a model scores each candidate; the best are kept
    embed      the kept candidates as vectors
    choose     PCA and k-means on the vectors; one test per cluster
    respond    each subject answers each test
    judge      each judge names the issues of each response; deductions give the score

A stage is pure: it gets the rows it reads and returns tasks, calls and rows. It does no I/O, reads no clock and draws
no unseeded numbers. `base` has the two kinds of stage, `spec` what a stage declares about its place in a run,
`forecast` what a plan assumes before there are rows, and `table` the list of stages. To add a stage, write its file and
add it to that list.

Prompts are filled in `wording` (inside `sandbox`, tried out with `samples`); replies are read in `reading`, which takes
JSON apart with `jsontext`.
"""
