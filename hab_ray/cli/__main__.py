"""`python -m hab_ray.cli`: runs `hab` when its script is not on the PATH."""

from hab_ray.cli.start import main

main()
