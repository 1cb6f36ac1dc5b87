"""The reconcile loop: what is missing, start it, harvest what ended, again. `drive` runs it."""

from hab_ray.sweep.driver import UNANSWERED, Options, drive

__all__ = ["UNANSWERED", "Options", "drive"]
