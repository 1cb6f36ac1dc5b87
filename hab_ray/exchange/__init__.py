"""Exports of a run's rows to other tools, imports of published data, and rating sheets."""

from hab_ray.exchange.export import FORMATS, export, remove_leftovers
from hab_ray.exchange.sharing import Sharing, everything, licensed

__all__ = ["FORMATS", "Sharing", "everything", "export", "licensed", "remove_leftovers"]
