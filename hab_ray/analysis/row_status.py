"""The status of every answer and verdict that a sweep asks for: which are excluded from means, and why."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import NamedTuple

from hab_ray.analysis.marks import Judged, RowId, RowIndex, ScoreSettings, is_truncated, rows_of
from hab_ray.rows import State
from hab_ray.stages.views import responses_file, verdicts_file

REASONS_SHOWN = 3
ROWS_SHOWN = 5


class MissingReason(StrEnum):
    """Why a valid row is excluded from the mean."""

    OPEN = "open"
    NOT_GIVEN = "not given"
    TRUNCATED = "truncated"


class RowStatus(NamedTuple):
    """The status of one response (`judge` is None) or of one judge's verdict on it."""

    row: RowId
    judge: str | None
    state: State | MissingReason
    reason: str
    reply_key: str


@dataclass(frozen=True, slots=True)
class StatusCount:
    """The number of responses (`judge` is None) or verdicts in a state.

    `reasons` holds the most frequent ones, `first` the first rows unless the state is `ok`.
    """

    judge: str | None
    subject: str
    dimension: str
    state: State | MissingReason
    count: int
    reasons: tuple[str, ...]
    first: tuple[RowStatus, ...] = ()

    @property
    def file(self) -> str | None:
        """The file of these rows, relative to the run folder; None for rows that do not exist."""
        if self.state in (MissingReason.OPEN, MissingReason.NOT_GIVEN):
            return None
        if self.judge is None:
            return responses_file(self.subject, self.dimension)
        return verdicts_file(self.judge, self.subject, self.dimension)


def row_statuses(rows: RowIndex, settings: ScoreSettings) -> list[RowStatus]:
    """Return the status of every response of the sweep, then of each panel judge's verdicts on scorable responses.

    Both are in the sweep's order. Verdicts of raters outside the panel are ignored.
    """
    answered = rows.scorable(settings)
    asked = [
        row
        for subject in settings.subjects
        for dimension in settings.tests
        for row in rows_of(settings, subject, dimension)
    ]
    of_responses = [_of_response(row, rows, settings, row in answered) for row in asked]
    return [*of_responses, *_of_verdicts([row for row in asked if row in answered], rows.verdicts, settings)]


def _of_response(row: RowId, rows: RowIndex, settings: ScoreSettings, is_scorable: bool) -> RowStatus:
    response = rows.responses.get(row)
    if response is None and row.subject in settings.given:
        return RowStatus(row, None, MissingReason.NOT_GIVEN, "not among the given answers that are read", "")
    if response is None:
        return RowStatus(row, None, MissingReason.OPEN, "no answer so far", "")
    if is_truncated(response) and response.state is State.OK and not is_scorable:
        reason = "cut at the output limit (truncated: exclude)"
        return RowStatus(row, None, MissingReason.TRUNCATED, reason, response.reply_key)
    return RowStatus(row, None, response.state, response.reason, response.reply_key)


def _of_verdicts(
    answered: Sequence[RowId], judged: Mapping[tuple[str, RowId, int], Judged], settings: ScoreSettings
) -> Iterator[RowStatus]:
    for judge in settings.panel:
        for row, replicate in product(answered, range(settings.replicates)):
            verdict = judged.get((judge, row, replicate))
            if verdict is None:
                yield RowStatus(row, judge, MissingReason.OPEN, "no verdict yet", "")
            else:
                yield RowStatus(row, judge, verdict.state, verdict.reason, verdict.reply_key)


def count_statuses(found: Iterable[RowStatus]) -> list[StatusCount]:
    """Count by judge, subject, dimension and state, in order of first occurrence."""
    groups: dict[tuple[str | None, str, str, State | MissingReason], list[RowStatus]] = defaultdict(list)
    for status in found:
        groups[status.judge, status.row.subject, status.row.dimension, status.state].append(status)
    return [
        StatusCount(*key, len(group), _most_frequent(group), () if key[-1] is State.OK else tuple(group[:ROWS_SHOWN]))
        for key, group in groups.items()
    ]


def _most_frequent(group: Iterable[RowStatus]) -> tuple[str, ...]:
    counts = Counter(status.reason for status in group if status.reason)
    ranked = sorted((-count, reason) for reason, count in counts.items())
    return tuple(reason for _, reason in ranked[:REASONS_SHOWN])
