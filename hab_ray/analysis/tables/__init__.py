"""The analyses that the report shows, one module and one template each (see `hab_ray.analysis.registry`).

Those of the scores stand here, those of whether they can be trusted in `trust`.
"""
