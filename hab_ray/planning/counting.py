"""Finds the calls of a sweep as a run does, by settling each shard's tasks against the store.

Tasks that do not exist yet (of tests or responses to come) are forecast, and the line is not exact. A call that several
rows or shards share counts once.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from hab_ray.calls import Call, Outcome
from hab_ray.catalog.prices import input_bytes
from hab_ray.given.responses import GivenResponses
from hab_ray.planning.drafts import Cell, Draft, Measured
from hab_ray.planning.figures import PlanLine
from hab_ray.rows import ChosenTest, Response
from hab_ray.stages.base import CallStage, Forecast
from hab_ray.stages.settling import requested
from hab_ray.storage.folder import open_folder
from hab_ray.storage.replies.store import Store
from hab_ray.work import Settled, Shard, Work, given_rows, is_complete, settle

SAMPLED = 50


@dataclass
class Counting:
    """Counts the calls of a resolved sweep against a store."""

    work: Work
    store: Store
    _seen: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def lines(self) -> Iterator[PlanLine]:
        """Return the lines of the plan, dimension by dimension, in the order of the method."""
        drafts = list(self.drafts())
        cells: defaultdict[Cell, list[Draft]] = defaultdict(list)
        for draft in drafts:
            cells[draft.cell].append(draft)
        measured = {cell: self._measured(own) for cell, own in cells.items()}
        return (draft.line(measured[draft.cell]) for draft in drafts)

    def asked(self, model: str) -> Set[str]:
        """Return the keys of a model's calls that the lines have counted, in the store or not."""
        return self._seen[model]

    def _measured(self, cell: Sequence[Draft]) -> Measured:
        """Return the usage of a cell's stored calls; if only complete shards have some, that of a few of them."""
        if any(draft.asks for draft in cell) and not any(draft.measured.calls for draft in cell):
            for draft in cell:
                outcomes = self.store.outcomes(self.work.model(draft.shard).name, draft.sample)
                known = (Measured.of(call, outcomes[call.key]) for call in draft.sample if call.key in outcomes)
                draft.measured = sum(known, Measured())
        return sum((draft.measured for draft in cell), Measured())

    def drafts(self) -> Iterator[Draft]:
        """Yield a draft for every shard that makes calls, in the same order."""
        for model in self.work.models:
            self.store.refresh(model)
        given = given_rows(self.work)
        readers = Counter(one.shard for shard in self.work.shards() for one in self.work.inputs(shard))
        made: dict[Shard, Forecast[Any]] = {}
        for shard in self.work.shards():
            sources = [one.shard for one in self.work.inputs(shard)]
            rows = rows_forecast(shard, sources, made, given)
            stage = self.work.stage(shard)
            if isinstance(stage, CallStage):
                draft, made[shard] = self._count(shard, stage, stage.forecast_tasks(rows))
                yield draft
            elif self.work.is_frozen(shard):
                made[shard] = Forecast(self._view(shard))
            else:
                made[shard] = stage.forecast_rows(rows)
            readers.subtract(sources)
            for done in [one for one in made if not readers[one]]:
                del made[done]

    def _count(self, shard: Shard, stage: CallStage[Any, Any], tasks: Forecast[Any]) -> tuple[Draft, Forecast[Any]]:
        draft = Draft(self.work, shard, stage)
        settled, found = self._settle(draft, tasks.known)
        seen = self._seen[self.work.model(shard).name]
        new = found.keys() - seen
        draft.reused, draft.measured = len(new), sum((found[key] for key in new), Measured())
        seen |= new
        for row_id, call in settled.open:
            if call.key not in seen:
                seen.add(call.key)
                draft.open.append((row_id, call))
                draft.add(1, call, input_bytes(call), input_bytes(call))
        if tasks.to_come:
            typical, longest = ([call for _, call in requested(stage, some)] for some in (tasks.typical, tasks.longest))
            draft.add(tasks.to_come, typical[0], fmean(map(input_bytes, typical)), fmean(map(input_bytes, longest)))
            draft.exact = False
        return draft, stage.forecast_rows(tasks, stage.kept(settled.rows), settled.waiting)

    def _settle(self, draft: Draft, tasks: Sequence[Any]) -> tuple[Settled, dict[str, Measured]]:
        """Return the shard's rows and open calls, and the usage of its stored calls by key.

        The usage of a complete shard is empty, because its replies are not read again; the draft keeps a `sample` of
        its calls. It is not complete if failures count as open calls.
        """
        shard, stage = draft.shard, draft.stage
        if is_complete(self.work, shard, len(tasks), self.store.failures_since):
            rows = self._view(shard) if shard.spec.has_view else []
            calls = [call for _, call in requested(stage, tasks)]
            draft.sample = calls[:SAMPLED]
            return Settled(rows, []), {call.key: Measured() for call in calls}
        found: dict[str, Measured] = {}

        def read(calls: Sequence[Call]) -> Mapping[str, Outcome]:
            outcomes = self.store.outcomes(self.work.model(shard).name, calls)
            found.update((call.key, Measured.of(call, outcomes[call.key])) for call in calls if call.key in outcomes)
            return outcomes

        return settle(stage, tasks, read), found

    def _view(self, shard: Shard) -> list[Any]:
        row_type: type[Any] = shard.spec.row
        return self.work.run.read(row_type, shard.file)


def models_to_call(work: Work, failures_since: int) -> set[str]:
    """Return the names of the models that a run of this sweep has open calls to, now or once others are answered.

    Permanent failures of epochs before `failures_since` count as open calls.
    """
    asked: set[str] = set()
    for draft in Counting(work, Store(open_folder(work.sweep.store), failures_since)).drafts():
        if draft.asks:
            asked.add(work.model(draft.shard).name)
        if asked == work.models.keys():  # mostly after the first dimension
            break
    return asked


def rows_forecast(
    shard: Shard, sources: Iterable[Shard], made: Mapping[Shard, Forecast[Any]], given: GivenResponses
) -> dict[type[Any], Forecast[Any]]:
    """Return the forecasts that a shard reads, by row type: of its sources, and of given rows."""
    rows: dict[type[Any], Forecast[Any]] = {}
    for source in sources:
        row_type = source.spec.row
        rows[row_type] = rows[row_type] + made[source] if row_type in rows else made[source]
    if shard.dimension in given.tests:
        rows.setdefault(ChosenTest, Forecast(given.tests[shard.dimension]))
    if (shard.subject, shard.dimension) in given.responses:
        rows[Response] = Forecast(given.responses[shard.subject, shard.dimension])
    return rows
