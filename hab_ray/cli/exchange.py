"""`hab export`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from hab_ray.errors import Exit
from hab_ray.exchange import export
from hab_ray.location import Location
from hab_ray.results import open_run


def export_run(run: Location, form: str, folder: Path, licence: str, console: Console) -> Exit:
    """Write the export and print its files."""
    for path in export(open_run(run), form, folder, licence):
        console.print(f"{path}  {path.stat().st_size:,} bytes", soft_wrap=True, markup=False, highlight=False)
    return Exit.COMPLETE
