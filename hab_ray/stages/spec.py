"""What a stage declares about itself, so that the plan, the graph of shards and the driver need not know it by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from hab_ray.catalog.models import Model, ModelEntry
from hab_ray.config.sections import Judge, ModeName, Subject
from hab_ray.config.sweep import Sweep
from hab_ray.rows import Row
from hab_ray.rubric import Rubric
from hab_ray.stages.base import CallStage, ComputeStage
from hab_ray.stages.prompts.rewording import Paraphrases
from hab_ray.stages.prompts.wording import Prompts


@dataclass(frozen=True)
class ResolvedSweep:
    """A sweep with all that its stages are made from.

    `wordings` has the rubrics of each varied judge by dimension: of those dimensions that its variant changes;
    `paraphrases` has the words in which a varied subject is asked, by dimension, where its variant has such. `pauses`
    says when the run went on after it had rested for a week or more.
    """

    sweep: Sweep
    models: Mapping[str, Model]
    rubrics: Mapping[str, Rubric]
    themes: tuple[str, ...]
    prompts: Prompts
    wordings: Mapping[str, Mapping[str, Rubric]] = field(default_factory=dict, kw_only=True)
    paraphrases: Mapping[str, Mapping[str, Paraphrases]] = field(default_factory=dict, kw_only=True)
    pauses: tuple[datetime, ...] = field(default=(), kw_only=True)

    @property
    def makes_tests(self) -> bool:
        """Whether the sweep generates its tests; else it names them."""
        sweep = self.sweep
        return not sweep.gives_tests and sweep.generate is not None and sweep.select is not None

    def models_of(self, provider: str) -> dict[str, ModelEntry]:
        """The models of a provider, by name."""
        return {model.name: model.entry for model in self.models.values() if model.entry.provider == provider}

    def subject(self, name: str) -> Subject:
        """The subject of this name, varied or not."""
        return next(s for s in (*self.sweep.subjects, *self.sweep.varied_subjects) if s.name == name)

    def judge(self, name: str) -> Judge:
        """The judge of this name, varied or not."""
        return next(j for j in (*self.sweep.judges, *self.sweep.varied_judges) if j.name == name)

    def words_for(self, subject: str, dimension: str) -> Paraphrases | None:
        """The words in which a subject is asked a dimension's tests; None: in their own."""
        return self.paraphrases[subject][dimension] if subject in self.paraphrases else None

    def rubric_of(self, judge: str, dimension: str) -> Rubric:
        """The rubric by which a judge reads a dimension's answers."""
        return self.wordings.get(judge, self.rubrics)[dimension]


@dataclass(frozen=True, order=True)
class Part:
    """One of the parts of a sweep that a stage works on separately, each with a view of its own.

    `name` is the subject's or judge's, else the model's, or "" where no model is called; `subject` is set where a judge
    reads that subject's responses.
    """

    name: str
    dimension: str
    subject: str = ""


class Grain(StrEnum):
    """How much of a source must exist before tasks can be derived from it."""

    ROW = "row"
    ALL = "all"


@dataclass(frozen=True)
class Source:
    """Rows that a stage reads: those of the nearest stage before it that makes rows of this type.

    `partial`: the rows that exist are enough where the source stalled (some of its calls stay unanswered).
    `own_subject`: a part reads only the rows of its own subject, else those of its whole dimension.
    """

    row: type[Row]
    grain: Grain
    partial: bool = False
    own_subject: bool = False


@dataclass(frozen=True)
class Asks:
    """The model that a part's calls go to, by its name in the sweep, and how they are sent if not as the sweep says."""

    model: str
    mode: ModeName | None


class StageSpec(ABC):
    """A stage's place in a run.

    `name` is what users see in progress, status and plan. `row` is the type of rows it makes. `has_view` is False where
    rows stay in the store. `is_frozen`: a view that was written is never derived again. `behind`: the stage that one of
    another distribution follows.
    """

    name: ClassVar[str]
    row: ClassVar[type[Row]]
    makes_calls: ClassVar[bool] = True
    has_view: ClassVar[bool] = True
    is_frozen: ClassVar[bool] = False
    behind: ClassVar[str] = ""

    @abstractmethod
    def parts(self, resolved: ResolvedSweep) -> Iterator[Part]:
        """The parts of a sweep, dimension by dimension; none where the sweep goes without this stage."""

    @abstractmethod
    def file(self, part: Part) -> str:
        """The view that a part's rows end up in, below the run folder."""

    def sources(self, resolved: ResolvedSweep) -> tuple[Source, ...]:
        """The rows that this stage reads; its tasks are made from those of the first source."""
        return ()

    def asks(self, resolved: ResolvedSweep, part: Part) -> Asks:
        """The model and mode of a part's calls.

        Raises:
            TypeError: the stage makes no calls.
        """
        raise TypeError(f"stage {self.name} makes no calls, so it has no model and no mode")

    @abstractmethod
    def make(self, resolved: ResolvedSweep, part: Part) -> CallStage[Any, Any] | ComputeStage[Any]:
        """The stage, ready to work on one part."""
