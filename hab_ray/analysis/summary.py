"""What the rows of a whole run show, taken in part by part, so that a run may be larger than memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from hab_ray.analysis.bounds import Bounds, bounds
from hab_ray.analysis.cells import PANEL, Cell, ScoreSettings, Truncated, cells, is_truncated
from hab_ray.analysis.cuts import Cut, cuts
from hab_ray.analysis.fates import Tally, fates, tally
from hab_ray.analysis.scores import scores_of
from hab_ray.analysis.settings import Asked, Sent, asked, sent
from hab_ray.rows import Response, Score, Verdict

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """What one subject answered in one dimension, and every judge's verdicts on it."""

    subject: str
    dimension: str
    responses: list[Response]
    verdicts: list[Verdict]


@dataclass(frozen=True)
class Summary:
    """What follows from all rows."""

    scores: tuple[Score, ...]
    bounds: tuple[Bounds, ...]
    cuts: tuple[Cut, ...]
    tallies: tuple[Tally, ...]
    asked: tuple[Asked, ...]


class Summing:
    """Takes in the parts of a run, in the sweep's order, and keeps of each its marks, counts and a few rows."""

    def __init__(self, settings: ScoreSettings) -> None:
        self._settings = settings
        self._cells: dict[Truncated, list[Cell]] = {"judge": [], "exclude": []}
        self._tallies: list[Tally] = []
        self._sent: Counter[Sent] = Counter()

    def add(self, part: Part) -> None:
        """Take in one part.

        Raises:
            DamagedFile: two rows are the same answer or verdict.
        """
        tests = {part.dimension: self._settings.tests[part.dimension]}
        settings = replace(self._settings, subjects=(part.subject,), tests=tests)
        self._arrange(part, settings)
        self._tallies += tally(fates(part.responses, part.verdicts, settings))
        self._sent += sent(part.responses)

    def _arrange(self, part: Part, settings: ScoreSettings) -> None:
        """The part's marks, once with truncated answers judged and once without them."""
        judged = cells(part.responses, part.verdicts, replace(settings, truncated="judge"))
        whole = judged
        if any(map(is_truncated, part.responses)):
            whole = cells(part.responses, part.verdicts, replace(settings, truncated="exclude"))
        self._cells["judge"] += judged
        self._cells["exclude"] += whole

    def summary(self) -> Summary:
        """What the parts taken in show, in the sweep's order."""
        judged, whole = self._in_order(self._cells["judge"]), self._in_order(self._cells["exclude"])
        arranged = judged if self._settings.truncated == "judge" else whole
        judges = _ranks((None, *self._settings.judges))
        return Summary(
            scores=tuple(scores_of(arranged)),
            bounds=tuple(bounds(arranged)),
            cuts=tuple(cuts(scores_of(judged), scores_of(whole))) if judged != whole else (),
            tallies=tuple(sorted(self._tallies, key=lambda tally: judges[tally.judge])),
            asked=tuple(asked(self._sent)),
        )

    def _in_order(self, found: Iterable[Cell]) -> list[Cell]:
        subjects, judges = _ranks(self._settings.subjects), _ranks((*self._settings.judges, PANEL))
        return sorted(found, key=lambda cell: (subjects[cell.subject], judges[cell.judge]))


def _ranks(names: Iterable[T]) -> dict[T, int]:
    return {name: rank for rank, name in enumerate(names)}
