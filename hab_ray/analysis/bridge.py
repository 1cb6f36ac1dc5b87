"""Reads from a run what its judges and those of earlier studies said of the same answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from hab_ray.analysis.marks import ScoreSettings
from hab_ray.analysis.shifts import Compared, issue_shifts, score_maps, shifts
from hab_ray.calls import Finish
from hab_ray.results import Run, rows_in
from hab_ray.rows import IssueShift, Rater, ScoreMap, Shift, State
from hab_ray.rubric import SCORE_START, Rubric

_Answer = tuple[str, int]
_Cells = dict[tuple[str, str], dict[str, Compared]]


@dataclass(frozen=True)
class Bridge:
    """Every judge, varied or not, beside every judge of an earlier study: shifts, issues and maps of scores."""

    shifts: tuple[Shift, ...] = ()
    issues: tuple[IssueShift, ...] = ()
    maps: tuple[ScoreMap, ...] = ()

    def spoken(self) -> Iterator[str]:
        """One line for each judge and earlier judge, over all dimensions."""
        for _, lines in groupby(self.shifts, lambda shift: (shift.judge, shift.rater)):
            last = list(lines)[-1]
            interval = "" if last.low is None else f" ({last.low:+.3f} to {last.high:+.3f})"
            if last.difference is not None:
                yield (
                    f"{last.judge} minus {last.rater}: {last.difference:+.3f}{interval} on {last.answers:,} answers to "
                    f"{last.tests:,} tests"
                )


class Said(NamedTuple):
    """A verdict without its texts, as its table has it."""

    test_id: str
    sample: int
    judge: str
    kind: str
    state: str
    score: float | None
    issues: Sequence[str] | None


def bridge_of(run: Run, settings: ScoreSettings, rubrics: Mapping[str, Rubric]) -> Bridge:
    """What a run's judges and those of earlier studies said; empty where the run has no verdicts of such.

    A varied judge is compared in the dimensions in which it has read something.
    """
    cells: _Cells = {}
    for subject, dimension, table in run.further_verdicts(columns=Said._fields):
        earlier = _by_judge(row for row in map(Said._make, rows_in(table)) if row.kind == Rater.PUBLISHED)
        if not earlier:
            continue
        answered = _answered(run, settings, subject, dimension)
        letters = rubrics[dimension].issue_letters()
        for judge in _judges(run):
            verdicts = rows_in(run.verdicts(judge, subject, dimension, columns=Said._fields))
            now = _by_judge(map(Said._make, verdicts)).get(judge, {})
            if now or judge in settings.panel:
                for rater, then in earlier.items():
                    cell = cells.setdefault((judge, rater), {}).setdefault(dimension, Compared())
                    _compare(cell, now, then, answered, letters)
    order = {judge: place for place, judge in enumerate(_judges(run))}
    found = [(*who, cells[who]) for who in sorted(cells, key=lambda who: (who[1], order[who[0]]))]
    return Bridge(
        tuple(shift for each in found for shift in shifts(*each)),
        tuple(issue for each in found for issue in issue_shifts(*each)),
        tuple(level for each in found for level in score_maps(*each)),
    )


def _judges(run: Run) -> Iterator[str]:
    """Every judge, with its variants behind it."""
    varied = run.record.sweep.varied_judges
    for judge in run.panel:
        yield judge
        yield from (each.name for each in varied if each.base == judge)


def _by_judge(rows: Iterable[Said]) -> Mapping[str, Mapping[_Answer, list[Said]]]:
    """Verdicts by judge and by the answer that they are on."""
    found: dict[str, dict[_Answer, list[Said]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row.judge][row.test_id, row.sample].append(row)
    return found


def _answered(run: Run, settings: ScoreSettings, subject: str, dimension: str) -> set[_Answer]:
    """The answers of a subject that judges read and that enter means."""
    rows = rows_in(run.responses(subject, dimension, columns=["test_id", "sample", "state", "finish"]))
    left_out = {Finish.TRUNCATED} if settings.truncated == "exclude" else set()
    return {(test, sample) for test, sample, state, finish in rows if state == State.OK and finish not in left_out}


def _compare(
    cell: Compared,
    now: Mapping[_Answer, list[Said]],
    then: Mapping[_Answer, list[Said]],
    answered: set[_Answer],
    letters: Sequence[str],
) -> None:
    """Take in what both said of one subject's answers."""
    read = {answer: [row for row in rows if _score(row) is not None] for answer, rows in now.items()}
    for answer, (earlier, *_) in then.items():
        if answer not in answered:
            cell.no_answer += 1
        elif _score(earlier) is None:
            cell.failed_then += 1
        elif not read.get(answer):
            cell.failed_now += 1
    for answer, readings in read.items():
        if not readings or answer not in answered:
            continue
        marks = [mark for row in readings if (mark := _score(row)) is not None]
        earlier_row = next(iter(then.get(answer, ())), None)
        before = _score(earlier_row) if earlier_row else None
        if earlier_row is None or before is None:
            cell.add_alone(answer[0], marks)
            continue
        cell.add(answer[0], marks, before)
        if earlier_row.issues is not None:
            for row in readings:
                cell.add_issues(letters, row.issues or (), earlier_row.issues)


def _score(row: Said) -> float | None:
    """A verdict's score from 0 to 1; None where it has failed."""
    return row.score / SCORE_START if row.state == State.OK and row.score is not None else None
