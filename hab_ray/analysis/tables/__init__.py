"""The analyses that the report shows: one module and one template each, see `hab_ray.analysis.registry`."""
