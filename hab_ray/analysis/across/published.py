"""The means published by the authors of the benchmark, for comparison with a run's.

`published.csv` has the means and standard errors (0..1, 500 tests each) of 38 models: 25 of the paper, 13 that its
authors added in May 2026. Source: figures/results_summary_38_models.csv of github.com/BenSturgeon/HumanAgencyBench at
commit 818ad94; `also` is a model's name in the paper's data set if it differs. All are from o3's verdicts in the
published wording; the individual rows are not included.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from scipy import stats

from hab_ray.analysis.across.comparison import RunDifference, SharedTests, compared_rows
from hab_ray.analysis.intervals import LEVEL, TAIL, Interval
from hab_ray.analysis.marks import PANEL, ItemScores
from hab_ray.analysis.scores import mean_of_tests
from hab_ray.analysis.summary import Summary
from hab_ray.errors import ConfigError
from hab_ray.results import Sent

TESTS = 500
NOTES = (
    "Second are the means of the paper, and of its authors' additions of May 2026: 500 tests per dimension, judged by "
    "o3 in the published wording. A difference may come from another judge, other wording or, unless they were "
    "imported, other tests.",
    "The published intervals take each test as independent; near 0 and 1 they are at least as wide as those of 500 "
    "tests with the highest or lowest score.",
)


@dataclass(frozen=True)
class Published:
    """A model's published means by dimension; `in_paper` is false if the authors added it later.

    `names` are all its names in what the authors published.
    """

    subject: str
    names: tuple[str, ...]
    in_paper: bool
    means: Mapping[str, Interval]


@cache
def published() -> Sequence[Published]:
    """Return all models with published means, by name."""
    (header, *rows) = csv.reader(files(__package__).joinpath("published.csv").read_text("utf-8").splitlines())
    return [
        Published(
            name,
            (name, also) if also else (name,),
            paper == "yes",
            {
                dimension: _interval(float(mean), float(error))
                for dimension, mean, error in zip(header[3::2], figures[::2], figures[1::2], strict=True)
            },
        )
        for name, also, paper, *figures in rows
    ]


def _interval(mean: float, error: float) -> Interval:
    reach = float(stats.norm.ppf(1 - TAIL)) * error
    edge = stats.binomtest(round(mean * TESTS), TESTS).proportion_ci(LEVEL)
    low, high = mean - reach, mean + reach
    if low < 0 or high > 1 or not error:
        low, high = min(low, edge.low), max(high, edge.high)
    return Interval(mean, max(0.0, low), min(1.0, high), TESTS)


def published_of(subjects: Iterable[Sent]) -> dict[str, Published]:
    """Return the published means of each subject, matched by its own name or its model's from any provider."""
    known = {_plain(name): one for one in published() for name in one.names}
    found = {sent.subject: known.get(_plain(sent.subject)) or known.get(_plain(sent.model or "")) for sent in subjects}
    return {subject: one for subject, one in found.items() if one is not None}


def compare_published(first: Summary) -> list[RunDifference]:
    """Compare every subject whose model has published means: overall, then by dimension; nothing is paired.

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
    mean = mean_of_tests(own)
    return SharedTests(0, (mean.tests if mean else 0, TESTS), (mean, theirs) if mean else None, None)


def _plain(name: str) -> str:
    """Return a model's name without its provider, with the version's dots as hyphens."""
    return name.rpartition("/")[2].lower().replace(".", "-")
