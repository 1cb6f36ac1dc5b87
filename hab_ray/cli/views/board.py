"""The leaderboard, under what was declared beforehand and the worst of what has to be known before it is read."""

from __future__ import annotations

import logging
from dataclasses import asdict

from rich.console import Console

from hab_ray.analysis.signs.finding import worst
from hab_ray.analysis.signs.judging import unreadable
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.declared import told
from hab_ray.analysis.tables.leaderboard import ranks_of
from hab_ray.analysis.tables.trust.findings import findings
from hab_ray.report import leaderboard
from hab_ray.sweep.telling.log import LOG
from hab_ray.visible import one_line


def show_board(summary: Summary, console: Console) -> None:
    """Print what was declared, the worst findings and the leaderboard; where a log is kept, the scores go there."""
    for line in told(summary):
        console.print(one_line(line), soft_wrap=True)
    for finding in worst(findings(summary)):
        sentences = f"{finding.title}. {finding.detail} {finding.remedy}"
        console.print(one_line(sentences), style="yellow", soft_wrap=True)
    if lost := unreadable(summary.statuses):
        console.print(one_line(f"unreadable verdicts: {', '.join(lost)}"), soft_wrap=True)
    for line in summary.bridge.spoken():
        console.print(one_line(line), soft_wrap=True)
    if LOG.isEnabledFor(logging.INFO):
        LOG.info("scores", extra={"fields": {"scores": [asdict(score) for score in summary.scores]}})
    else:
        console.print(leaderboard(summary.scores, ranks_of(summary)))
