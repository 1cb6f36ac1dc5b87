"""The six steps of the method, one module each; `hab_ray.stages` lists them in order."""
