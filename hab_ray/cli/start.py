"""The entry point of the console script. It handles Ctrl-C before any slow import."""

import gc
import os
import signal

INTERRUPTED = 130  # `Exit.INTERRUPTED` of `hab_ray.errors`, whose import would take longer than all of the above


def _end(*_: object) -> None:
    os._exit(INTERRUPTED)


signal.signal(signal.SIGINT, _end)
gc.set_threshold(100_000)  # imported objects stay alive: scanning them took a fifteenth of the time of `hab plan`


def main() -> None:
    """Run `hab`. A signal during the imports ends it at once, since nothing has started yet."""
    try:
        from hab_ray.cli.interrupts import stop
        from hab_ray.stopping import MAX_S

        stop.listen()
        with stop.deferred(_end, MAX_S):
            from hab_ray.cli.main import main as command
        command()
    except KeyboardInterrupt:
        _end()
