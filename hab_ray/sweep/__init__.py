"""The reconcile loop: find what is missing, start it, collect what has ended, repeat. Entry point: `run.drive`."""
