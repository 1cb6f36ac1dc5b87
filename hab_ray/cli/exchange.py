"""`hab export`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from hab_ray.errors import Exit
from hab_ray.exchange import Sharing, export, remove_leftovers
from hab_ray.location import Location
from hab_ray.results import Run, open_run


def export_run(
    location: Location,
    form: str,
    folder: Path,
    licence: str,
    may_leave: Callable[[Run], Sharing],
    console: Console,
) -> Exit:
    """Write the export of what may leave the run, print its files, and say what is left out."""
    run = open_run(location)
    sharing = may_leave(run)
    for path in remove_leftovers(folder, time.time()):
        console.print(f"{path}: removed; an export that was killed left it", soft_wrap=True)
    for path in export(run, form, folder, licence, sharing):
        console.print(f"{path}  {path.stat().st_size:,} bytes", soft_wrap=True, markup=False, highlight=False)
    for source in sharing.left_out:
        console.print(f"left out: {source}", style="yellow", soft_wrap=True, markup=False, highlight=False)
    if sharing.left_out:
        console.print(sharing.remedies, style="yellow", soft_wrap=True, markup=False, highlight=False)
    return Exit.COMPLETE
