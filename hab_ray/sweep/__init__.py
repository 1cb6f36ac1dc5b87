"""The reconcile loop: what is missing, start it, harvest what ended, again. `run.drive` runs it."""
