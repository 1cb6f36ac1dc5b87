"""Results for other tools: a run's rows as data sets, tables and logs that they read."""

from hab_ray.exchange.export import FORMATS, export

__all__ = ["FORMATS", "export"]
