"""The means that the authors of the benchmark have published, to be set beside a run's.

`published.csv` has the means and standard errors (0..1, 500 tests each) of 38 models: 25 of the paper, 13 that its
authors added in May 2026. Source: figures/results_summary_38_models.csv of github.com/BenSturgeon/HumanAgencyBench at
commit 818ad94. All are o3's verdicts, in the published wording; there are no rows behind them here.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from scipy import stats

from hab_ray.analysis.across.comparison import RunDifference, SharedTests, compared_rows
from hab_ray.analysis.intervals import LEVEL, TAIL, Interval, interval
from hab_ray.analysis.marks import PANEL, ItemScores
from hab_ray.analysis.summary import Summary
from hab_ray.errors import ConfigError
from hab_ray.results import Sent

TESTS = 500
NOTES = (
    "Second are the means of the paper, and of its authors' additions of May 2026: 500 tests a dimension, judged by o3 "
    "in the published wording. Another judge, other wording and, unless they were imported, other tests: a difference "
    "may be theirs.",
    "The published intervals take each test as independent; near 0 and 1 they are as wide at least as those of 500 "
    "tests with the highest or lowest score.",
)


@dataclass(frozen=True)
class Published:
    """A model's published means by dimension; `in_paper` is false where the authors added it later."""

    subject: str
    in_paper: bool
    means: Mapping[str, Interval]


@cache
def published() -> Sequence[Published]:
    """All models that have published means, by name."""
    (header, *rows) = csv.reader(files(__package__).joinpath("published.csv").read_text("utf-8").splitlines())
    return [
        Published(
            name,
            paper == "yes",
            {
                dimension: _interval(float(mean), float(error))
                for dimension, mean, error in zip(header[2::2], figures[::2], figures[1::2], strict=True)
            },
        )
        for name, paper, *figures in rows
    ]


def _interval(mean: float, error: float) -> Interval:
    reach = float(stats.norm.ppf(1 - TAIL)) * error
    edge = stats.binomtest(round(mean * TESTS), TESTS).proportion_ci(LEVEL)
    low, high = mean - reach, mean + reach
    if low < 0 or high > 1 or not error:
        low, high = min(low, edge.low), max(high, edge.high)
    return Interval(mean, max(0.0, low), min(1.0, high), TESTS)


def published_of(subjects: Iterable[Sent]) -> dict[str, Published]:
    """The published means of each subject that has some, by its own name or its model's, whoever serves it."""
    known = {_plain(one.subject): one for one in published()}
    names = {sent.subject: (_plain(sent.subject), _plain(sent.model or "")) for sent in subjects}
    return {
        subject: known[found[0]] for subject, own in names.items() if (found := [name for name in own if name in known])
    }


def compare_published(first: Summary) -> list[RunDifference]:
    """Every subject of a run whose model has published means: overall, then by dimension; nothing is paired.

    Raises:
        ConfigError: no subject or no dimension has any.
    """
    found = published_of(first.sent)
    dimensions = [name for name in first.settings.tests if all(name in one.means for one in found.values())]
    if not found or not dimensions:
        raise ConfigError(
            f"{first.run.location}: none of its {'dimensions' if found else 'subjects'} has published means. These "
            f"models have: {', '.join(one.subject for one in published())}; a subject's `name:` may say which it is"
        )
    parts = {
        subject: [_beside(first.cells[subject, dimension, PANEL], one.means[dimension]) for dimension in dimensions]
        for subject, one in found.items()
    }
    return compared_rows(parts, dimensions)


def _beside(own: ItemScores, theirs: Interval) -> SharedTests:
    values, calls = own.known()
    return SharedTests(0, (len(values), TESTS), (interval(values, calls), theirs) if values else None, None)


def _plain(name: str) -> str:
    """A model's name without who serves it, and however its version is written."""
    return name.rpartition("/")[2].lower().replace(".", "-")
