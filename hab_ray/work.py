"""What a run consists of: its shards, their tasks, and how a shard's rows follow from the replies in the store.

    candidates/<dimension>  ->  validations/<dimension>  ->  (vectors)  ->  tests/<dimension>
    tests/<dimension>  ->  responses/<subject>/<dimension>  ->  verdicts/<judge>/<subject>/<dimension>

Everything here is derived from the resolved sweep and stored files, so it runs anywhere: in the driver, in a
Ray worker that expands a shard into calls, in `hab plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from hab_ray.calls import Call, Outcome
from hab_ray.catalog import Catalog, Model, folder_name
from hab_ray.config import Generate, Judge, ModeName, Select, Subject, Sweep, Validate
from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.rows import Candidate, ChosenTest, Embedded, Response, Row, Validation, Verdict
from hab_ray.rubric import Rubric
from hab_ray.stages.base import Again, Stage
from hab_ray.stages.generate import GenerateStage, without_duplicates
from hab_ray.stages.judge import JudgeStage
from hab_ray.stages.respond import RespondStage
from hab_ray.stages.select import EmbedStage, choose, seed_tests
from hab_ray.stages.validate import ValidateStage, best
from hab_ray.stages.wording import Prompts
from hab_ray.storage.given import read_given_tests
from hab_ray.storage.run import RunFolder
from hab_ray.storage.store import Store


class StageName(StrEnum):
    """The stages that make calls."""

    GENERATE = "generate"
    VALIDATE = "validate"
    SELECT = "select"
    RESPOND = "respond"
    JUDGE = "judge"


WORTH_A_BATCH = 200

ROW_TYPES: Mapping[StageName, type[Row]] = {
    StageName.GENERATE: Candidate,
    StageName.VALIDATE: Validation,
    StageName.SELECT: Embedded,
    StageName.RESPOND: Response,
    StageName.JUDGE: Verdict,
}


@dataclass(frozen=True, order=True)
class Shard:
    """The unit of files and of progress. `name` is the subject's or judge's, else the model's; `subject` is
    set where a judge reads that subject's responses."""

    stage: StageName
    name: str
    dimension: str
    subject: str = ""

    @property
    def file(self) -> str:
        """The view this shard ends up in, below the run folder; vectors have none."""
        match self.stage:
            case StageName.GENERATE:
                return f"candidates/{self.dimension}.parquet"
            case StageName.VALIDATE:
                return f"validations/{self.dimension}.parquet"
            case StageName.SELECT:
                return tests_file(self.dimension)
            case StageName.RESPOND:
                return f"responses/{folder_name(self.name)}/{self.dimension}.parquet"
            case StageName.JUDGE:
                return f"verdicts/{folder_name(self.name)}/{folder_name(self.subject)}/{self.dimension}.parquet"


def tests_file(dimension: str) -> str:
    """Where a dimension's chosen tests are kept."""
    return f"tests/{dimension}.parquet"


@dataclass(frozen=True)
class Settled:
    """A shard as far as the store has it: its rows, and the calls that are still open, by row id."""

    rows: list[Any]
    open: list[tuple[str, Call]]


def settle(
    stage: Stage[Any, Any], tasks: Sequence[Any], read: Callable[[Sequence[str]], Mapping[str, Outcome]]
) -> Settled:
    """Take every task as far as the stored outcomes carry it, through re-asks where a stage wants one."""
    rows: dict[int, Row] = {}
    still_open: list[tuple[str, Call]] = []
    pending = list(enumerate(tasks))
    while pending:
        asked = list(stage.requests([task for _, task in pending]))
        outcomes = read([call.key for _, call in asked])
        again: list[tuple[int, Any]] = []
        for (position, task), (row_id, call) in zip(pending, asked, strict=True):
            if call.key not in outcomes:
                still_open.append((row_id, call))
                continue
            row = stage.parse(task, outcomes[call.key])
            if isinstance(row, Again):
                again.append((position, row.task))
            else:
                rows[position] = row
        pending = again
    return Settled([rows[position] for position in sorted(rows)], still_open)


@dataclass(frozen=True)
class Work:
    """A resolved sweep: everything that a shard's calls depend on. Picklable, for Ray workers."""

    sweep: Sweep
    catalog: Catalog
    models: Mapping[str, Model]
    rubrics: Mapping[str, Rubric]
    themes: tuple[str, ...]
    prompts: Prompts
    run_path: Location
    run_id: str

    @property
    def run(self) -> RunFolder:
        """The run folder."""
        return RunFolder(self.run_path)

    @property
    def run_name(self) -> str:
        """What the store calls this run."""
        return self.run_path.seen_from(self.sweep.store)

    def shards(self) -> list[Shard]:
        """All shards, in the order of the method; models vary fastest, so that they share a queue fairly."""
        return [*self._making_tests(), *self._answering()]

    def _making_tests(self) -> Iterator[Shard]:
        sweep = self.sweep
        if sweep.tests is not None or sweep.generate is None or sweep.select is None:
            return
        for dimension in self.rubrics:
            yield Shard(StageName.GENERATE, sweep.generate.model, dimension)
            if isinstance(sweep.validation, Validate):
                yield Shard(StageName.VALIDATE, sweep.validation.model, dimension)
            yield Shard(StageName.SELECT, sweep.select.embedding, dimension)

    def _answering(self) -> Iterator[Shard]:
        for dimension in self.rubrics:
            for subject in self.sweep.subjects:
                yield Shard(StageName.RESPOND, subject.name, dimension)
                for judge in self.sweep.judges:
                    yield Shard(StageName.JUDGE, judge.name, dimension, subject.name)

    def subject(self, name: str) -> Subject:
        """The subject of this name."""
        return next(s for s in self.sweep.subjects if s.name == name)

    def judge(self, name: str) -> Judge:
        """The judge of this name."""
        return next(j for j in self.sweep.judges if j.name == name)

    def model(self, shard: Shard) -> Model:
        """The model a shard's calls go to."""
        match shard.stage:
            case StageName.RESPOND:
                return self.models[self.subject(shard.name).model]
            case StageName.JUDGE:
                return self.models[self.judge(shard.name).model]
            case _:
                return self.models[shard.name]

    def mode(self, shard: Shard) -> ModeName:
        """How the sweep wants a shard's calls sent."""
        sweep = self.sweep
        own: Generate | Validate | Select | Subject | Judge | None
        match shard.stage:
            case StageName.GENERATE:
                own = sweep.generate
            case StageName.VALIDATE:
                own = sweep.validation if isinstance(sweep.validation, Validate) else None
            case StageName.SELECT:
                own = sweep.select
            case StageName.RESPOND:
                own = self.subject(shard.name)
            case StageName.JUDGE:
                own = self.judge(shard.name)
        return (own.mode if own else None) or sweep.mode

    def wants_batch(self, shard: Shard, together: int) -> bool:
        """Whether a shard's calls go by batch where nothing speaks against it.

        `together` counts the calls of the same stage and model that can go at once: `auto` sends few online, where
        they are answered in minutes and the half price saves little.
        """
        wanted = self.mode(shard)
        has_batches = self.model(shard).entry.batch is not None
        return has_batches and (wanted == "batch" or (wanted == "auto" and together >= WORTH_A_BATCH))

    def stage(self, shard: Shard) -> Stage[Any, Any]:
        """The stage that makes a shard's rows."""
        rubric, model = self.rubrics[shard.dimension], self.model(shard)
        substitutes = self.sweep.accept_substitutes
        match shard.stage:
            case StageName.GENERATE:
                return self._generate(rubric, model)
            case StageName.VALIDATE:
                assert isinstance(self.sweep.validation, Validate)
                return ValidateStage(rubric, self.prompts, model, self.sweep.validation, substitutes)
            case StageName.SELECT:
                return EmbedStage(model, substitutes)
            case StageName.RESPOND:
                return RespondStage(self.subject(shard.name), model, self.sweep.samples, substitutes)
            case StageName.JUDGE:
                return JudgeStage(rubric, self.prompts, self.judge(shard.name), model, substitutes)

    def _generate(self, rubric: Rubric, model: Model) -> GenerateStage:
        assert self.sweep.generate is not None
        settings, seed = self.sweep.generate, self.sweep.seed
        return GenerateStage(rubric, self.themes, self.prompts, model, settings, seed, self.sweep.accept_substitutes)

    def tasks(self, shard: Shard) -> list[Any]:
        """What a shard has to do, as of the files its inputs are in."""
        match shard.stage:
            case StageName.GENERATE:
                return list(self._generate(self.rubrics[shard.dimension], self.model(shard)).tasks())
            case StageName.VALIDATE:
                return list(ValidateStage.tasks(self.candidates(shard.dimension)))
            case StageName.SELECT:
                return list(self._pool(shard.dimension))
            case StageName.RESPOND:
                stage = self.stage(shard)
                assert isinstance(stage, RespondStage)
                return list(stage.tasks(self.tests(shard.dimension)))
            case StageName.JUDGE:
                responses = self.run.read(Response, self._responses_of(shard).file)
                return list(JudgeStage.tasks(self.tests(shard.dimension), responses))

    def settled(self, shard: Shard, tasks: Sequence[Any], store: Store) -> Settled:
        """A shard's tasks as far as a store has them, with what was written since its last look."""
        model = self.model(shard).name
        store.refresh(model)
        return settle(self.stage(shard), tasks, partial(store.read, model))

    def inputs(self, shard: Shard) -> Shard | None:
        """The shard that must be complete before this one's tasks are known; None where there is none."""
        making = {s.stage: s for s in self._making_tests() if s.dimension == shard.dimension}
        match shard.stage:
            case StageName.GENERATE:
                return None
            case StageName.VALIDATE:
                return making[StageName.GENERATE]
            case StageName.SELECT:
                return making.get(StageName.VALIDATE, making[StageName.GENERATE])
            case StageName.RESPOND:
                return making.get(StageName.SELECT)
            case StageName.JUDGE:
                return self._responses_of(shard)

    @staticmethod
    def _responses_of(shard: Shard) -> Shard:
        return Shard(StageName.RESPOND, shard.subject, shard.dimension)

    def candidates(self, dimension: str) -> list[Candidate]:
        """The candidates of a dimension."""
        return self.run.read(Candidate, f"candidates/{dimension}.parquet")

    def tests(self, dimension: str) -> list[ChosenTest]:
        """The chosen tests of a dimension."""
        return self.run.read(ChosenTest, tests_file(dimension))

    def _pool(self, dimension: str) -> list[Candidate]:
        """The candidates that selection chooses from."""
        candidates = self.candidates(dimension)
        if not isinstance(self.sweep.validation, Validate):
            return sorted(ValidateStage.tasks(candidates), key=lambda c: c.id)
        validations = self.run.read(Validation, f"validations/{dimension}.parquet")
        return best(candidates, validations, self.sweep.validation, self.sweep.seed)

    def write(self, shard: Shard, rows: list[Any]) -> None:
        """Replace a shard's view. Vectors have none: the tests chosen by them are what is kept."""
        if shard.stage is StageName.SELECT:
            return
        if shard.stage is StageName.GENERATE and self.sweep.deduplicate == "exact":
            rows = without_duplicates(rows)
        self.run.write(ROW_TYPES[shard.stage], shard.file, rows)

    def choose_tests(self, dimension: str, embedded: Sequence[Embedded]) -> tuple[list[ChosenTest], str]:
        """The tests of a dimension from its vectors, and what to say about them."""
        assert self.sweep.select is not None
        return choose(self.rubrics[dimension], self._pool(dimension), embedded, self.sweep.select)

    def given_tests(self) -> dict[str, list[ChosenTest]]:
        """The tests by dimension, where the sweep names a file or the rubrics' seeds.

        Raises:
            ConfigError: the file has no test for one of the dimensions.
        """
        if self.sweep.tests == "seeds":
            return {d: seed_tests(rubric) for d, rubric in self.rubrics.items()}
        assert isinstance(self.sweep.tests, Path)
        given = read_given_tests(self.sweep.tests, self.rubrics)
        for dimension in self.rubrics:
            if not given.get(dimension):
                raise ConfigError(
                    f"{self.sweep.tests}: no test for {dimension}; add some or leave it out of `dimensions:`"
                )
        return given
