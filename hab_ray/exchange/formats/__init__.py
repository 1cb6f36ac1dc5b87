"""One module per format of `hab export`, with the format's name; `hab_ray.exchange.export` finds them."""
