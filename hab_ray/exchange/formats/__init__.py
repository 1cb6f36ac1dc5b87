"""One module for each format of `hab export`, called as the format is; `hab_ray.exchange.export` finds them."""
