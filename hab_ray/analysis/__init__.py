"""Statistics of a run: scores, bounds, missing rows and their reasons, signs of trouble.

`tables` holds the analyses that the report shows, one module and one template each; the other modules hold the code
they share. `summarise` makes one pass over a run's rows, and every analysis starts from its result.
"""
