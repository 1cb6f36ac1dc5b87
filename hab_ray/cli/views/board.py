"""The leaderboard, below the declared analyses and the worst findings, which readers need to know first."""

import logging
from dataclasses import asdict

from rich.console import Console

from hab_ray.analysis.evidence.making import fewer_tests
from hab_ray.analysis.signs.finding import Severity, worst
from hab_ray.analysis.signs.judging import unreadable
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.declared import sentences as declared_lines
from hab_ray.analysis.tables.leaderboard import ranks_of
from hab_ray.analysis.tables.trust.findings import findings
from hab_ray.cli.views.terminal import print_line
from hab_ray.report import leaderboard
from hab_ray.sweep.monitoring.log import LOG

DETAILS = 'details: the report, "Before you use these scores"'


def show_board(summary: Summary, console: Console) -> None:
    """Print declared analyses, the worst findings in a line each, and the leaderboard; with a JSON log, log the scores.

    Without any score there is no leaderboard, and only findings of high severity.
    """
    is_scored = any(score.mean is not None for score in summary.scores)
    for line in declared_lines(summary):
        print_line(line, console)
    shown = [each for each in worst(findings(summary)) if is_scored or each.severity is Severity.HIGH]
    for finding in shown:
        print_line(finding.headline, console, "yellow")
    if shown:
        print_line(DETAILS, console)
    if lost := unreadable(summary.statuses):
        print_line(f"unreadable verdicts: {', '.join(lost)}", console)
    for line in summary.bridge.spoken():
        print_line(line, console)
    if fewer := fewer_tests(summary.run):
        print_line(fewer, console)
    if LOG.isEnabledFor(logging.INFO):
        LOG.info("scores", extra={"fields": {"scores": [asdict(score) for score in summary.scores]}})
    elif is_scored:
        console.print(leaderboard(summary.scores, ranks_of(summary)), crop=False)
