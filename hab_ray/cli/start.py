"""The entry point of the console script: Ctrl-C is heard before anything is imported that takes a while."""

from __future__ import annotations

import gc
import os
import signal

INTERRUPTED = 130  # `hab_ray.errors.Exit`, whose import takes longer than everything above


def _end(*_: object) -> None:
    os._exit(INTERRUPTED)


signal.signal(signal.SIGINT, _end)
gc.set_threshold(100_000)  # what is imported stays: to look it through took a fifteenth of `hab plan`


def main() -> None:
    """Run `hab`. A signal while it is imported ends it at once, as nothing has been begun."""
    try:
        from hab_ray.cli.interrupts import stop
        from hab_ray.stopping import MAX_S

        stop.listen()
        with stop.deferred(_end, MAX_S):
            from hab_ray.cli.main import main as command
        command()
    except KeyboardInterrupt:
        _end()
