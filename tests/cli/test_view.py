"""What `hab run` prints while it runs where there is no terminal."""

from __future__ import annotations

import io

from rich.console import Console

from hab_ray.cli.view import LINE_EVERY_S, View
from hab_ray.progress import Progress, StageProgress


def test_an_endpoint_that_is_away_is_told_at_once_and_again_with_each_line() -> None:
    console = Console(file=io.StringIO(), width=200, record=True)
    view = View(console)
    line = StageProgress("respond", "m", 10, 0, 0, 1)
    for seconds, outages in (
        (1.0, {}),
        (1.2, {"lab": "refused, 1 try, giving up in 10 min"}),
        (1.4, {"lab": "refused, 2 tries, giving up in 10 min"}),
        (1.2 + LINE_EVERY_S, {"lab": "refused, 9 tries, giving up in 9 min"}),
        (1.2 + 2 * LINE_EVERY_S, {}),
    ):
        view.update(Progress("", seconds, (line,), 1, 0, 0, (), outages=outages))
    printed = [text for text in console.export_text().splitlines() if text.startswith("lab:")]
    assert printed == ["lab: refused, 1 try, giving up in 10 min", "lab: refused, 9 tries, giving up in 9 min"]
