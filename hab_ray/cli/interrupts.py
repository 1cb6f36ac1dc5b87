"""The one handler of Ctrl-C and SIGTERM of the command `hab`."""

from hab_ray.stopping import Stop

stop = Stop()
