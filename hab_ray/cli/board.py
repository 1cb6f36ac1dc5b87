"""The leaderboard, under what has to be known of the judges whose scores it shows."""

from __future__ import annotations

import logging
from dataclasses import asdict

from rich.console import Console

from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.findings import of_judges, unreadable
from hab_ray.report import leaderboard
from hab_ray.sweep.log import LOG
from hab_ray.visible import one_line


def show_board(summary: Summary, console: Console) -> None:
    """Print the leaderboard, above it what has to be known of its judges; where a log is kept, the scores go there."""
    for finding in of_judges(summary):
        console.print(one_line(f"{finding.title}. {finding.detail}"), style="yellow", soft_wrap=True)
    if lost := unreadable(summary.statuses):
        console.print(one_line(f"unreadable verdicts: {', '.join(lost)}"), soft_wrap=True)
    for line in summary.bridge.spoken():
        console.print(one_line(line), soft_wrap=True)
    if LOG.isEnabledFor(logging.INFO):
        LOG.info("scores", extra={"fields": {"scores": [asdict(score) for score in summary.scores]}})
    else:
        console.print(leaderboard(summary.scores))
