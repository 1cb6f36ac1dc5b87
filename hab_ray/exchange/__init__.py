"""Results for other tools: a run's rows as data sets, tables and logs that they read."""

from hab_ray.exchange.export import FORMATS, export, remove_leftovers
from hab_ray.exchange.sharing import Sharing, everything, licensed

__all__ = ["FORMATS", "Sharing", "everything", "export", "licensed", "remove_leftovers"]
