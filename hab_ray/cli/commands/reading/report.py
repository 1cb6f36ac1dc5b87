"""`hab report`: rewrite a run's scores and report."""

from collections.abc import Iterable, Mapping
from math import isclose

from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.summary import Summary
from hab_ray.cli.ending import console, ends_with_status, say, warn
from hab_ray.cli.interrupts import stop
from hab_ray.cli.opening import load_run
from hab_ray.cli.options import RunFolderArgument
from hab_ray.cli.views.board import show_board
from hab_ray.errors import ConfigError, DamagedFile, Exit
from hab_ray.location import Location
from hab_ray.resolve import refuse_other_store
from hab_ray.results import open_run
from hab_ray.rows import Score, from_table
from hab_ray.stages.replies.reading import READER_VERSION
from hab_ray.storage.record import amend_record, read_record
from hab_ray.sweep.reread import needs_rereading, reread_verdicts
from hab_ray.sweep.session import spending
from hab_ray.sweep.start import write_results
from hab_ray.visible import counted, one_line
from hab_ray.work import Work

Scores = Mapping[tuple[str, str, str], Score]
"""Scores by subject, dimension and judge."""


def show_results(work: Work) -> Summary:
    """Write scores and report; print the leaderboard and the report's path."""
    summary, report = write_results(work)
    show_board(summary, console)
    say(f"report: {report}")
    return summary


@ends_with_status
def command(run: RunFolderArgument) -> Exit:
    """Rewrite a run's scores and report from its files, and show the leaderboard."""
    work = load_run(run)
    if needs_rereading(work):
        _read_again(work)
    if others := _changed_rubrics(work):
        warn(f"rubric {', '.join(others)}: changed since the run; the report shows its present text beside old scores")
    before = _scores_in(work.run_path)
    after = _by_name(show_results(work).scores)
    if before is None:
        say("the scores that were in the folder cannot be read; they were written anew, and not compared")
    elif before:
        say(_compared(before, after))
    return Exit.COMPLETE


def _read_again(work: Work) -> None:
    """Read verdicts again by the present rules, if the run's store with the replies is there."""
    try:
        refuse_other_store(work)
    except ConfigError:
        warn(
            f"the run's store, with the judges' replies, is not at {work.sweep.store}: the verdicts are reported as an "
            "earlier version of hab read them; put the store there to have them read again"
        )
        return
    with spending(work, stop, warn):
        reread_verdicts(work, warn)
        amend_record(work.run_path, reader_version=READER_VERSION)


def _changed_rubrics(work: Work) -> list[str]:
    """Return the dimensions whose rubric is not the one by which the run was judged."""
    record = read_record(work.run_path)
    recorded = record.rubric_hashes if record else {}
    return [name for name, rubric in work.rubrics.items() if recorded.get(name, rubric.sha256) != rubric.sha256]


def _scores_in(run: Location) -> Scores | None:
    """Return the scores in a run's folder; None if their file is damaged."""
    try:
        return _by_name(from_table(Score, open_run(run).scores()))
    except DamagedFile:
        return None


def _by_name(scores: Iterable[Score]) -> Scores:
    return {(score.subject, score.dimension, score.judge): score for score in scores}


def _compared(before: Scores, after: Scores) -> str:
    """Say whether the scores that the folder came with are those that its verdicts give, and name one that is not."""
    others = [name for name, score in before.items() if name not in after or not _equal(score, after[name])]
    if not others:
        return f"the scores that were in the folder are the same ({len(before):,} compared)"
    texts = {name: (_words(before[name]), _words(after.get(name))) for name in others}
    name = min(others, key=lambda name: (len({*texts[name]}) == 1, name[2] != PANEL, name[1] != OVERALL))
    was, now = texts[name]
    subject, dimension, judge = map(one_line, name)
    shown = f"{subject}, {dimension}, by {judge}: {was} before, {now} now"
    return f"{len(others):,} of the {len(before):,} scores that were in the folder are others now, such as {shown}"


def _equal(one: Score, other: Score) -> bool:
    """Whether two scores are equal, but for the rounding of other machines and library versions."""
    pairs = ((one.mean, other.mean), (one.low, other.low), (one.high, other.high))
    near = (a == b or (a is not None and b is not None and isclose(a, b, abs_tol=1e-6)) for a, b in pairs)
    return one.n == other.n and all(near)


def _words(score: Score | None) -> str:
    if score is None:
        return "none"
    mean = "none" if score.mean is None else f"{score.mean:.3f}"
    interval = "" if score.low is None or score.high is None else f" ({score.low:.3f} to {score.high:.3f})"
    return f"{mean}{interval} of {counted(score.n, 'answer')}"
