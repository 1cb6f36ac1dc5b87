"""A stage for the tests that makes no call and has a row type of its own: how many words each response has."""

from collections.abc import Iterator
from dataclasses import dataclass

from hab_ray.rows import Response
from hab_ray.stages.base import Computed, ComputeStage, Forecast, Forecasts, Rows
from hab_ray.stages.spec import Grain, Part, ResolvedSweep, Source, StageSpec


@dataclass(frozen=True, slots=True)
class Words:
    """The length of one response."""

    test_id: str
    sample: int
    words: int


class CountWordsStage(ComputeStage[Words]):
    """Counts the words of one subject's responses in one dimension."""

    def compute(self, rows: Rows) -> Computed[Words]:
        return Computed([Words(r.test_id, r.sample, len(r.text.split())) for r in rows[Response]])

    def forecast_rows(self, rows: Forecasts) -> Forecast[Words]:
        return Forecast(to_come=rows[Response].count)


class CountWordsSpec(StageSpec):
    """One part per dimension and subject."""

    behind = "respond"
    name = "count words"
    row = Words
    makes_calls = False
    is_frozen = True

    def parts(self, resolved: ResolvedSweep) -> Iterator[Part]:
        return (Part("", d, subject.name) for d in resolved.rubrics for subject in resolved.sweep.subjects)

    def file(self, part: Part) -> str:
        return f"words/{part.subject.replace('/', '-')}/{part.dimension}.parquet"

    def sources(self, resolved: ResolvedSweep) -> tuple[Source, ...]:
        return (Source(Response, Grain.ALL, own_subject=True),)

    def make(self, resolved: ResolvedSweep, part: Part) -> CountWordsStage:
        return CountWordsStage()
