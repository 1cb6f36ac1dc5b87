"""The reconcile loop: what is missing, start it, harvest what ended, again. `drive` runs it."""

from hab_ray.sweep.options import Options
from hab_ray.sweep.run import drive

__all__ = ["Options", "drive"]
