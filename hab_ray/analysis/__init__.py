"""What follows from the rows of a run: scores, bounds, what is missing and why, signs of trouble.

`tables` holds the analyses that the report shows, one file and one template each; the other modules are what these
share. `summarise` makes one pass over a run's rows, and every analysis starts from its result.
"""
