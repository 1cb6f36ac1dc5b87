"""The entry point of the console script: it listens to Ctrl-C before the command is imported, which takes a while."""

from __future__ import annotations

import os
from functools import partial

from hab_ray.cli.interrupts import stop
from hab_ray.errors import Exit
from hab_ray.stopping import LONGEST_S

_end = partial(os._exit, int(Exit.INTERRUPTED))


def main() -> None:
    """Run `hab`. A signal while it is imported ends it at once, as nothing has been begun."""
    try:
        stop.listen()
        with stop.deferred(_end, LONGEST_S):
            from hab_ray.cli.main import main as command
        command()
    except KeyboardInterrupt:
        _end()
