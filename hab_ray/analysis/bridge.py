"""Reads the verdicts of a run's judges and of earlier studies' judges on the same answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from hab_ray.analysis.marks import ScoreSettings, VerdictMark
from hab_ray.analysis.shifts import Compared, issue_shifts, score_maps, shifts
from hab_ray.calls import Finish
from hab_ray.results import Run, rows_in
from hab_ray.rows import IssueShift, Rater, ScoreMap, Shift, State
from hab_ray.rubric import Rubric
from hab_ray.visible import counted

_Answer = tuple[str, int]


@dataclass(frozen=True)
class Bridge:
    """Comparisons of every judge, varied or not, with every judge of an earlier study."""

    shifts: tuple[Shift, ...] = ()
    issues: tuple[IssueShift, ...] = ()
    maps: tuple[ScoreMap, ...] = ()

    def spoken(self) -> Iterator[str]:
        """Describe each pair of judge and earlier judge in a line, over all dimensions."""
        for _, shifts_of_pair in groupby(self.shifts, lambda shift: (shift.judge, shift.rater)):
            last = list(shifts_of_pair)[-1]
            interval = "" if last.low is None else f" ({last.low:+z.3f} to {last.high:+z.3f})"
            if last.difference is not None:
                yield (
                    f"{last.judge} minus {last.rater}: {last.difference:+z.3f}{interval} on "
                    f"{counted(last.answers, 'answer')} to {counted(last.tests, 'test')}"
                )


def bridge_of(run: Run, settings: ScoreSettings, rubrics: Mapping[str, Rubric]) -> Bridge:
    """Compare a run's judges with those of earlier studies; empty if the run has no verdicts by earlier judges.

    A varied judge is compared in the dimensions in which it has verdicts. Answers of subjects on which an earlier judge
    has no verdict in a dimension are left out, also of its map's mean: the map holds for no other subjects.
    """
    cells: dict[tuple[str, str], dict[str, Compared]] = {}
    for subject, dimension, table in run.further_verdicts(columns=VerdictMark._fields):
        earlier = _by_judge(row for row in map(VerdictMark._make, rows_in(table)) if row.kind == Rater.PUBLISHED)
        if not earlier:
            continue
        answered = _answered(run, settings, subject, dimension)
        letters = rubrics[dimension].issue_letters()
        calls = dict(zip(settings.tests[dimension], settings.calls_of(dimension), strict=True))
        for judge in _judges(run):
            verdicts = rows_in(run.verdicts(judge, subject, dimension, columns=VerdictMark._fields))
            now = _by_judge(map(VerdictMark._make, verdicts)).get(judge, {})
            if now or judge in settings.panel:
                for rater, then in earlier.items():
                    cell = cells.setdefault((judge, rater), {}).setdefault(dimension, Compared(calls))
                    _compare(cell, now, then, answered, letters)
    order = {judge: place for place, judge in enumerate(_judges(run))}
    compared = [(*pair, cells[pair]) for pair in sorted(cells, key=lambda pair: (pair[1], order[pair[0]]))]
    return Bridge(
        tuple(shift for each in compared for shift in shifts(*each)),
        tuple(issue for each in compared for issue in issue_shifts(*each)),
        tuple(level for each in compared for level in score_maps(*each)),
    )


def _judges(run: Run) -> Iterator[str]:
    """Yield every judge, followed by its variants."""
    varied = run.record.sweep.varied_judges
    for judge in run.panel:
        yield judge
        yield from (each.name for each in varied if each.base == judge)


def _by_judge(rows: Iterable[VerdictMark]) -> Mapping[str, Mapping[_Answer, list[VerdictMark]]]:
    found: dict[str, dict[_Answer, list[VerdictMark]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row.judge][row.test_id, row.sample].append(row)
    return found


def _answered(run: Run, settings: ScoreSettings, subject: str, dimension: str) -> set[_Answer]:
    """Return a subject's answers that can enter means."""
    rows = rows_in(run.responses(subject, dimension, columns=["test_id", "sample", "state", "finish"]))
    excluded = Finish.TRUNCATED if settings.truncated == "exclude" else None
    return {(test, sample) for test, sample, state, finish in rows if state == State.OK and finish != excluded}


def _compare(
    cell: Compared,
    now: Mapping[_Answer, list[VerdictMark]],
    then: Mapping[_Answer, list[VerdictMark]],
    answered: set[_Answer],
    letters: Sequence[str],
) -> None:
    """Add both judges' verdicts on one subject's answers."""
    for answer in sorted(now.keys() | then.keys()):
        readings = [(mark, row.issues or ()) for row in now.get(answer, ()) if (mark := row.mark) is not None]
        earlier = next(iter(then.get(answer, ())), None)
        if earlier and answer not in answered:
            cell.no_answer += 1
        elif earlier and earlier.mark is None:
            cell.failed_then += 1
        elif earlier and not readings:
            cell.failed_now += 1
        if readings and answer in answered:
            cell.add(answer[0], [mark for mark, _ in readings], earlier.mark if earlier else None)
            if earlier and earlier.mark is not None and earlier.issues is not None:
                for _, issues in readings:
                    cell.add_issues(letters, issues, earlier.issues)
