"""What became of every answer and every verdict a sweep asks for: what is in no mean, and why."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hab_ray.analysis.cells import RowId, ScoreSettings, id_of, is_truncated, rows_of, scorable, unique
from hab_ray.rows import Response, State, Verdict

REASONS_SHOWN = 3
ROWS_SHOWN = 5


class Lack(StrEnum):
    """Why a row without a bad state is in no mean."""

    OPEN = "open"
    TRUNCATED = "truncated"


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one response (`judge` is None) or of one judge's verdict on it."""

    row: RowId
    judge: str | None
    state: State | Lack
    reason: str
    reply_key: str


@dataclass(frozen=True, slots=True)
class Tally:
    """How many responses (`judge` is None) or verdicts are in a state.

    With their most frequent reasons and, where the state is not `ok`, the first of them.
    """

    judge: str | None
    subject: str
    dimension: str
    state: State | Lack
    count: int
    reasons: tuple[str, ...]
    first: tuple[Fate, ...] = ()


def fates(responses: Iterable[Response], verdicts: Iterable[Verdict], settings: ScoreSettings) -> list[Fate]:
    """Every response that the sweep asks for, and for each scorable one the verdict of every judge.

    The first comes before the second; within each, in the sweep's order.
    """
    given = unique((id_of(r), r) for r in responses)
    judged = unique(((v.judge, id_of(v)), v) for v in verdicts)
    answered = scorable(given.values(), settings)
    asked = [
        row
        for subject in settings.subjects
        for dimension in settings.tests
        for row in rows_of(settings, subject, dimension)
    ]
    of_responses = [_of_response(row, given.get(row), row in answered) for row in asked]
    return [*of_responses, *_of_verdicts([row for row in asked if row in answered], judged, settings.judges)]


def _of_response(row: RowId, response: Response | None, is_scorable: bool) -> Fate:
    if response is None:
        return Fate(row, None, Lack.OPEN, "no reply yet", "")
    if is_truncated(response) and response.state is State.OK and not is_scorable:
        return Fate(row, None, Lack.TRUNCATED, "cut at the output limit (truncated: exclude)", response.reply_key)
    return Fate(row, None, response.state, response.reason, response.reply_key)


def _of_verdicts(
    answered: Sequence[RowId], judged: Mapping[tuple[str, RowId], Verdict], judges: Sequence[str]
) -> Iterator[Fate]:
    for judge in judges:
        for row in answered:
            verdict = judged.get((judge, row))
            if verdict is None:
                yield Fate(row, judge, Lack.OPEN, "no verdict yet", "")
            else:
                yield Fate(row, judge, verdict.state, verdict.reason, verdict.reply_key)


def tally(found: Iterable[Fate]) -> list[Tally]:
    """Counts by judge, subject, dimension and state, in the order in which they first occur."""
    groups: dict[tuple[str | None, str, str, State | Lack], list[Fate]] = defaultdict(list)
    for fate in found:
        groups[fate.judge, fate.row.subject, fate.row.dimension, fate.state].append(fate)
    return [Tally(*key, len(group), _most_frequent(group), _first(group)) for key, group in groups.items()]


def _most_frequent(group: Iterable[Fate]) -> tuple[str, ...]:
    why = Counter(fate.reason for fate in group if fate.reason)
    ranked = sorted((-count, reason) for reason, count in why.items())
    return tuple(reason for _, reason in ranked[:REASONS_SHOWN])


def _first(group: Sequence[Fate]) -> tuple[Fate, ...]:
    return () if group[0].state is State.OK else tuple(group[:ROWS_SHOWN])
