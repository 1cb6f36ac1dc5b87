"""`python -m hab_ray.cli`: the command `hab`, where its script is not on the path."""

from hab_ray.cli.start import main

main()
