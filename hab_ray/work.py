"""A run as a graph of shards: the inputs of each, and how its rows follow from the replies in the store.

    candidates/<dimension>  ->  validations/<dimension>  ->  (vectors)  ->  tests/<dimension>
    tests/<dimension>  ->  responses/<subject>/<dimension>  ->  verdicts/<judge>/<subject>/<dimension>

Everything is derived from the resolved sweep, the declarations of stages and stored files, so it works in the driver,
in workers and in `hab plan`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any

from hab_ray.catalog.models import Catalog, Model, ModelEntry
from hab_ray.config.sections import Drawn, GivenAnswers, ModeName
from hab_ray.config.sweep import Sweep
from hab_ray.errors import ConfigError
from hab_ray.given.ratings import GivenRatings, read_given_ratings
from hab_ray.given.responses import GivenResponses, read_given_responses
from hab_ray.given.rows import ReadOnce, read_given_tests
from hab_ray.given.sample import chosen_answers, those_rated
from hab_ray.given.sheets import key_of_run
from hab_ray.location import Location
from hab_ray.rows import ChosenTest, from_table
from hab_ray.rubric import Rubric
from hab_ray.stages import wiring
from hab_ray.stages.added import check_files
from hab_ray.stages.base import CallStage, Computed, ComputeStage, Rows
from hab_ray.stages.graph import Graph, Input, Shard, graph_of
from hab_ray.stages.method.select import seed_tests
from hab_ray.stages.settling import RowSlices, Settled, settle
from hab_ray.stages.spec import Part, ResolvedSweep, Source
from hab_ray.storage.record import derivation_sha256
from hab_ray.storage.replies.records import read_table
from hab_ray.storage.replies.store import Store
from hab_ray.storage.run import OF_A_RUN, RunFolder, ViewFooter

__all__ = [
    "Input",
    "Settled",
    "Shard",
    "Work",
    "answering_subjects",
    "call_stage",
    "derivation_of",
    "drawn_tests",
    "given_ratings",
    "given_rows",
    "given_tests",
    "is_complete",
    "is_current",
    "rows_done",
    "serves_frozen",
    "settle",
    "tasks_now",
]

WORTH_A_BATCH = 200


@dataclass(frozen=True)
class Work(ResolvedSweep):
    """A resolved sweep and its run folder: everything that a shard's calls depend on. Picklable.

    `undigested` maps models to the derivation of those of the run's views whose footers name none.
    """

    catalog: Catalog
    run_path: Location
    run_id: str
    undigested: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False, kw_only=True)
    given: ReadOnce = field(default_factory=ReadOnce, compare=False, repr=False, kw_only=True)

    @property
    def run(self) -> RunFolder:
        return RunFolder(self.run_path)

    @property
    def run_name(self) -> str:
        """The name of this run in the store."""
        return self.run_path.relative_to(self.sweep.store)

    @cached_property
    def _graph(self) -> Graph:
        graph = graph_of(self)
        check_files(graph, OF_A_RUN)
        return graph

    def shards(self) -> list[Shard]:
        """Return all shards, inputs first. Models vary faster than dimensions, so that they share a queue fairly."""
        return list(self._graph)

    def inputs(self, shard: Shard) -> tuple[Input, ...]:
        """Return the shards that a shard reads."""
        return self._graph[shard]

    def stage(self, shard: Shard) -> CallStage[Any, Any] | ComputeStage[Any]:
        """Return the stage of a shard: a CallStage if `shard.spec.makes_calls`, else a ComputeStage."""
        return wiring.made(shard.spec, self, shard.part)

    def model(self, shard: Shard) -> Model:
        """Return the model that a shard calls; raise TypeError if the stage makes no calls."""
        return self.models[shard.spec.asks(self, shard.part).model]

    def mode(self, shard: Shard) -> ModeName:
        """Return the configured mode of a shard's calls; raise TypeError if the stage makes no calls."""
        return shard.spec.asks(self, shard.part).mode or self.sweep.mode

    def tasks(self, shard: Shard) -> list[Any]:
        """Return the tasks of a shard that makes calls, from the views of its inputs."""
        return call_stage(self, shard).tasks(self.rows_read(shard))

    def rows_read(self, shard: Shard) -> Rows:
        """Return the rows that a shard reads, as far as they are in views."""
        return _rows_read(self, shard, partial(_rows_in_view, self))

    def settled(self, shard: Shard, tasks: Sequence[Any], store: Store) -> Settled:
        """Refresh the store's index and settle a shard's tasks from the store."""
        model = self.model(shard).name
        store.refresh(model)
        return settle(call_stage(self, shard), tasks, partial(store.outcomes, model))

    def compute(self, shard: Shard, store: Store) -> Computed[Any]:
        """Compute the rows of a shard that makes no calls. Its inputs must be complete, in views or in the store.

        Raises:
            TypeError: the stage makes calls.
        """
        stage = self.stage(shard)
        if not isinstance(stage, ComputeStage):
            raise TypeError(f"stage {shard.stage} makes calls; give its tasks to an engine")
        return stage.compute(_rows_read(self, shard, partial(_rows_anywhere, self, store)))

    def write(self, shard: Shard, rows: Sequence[Any], inside: str = "") -> None:
        """Write a shard's view, if it has one; `inside` is the subfolder of the run to write it to, with a slash."""
        if shard.spec.has_view:
            stage = self.stage(shard)
            kept = stage.kept(rows) if isinstance(stage, CallStage) else rows
            derivation = derivation_of(self, shard) if shard.spec.makes_calls else None
            self.run.write(shard.spec.row, f"{inside}{shard.file}", list(kept), derivation)

    def written(self, shard: Shard) -> int | None:
        """Return the number of rows in a shard's view; None if there is no view."""
        return self.run.count(shard.file) if shard.spec.has_view else None

    def is_frozen(self, shard: Shard) -> bool:
        """Return whether a shard must not change: its frozen view has rows, or only frozen shards read its rows.

        A damaged view counts as one with rows, so that it is reported and never replaced.
        """
        if shard.spec.has_view:
            return shard.spec.is_frozen and self.run.has(shard.file) and self.run.count(shard.file) != 0
        readers = _readers(self, shard)
        return bool(readers) and all(map(self.is_frozen, readers))


def _readers(work: Work, shard: Shard) -> list[Shard]:
    alike = (other for other in work.shards() if other.dimension == shard.dimension)
    return [reader for reader in alike if any(source.shard == shard for source in work.inputs(reader))]


def derivation_of(work: Work, shard: Shard) -> str:
    """Return the digest of what the view of a shard that makes calls is derived by, also through the views it reads."""
    return derivation_sha256(work.sweep, (work.model(asked).entry for asked in _asked(work, shard)))


def _asked(work: Work, shard: Shard) -> Iterator[Shard]:
    """Yield the shards, this one included, whose replies decide its rows; those behind a frozen view no longer do."""
    if shard.spec.makes_calls:
        yield shard
    for source in work.inputs(shard):
        if not source.shard.spec.is_frozen:
            yield from _asked(work, source.shard)


def is_complete(work: Work, shard: Shard, total: int, failures_since: int = 0) -> bool:
    """Return whether a shard that makes calls is frozen, or its view is current and has `total` rows.

    A view may hold failures of epochs before `failures_since`, which count as open calls: it is not complete then,
    unless its rows were only made for tests that are chosen.
    """
    if work.is_frozen(shard):
        return True
    footer = work.run.footer(shard.file) if shard.spec.has_view else None
    if footer is None or footer.rows != total:
        return False
    return serves_frozen(work, shard) if failures_since else _is_current(work, shard, footer)


def is_current(work: Work, shard: Shard) -> bool:
    """Return whether the view of a shard that makes calls has no row that its sweep would derive otherwise."""
    footer = work.run.footer(shard.file)
    return footer is not None and _is_current(work, shard, footer)


def _is_current(work: Work, shard: Shard, footer: ViewFooter) -> bool:
    if footer.derivation is not None:
        is_same = footer.derivation == derivation_of(work, shard)
    else:
        model = work.model(shard)
        wanted = derivation_sha256(work.sweep, [model.entry])
        is_same = work.undigested.get(model.name, wanted) == wanted
    return is_same or serves_frozen(work, shard)


def serves_frozen(work: Work, shard: Shard) -> bool:
    """Return whether a shard's rows were only made for tests that are chosen, so that no call is worth paying for."""
    readers = _readers(work, shard)
    return bool(readers) and all(work.is_frozen(reader) or serves_frozen(work, reader) for reader in readers)


def wants_batch(work: Work, shard: Shard, together: int) -> bool:
    """Return whether a shard's calls should go by batch.

    `together` counts the calls of the same stage and model that can be sent together. `auto` sends few calls online,
    where they take minutes and half the price saves little.
    """
    return goes_by_batch(work.model(shard).entry, work.mode(shard), together)


def goes_by_batch(entry: ModelEntry, mode: ModeName, together: int) -> bool:
    """Return whether `together` calls to a model should go by batch."""
    return entry.batch is not None and (mode == "batch" or (mode == "auto" and together >= WORTH_A_BATCH))


def given_tests(work: Work) -> Mapping[str, list[ChosenTest]]:
    """Return the tests of `given_rows` by dimension."""
    return given_rows(work).tests


def given_rows(work: Work) -> GivenResponses:
    """Return the responses that the sweep gives, and its tests: from a file, the rubrics' seeds or the responses.

    Raises:
        ConfigError: a file cannot be read, lacks tests of a dimension, or answers tests that are not given.
    """
    sweep = work.sweep
    if sweep.responses is None:
        return GivenResponses(_named_tests(sweep, work.rubrics, work.given) or {}, {})
    return _chosen_answers(work, sweep.responses)[0]


def drawn_tests(work: Work) -> Mapping[str, Drawn]:
    """Return which given answers the sweep reads, by dimension; empty if it reads all. Raises as `given_rows`."""
    given = work.sweep.responses
    if given is None or (given.sample is None and given.only is None):
        return {}
    return _chosen_answers(work, given)[1]


def answering_subjects(
    sweep: Sweep, given: GivenAnswers, rubrics: Mapping[str, Rubric], cache: ReadOnce
) -> tuple[str, ...]:
    """Return the subjects with answers in a file; with `only: rated`, those with an answer that a person rated.

    Raises:
        ConfigError: a file cannot be read.
    """
    names = _all_answers(sweep, given.file, rubrics, cache).subjects
    if given.only is None:
        return names
    return those_rated(names, _ratings_in(sweep.raters, sweep.run_folder, rubrics, cache).ratings)


def _all_answers(sweep: Sweep, file: Location, rubrics: Mapping[str, Rubric], cache: ReadOnce) -> GivenResponses:
    tests = _named_tests(sweep, rubrics, cache)
    return cache.get(
        ("responses", file, sweep.tests), lambda: read_given_responses(file, rubrics, tests, sweep.rubrics)
    )


def _chosen_answers(work: Work, given: GivenAnswers) -> tuple[GivenResponses, Mapping[str, Drawn]]:
    """Return the given answers that the sweep reads, with their tests, and the drawn answers by dimension."""
    return work.given.get(("chosen", given.file), lambda: _choose(work, given))


def _choose(work: Work, given: GivenAnswers) -> tuple[GivenResponses, Mapping[str, Drawn]]:
    found = _all_answers(work.sweep, given.file, work.rubrics, work.given)
    parts = {part: rows for part, rows in found.responses.items() if part[0] in given.subjects}
    ratings = given_ratings(work).ratings if given.only else ()
    chosen, drawn = chosen_answers(replace(found, responses=parts), given, ratings)
    if given.only and not chosen.responses:
        raise ConfigError(
            f"responses.only: no person in `raters:` has rated an answer in {given.file}; name the file of their "
            "ratings (`hab import ratings` writes one), or leave `only` out"
        )
    return chosen.of_samples(work.sweep.samples, given.file), drawn


def given_ratings(work: Work) -> GivenRatings:
    """Read the ratings in the files under `raters:`.

    Raises:
        ConfigError: a file cannot be read, or a row is not a rating.
    """
    return _ratings_in(work.sweep.raters, work.run_path, work.rubrics, work.given)


def _ratings_in(
    files: tuple[Location, ...], run: Location, rubrics: Mapping[str, Rubric], cache: ReadOnce
) -> GivenRatings:
    """Read ratings in files; `run` is the run folder whose key identifies the items of rating sheets."""
    return cache.get(("raters", files), lambda: read_given_ratings(files, rubrics, key_of_run(run) if files else None))


def _named_tests(sweep: Sweep, rubrics: Mapping[str, Rubric], cache: ReadOnce) -> Mapping[str, list[ChosenTest]] | None:
    """Return the tests that the sweep gives under `tests:`, by dimension; None if it gives none."""
    file = sweep.tests
    if file is None:
        return None
    if file == "seeds":
        return {dimension: seed_tests(rubric) for dimension, rubric in rubrics.items()}
    given = cache.get(("tests", file), lambda: read_given_tests(file, rubrics, sweep.rubrics))
    for dimension in rubrics:
        if not given.get(dimension):
            raise ConfigError(f"{file}: no test for {dimension}; add some or leave it out of `dimensions:`")
    return given


def call_stage(work: Work, shard: Shard) -> CallStage[Any, Any]:
    """Return the stage of a shard that makes calls; raise TypeError if the stage makes no calls."""
    stage = work.stage(shard)
    if not isinstance(stage, CallStage):
        raise TypeError(f"stage {shard.stage} makes no calls, so it has no tasks; `Work.compute` makes its rows")
    return stage


def _rows_read(work: Work, shard: Shard, rows_of: Callable[[Shard], Sequence[Any]]) -> Rows:
    """Return the rows that a shard reads; row types that no stage of the sweep produces are given by the sweep."""
    rows: dict[type[Any], Sequence[Any]] = {}
    for source in shard.spec.sources(work):
        shards = [i.shard for i in work.inputs(shard) if i.shard.spec.row is source.row]
        parts = [rows_of(s) for s in shards] or [_given_rows(work, source, shard)]
        rows[source.row] = parts[0] if len(parts) == 1 else [row for part in parts for row in part]
    return Rows(rows)


def _given_rows(work: Work, source: Source, shard: Shard) -> Sequence[Any]:
    producer = next(spec for spec in wiring.stages().values() if spec.row is source.row)
    name = producer.file(Part(shard.subject, shard.dimension))
    try:
        return _parsed(source.row, name, work.run.folder.get(name))
    except FileNotFoundError:
        return ()


@lru_cache(maxsize=1)
def _parsed(row_type: type[Any], name: str, data: bytes) -> Sequence[Any]:
    """Parse a view, keeping the latest: consecutive shards of one dimension read the same given rows."""
    return tuple(from_table(row_type, read_table(name, data)))


def _rows_in_view(work: Work, shard: Shard) -> Sequence[Any]:
    if not shard.spec.has_view:
        raise TypeError(f"rows of stage {shard.stage} are not in the run folder; only a stage without calls reads them")
    row_type: type[Any] = shard.spec.row
    return work.run.read(row_type, shard.file)


def _rows_anywhere(work: Work, store: Store, shard: Shard) -> Sequence[Any]:
    if shard.spec.has_view:
        return _rows_in_view(work, shard)
    stage, model = call_stage(work, shard), work.model(shard).name
    store.refresh(model)
    return RowSlices(work.tasks(shard), lambda tasks: settle(stage, tasks, partial(store.outcomes, model)).rows)


def tasks_now(work: Work, shard: Shard, store: Store) -> list[Any]:
    """Return the tasks of a shard that makes calls, as far as its inputs have rows in current views or the store."""
    return call_stage(work, shard).tasks(_rows_read(work, shard, partial(_rows_now, work, store)))


def _rows_now(work: Work, store: Store, shard: Shard) -> Sequence[Any]:
    if not shard.spec.makes_calls or is_current(work, shard) or not work.run.has(shard.file):
        return _rows_in_view(work, shard)
    return call_stage(work, shard).kept(work.settled(shard, tasks_now(work, shard, store), store).rows)


def rows_done(work: Work, shard: Shard, store: Store) -> int:
    """Return how many rows the view of a shard that makes calls has, or would have if it were derived now."""
    return (work.written(shard) or 0) if is_current(work, shard) else len(_rows_now(work, store, shard))
