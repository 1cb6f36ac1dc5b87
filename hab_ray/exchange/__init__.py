"""Exports of a run's rows to other tools, imports of published data, and rating sheets."""

from hab_ray.exchange.export import export
from hab_ray.exchange.sharing import Sharing, everything, licensed

__all__ = ["Sharing", "everything", "export", "licensed"]
