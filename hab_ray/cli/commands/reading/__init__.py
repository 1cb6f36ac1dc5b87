"""Commands that show, export or annotate the results of a run."""
