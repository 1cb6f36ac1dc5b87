"""What a stage declares about itself, so that plan, graph and driver need to know no stage by name."""

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
    """A sweep and everything that its stages are made from.

    `wordings` maps varied judges to the rubrics that their variants change, by dimension. `paraphrases` maps varied
    subjects to their paraphrased tests, by dimension. `pauses` are the times at which the run resumed after a week or
    more.
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
        """Whether the sweep generates its tests instead of naming them."""
        sweep = self.sweep
        return not sweep.gives_tests and sweep.generate is not None and sweep.select is not None

    def models_of(self, provider: str) -> dict[str, ModelEntry]:
        """Return the models of a provider, by name. With `accept_substitutes` they may report any name."""
        any_name = {"reports": None} if self.sweep.accept_substitutes else {}
        models = (model for model in self.models.values() if model.entry.provider == provider)
        return {model.name: model.entry.model_copy(update=any_name) for model in models}

    def subject(self, name: str) -> Subject:
        """Return the subject of this name, varied or not."""
        return next(s for s in (*self.sweep.subjects, *self.sweep.varied_subjects) if s.name == name)

    def judge(self, name: str) -> Judge:
        """Return the judge of this name, varied or not."""
        return next(j for j in (*self.sweep.judges, *self.sweep.varied_judges) if j.name == name)

    def paraphrases_for(self, subject: str, dimension: str) -> Paraphrases | None:
        """Return a subject's paraphrases of a dimension's tests; None if it is asked the tests as they are."""
        return self.paraphrases[subject][dimension] if subject in self.paraphrases else None

    def rubric_of(self, judge: str, dimension: str) -> Rubric:
        """Return the rubric by which a judge reads a dimension's responses."""
        return self.wordings.get(judge, self.rubrics)[dimension]


@dataclass(frozen=True, order=True)
class Part:
    """A part of a sweep that a stage processes separately, with its own view.

    `name` is the subject's or judge's name, else the model's, or "" if no model is called. `subject` is set for
    judges and other stages that read one subject's rows (see `Source.own_subject`): the subject whose rows they read.
    """

    name: str
    dimension: str
    subject: str = ""


class Grain(StrEnum):
    """How much of a source must exist before tasks can be made from it."""

    ROW = "row"
    ALL = "all"


@dataclass(frozen=True)
class Source:
    """Rows that a stage reads: those of the nearest earlier stage that makes rows of this type.

    `partial`: if calls of the source stay unanswered, its existing rows suffice.
    `own_subject`: a part reads only the rows of its own `Part.subject` instead of its whole dimension, and none
    if it has no `subject`.
    """

    row: type[Row]
    grain: Grain
    partial: bool = False
    own_subject: bool = False


@dataclass(frozen=True)
class Asks:
    """The model that a part calls, by its name in the sweep, and the mode that overrides the sweep's, if any."""

    model: str
    mode: ModeName | None


class StageSpec(ABC):
    """A stage's place in a run.

    `name` is shown to users in progress, status and plan. `row` is the type of its rows, which have `state` and
    `reason` if it makes calls. `has_view` is False if the rows stay in the store. `is_frozen`: a view, once it has
    rows, is never derived again, and without rows its part is not complete. `is_probed` is False if its calls must wait
    until the run has done everything before them. `behind`: for a stage of another distribution, the name of the stage
    that it follows.
    """

    name: ClassVar[str]
    row: ClassVar[type[Row]]
    makes_calls: ClassVar[bool] = True
    has_view: ClassVar[bool] = True
    is_frozen: ClassVar[bool] = False
    is_probed: ClassVar[bool] = True
    behind: ClassVar[str] = ""

    @abstractmethod
    def parts(self, resolved: ResolvedSweep) -> Iterator[Part]:
        """Yield the parts of a sweep, dimension by dimension; nothing if the sweep skips this stage."""

    @abstractmethod
    def file(self, part: Part) -> str:
        """Return the path of a part's view, relative to the run folder: a Parquet file that no other part has."""

    def sources(self, resolved: ResolvedSweep) -> tuple[Source, ...]:
        """Return the sources that this stage reads. Its tasks are made from the rows of the first."""
        return ()

    def asks(self, resolved: ResolvedSweep, part: Part) -> Asks:
        """Return the model and mode of a part's calls; raise TypeError if the stage makes no calls."""
        raise TypeError(f"stage {self.name} makes no calls, so it has no model and no mode")

    @abstractmethod
    def make(self, resolved: ResolvedSweep, part: Part) -> CallStage[Any, Any] | ComputeStage[Any]:
        """Make the stage for one part."""
