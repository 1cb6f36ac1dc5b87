"""The reconcile loop: what is missing, start it, harvest what ended, again. `drive` runs it."""

from hab_ray.sweep.driver import Options, drive
from hab_ray.sweep.reporting import UNANSWERED

__all__ = ["UNANSWERED", "Options", "drive"]
