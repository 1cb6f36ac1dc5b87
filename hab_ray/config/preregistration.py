"""The preregistered analysis: the `analysis:` section of a sweep, and the declarations that a run records.

The section states intentions; `hab_ray.analysis.tables.declared` computes them. Its digest enters the run's record
before the first answer is requested. Later changes are allowed and listed.
"""

import json
from collections.abc import Collection, Iterator
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, Self

from pydantic import Field, StringConstraints, model_validator

from hab_ray.bounds import NUMBER
from hab_ray.catalog.base import Strict
from hab_ray.config.sections import Name

OVERALL, PANEL, PRIMARY = "overall", "panel", "primary"
# Equivalence margin: the 95 % interval of a difference must lie within it (two one-sided tests, each at 2.5 %).
MARGIN = 0.05
Statement = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]
Part = Annotated[float, NUMBER, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=0)]


class Compared(StrEnum):
    """What a family of comparisons compares."""

    SUBJECTS = "subjects"
    JUDGES = "judges"
    DIMENSIONS = "dimensions"


class Correction(StrEnum):
    """The correction for multiple comparisons within a family."""

    HOLM = "holm"
    BONFERRONI = "bonferroni"
    BENJAMINI_HOCHBERG = "benjamini_hochberg"
    NONE = "none"


class StoppingRule(StrEnum):
    """When data collection ends: at a predetermined size, after planned interim looks, or otherwise."""

    FIXED = "fixed"
    SEQUENTIAL = "sequential"
    OTHER = "other"


class Outcome(Strict):
    """The mean score that the study is about: of one dimension or overall, by one judge or the panel."""

    dimension: Name = OVERALL
    judge: Name = PANEL
    question: Statement | None = None

    @model_validator(mode="before")
    @classmethod
    def _named_by_dimension(cls, given: Any) -> Any:
        return {"dimension": given} if isinstance(given, str) else given


class Family(Strict):
    """All pairwise comparisons `among` the named members (() = all), corrected together.

    They are made in each of `dimensions`. Comparisons of dimensions are made within each subject.
    """

    name: Name
    compares: Compared
    among: Annotated[tuple[Name, ...], Field(max_length=100)] = ()
    dimensions: Annotated[tuple[Name, ...], Field(max_length=100)] = (OVERALL,)
    correction: Correction = Correction.HOLM

    @model_validator(mode="after")
    def _compares_two(self) -> Self:
        if len(self.among) == 1:
            raise ValueError("`among` has a single name; add what it is compared with, or leave `among` out for all")
        return self


class Stopping(Strict):
    """When data collection ends. Any rule but `fixed` needs `details` in words."""

    rule: StoppingRule
    details: Statement | None = None

    @model_validator(mode="before")
    @classmethod
    def _named_by_rule(cls, given: Any) -> Any:
        return {"rule": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _has_details(self) -> Self:
        if self.rule is not StoppingRule.FIXED and self.details is None:
            raise ValueError(f"`rule: {self.rule}` needs `details:`, which say when the data is looked at, and how")
        return self


class AnalysisPlan(Strict):
    """The `analysis:` section. `exclusions` describes the rows to exclude besides those without a score.

    Two means are called equal if their difference lies within `margin`, on the scale of 0 to 1.
    """

    primary: Outcome
    families: Annotated[tuple[Family, ...], Field(max_length=50)] = ()
    exclusions: Annotated[tuple[Statement, ...], Field(max_length=50)] = ()
    alpha: Part
    margin: Part = MARGIN
    stopping: Stopping

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [family.name for family in self.families]
        if doubled := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"families: {doubled[0]!r} appears twice; give each family a `name:` of its own")
        if PRIMARY in names:
            raise ValueError(f"families: {PRIMARY!r} means the primary outcome; give the family another `name:`")
        return self

    @property
    def sha256(self) -> str:
        """Hex digest of the plan. Values left at their default do not count, so that new keys change no digest."""
        declared = self.model_dump(mode="json", exclude_defaults=True)
        return sha256(json.dumps(declared, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def unknown_names(
        self, subjects: Collection[str], judges: Collection[str], dimensions: Collection[str]
    ) -> Iterator[str]:
        """Yield each name in the plan that the sweep does not have, as `key: name`."""
        known = {
            Compared.SUBJECTS: set(subjects),
            Compared.JUDGES: {*judges, PANEL},
            Compared.DIMENSIONS: {*dimensions, OVERALL},
        }
        named: list[tuple[str, Compared, tuple[str, ...]]] = [
            ("primary.dimension", Compared.DIMENSIONS, (self.primary.dimension,)),
            ("primary.judge", Compared.JUDGES, (self.primary.judge,)),
        ]
        for number, family in enumerate(self.families):
            named.append((f"families.{number}.among", family.compares, family.among))
            named.append((f"families.{number}.dimensions", Compared.DIMENSIONS, family.dimensions))
        for key, kind, names in named:
            yield from (f"analysis.{key}: {name}" for name in names if name not in known[kind])


class Existing(Strict):
    """Counts of what a run and its store held at a time: answers, the sweep's given answers, and verdicts on those."""

    answers: Count = 0
    given: Count = 0
    verdicts: Count = 0

    @property
    def has_results(self) -> bool:
        """Whether any model had been asked yet."""
        return self.answers + self.verdicts > 0

    def __str__(self) -> str:
        verdicts = f" and {self.verdicts:,} verdicts on given answers" if self.verdicts else ""
        return f"{self.answers:,} answers{verdicts}"


class Declaration(Strict):
    """An analysis plan declared at a time; a declaration without a plan withdraws the earlier one.

    `replaces` is the digest of the earlier plan and `changed` names the sections that differ. `existing` is what the
    run held at that time.
    """

    at: datetime
    sha256: str | None
    replaces: str | None = None
    changed: tuple[str, ...] = ()
    existing: Existing = Existing()
    plan: AnalysisPlan | None


def changed_sections(before: AnalysisPlan | None, after: AnalysisPlan | None) -> tuple[str, ...]:
    """Return the names of the sections in which two plans differ; None is a plan without sections."""
    old, new = ({} if plan is None else plan.model_dump(exclude_defaults=True) for plan in (before, after))
    return tuple(name for name in AnalysisPlan.model_fields if old.get(name) != new.get(name))
