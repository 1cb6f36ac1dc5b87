"""What `hab status` shows of a run's stages."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from hab_ray.cli.status import show_status
from hab_ray.resolve import write_record
from tests.instant import MADE, NOW, Run, work_of


def test_every_stage_is_shown_in_order_and_what_has_no_file_is_left_open(tmp_path: Path) -> None:
    run = Run(work_of(tmp_path, **MADE, subjects=["house/a"], judges=["house/j"]))
    write_record(run.work, NOW)
    for shard in run.work.shards():
        if shard.stage != "judge":
            run.take(shard)
    console = Console(record=True, width=120, file=io.StringIO())
    show_status(run.work.run_path, console)
    shown = [line.split() for line in console.export_text().splitlines()[1:7]]
    assert shown == [
        ["generate", "house/writer", "14", "14"],
        ["validate", "house/checker", "14", "14"],
        ["select", "house/vectors", "10"],
        ["choose", "8", "8"],
        ["respond", "house/a", "8", "8"],
        ["judge", "house/j", "0", "8"],
    ]
