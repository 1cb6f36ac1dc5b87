"""The analysis that a sweep declares beforehand: its `analysis:` section, and what a run keeps of it.

It states intentions; `hab_ray.analysis.tables.declared` computes them. Its digest is in the run's record before the
first answer is asked for; a later change is allowed, and listed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, Self

from pydantic import Field, StringConstraints, model_validator

from hab_ray.bounds import NUMBER
from hab_ray.catalog.models import Strict
from hab_ray.config.sections import Name

OVERALL, PANEL = "overall", "panel"
# Two whose difference has a 95 % interval within this are called equal: two one-sided tests, each at 2.5 %.
MARGIN = 0.05
Statement = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]
Alpha = Annotated[float, NUMBER, Field(gt=0, lt=1)]
Margin = Annotated[float, NUMBER, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=0)]


class Compared(StrEnum):
    """What a family of comparisons sets side by side."""

    SUBJECTS = "subjects"
    JUDGES = "judges"
    DIMENSIONS = "dimensions"


class Correction(StrEnum):
    """How the members of a family are corrected for being several."""

    HOLM = "holm"
    BONFERRONI = "bonferroni"
    BENJAMINI_HOCHBERG = "benjamini_hochberg"
    NONE = "none"


class StoppingRule(StrEnum):
    """When data collection ends: at a size fixed beforehand, after looks planned beforehand, or otherwise."""

    FIXED = "fixed"
    SEQUENTIAL = "sequential"
    OTHER = "other"


class Outcome(Strict):
    """The mean score that the study is about: of a dimension or overall, by one judge or the panel."""

    dimension: Name = OVERALL
    judge: Name = PANEL
    question: Statement | None = None

    @model_validator(mode="before")
    @classmethod
    def _named_by_dimension(cls, given: Any) -> Any:
        return {"dimension": given} if isinstance(given, str) else given


class Family(Strict):
    """Comparisons that are corrected for together: all pairs `among` those named, () = all there are.

    They are made in each of `dimensions`; those of dimensions are made within each subject.
    """

    name: Name
    compares: Compared
    among: Annotated[tuple[Name, ...], Field(max_length=100)] = ()
    dimensions: Annotated[tuple[Name, ...], Field(max_length=100)] = (OVERALL,)
    correction: Correction = Correction.HOLM

    @model_validator(mode="after")
    def _compares_two(self) -> Self:
        if len(self.among) == 1:
            raise ValueError("`among` names one alone; name what it is compared with, or leave `among` out for all")
        return self


class Stopping(Strict):
    """When data collection ends; another rule than `fixed` is put in words."""

    rule: StoppingRule
    details: Statement | None = None

    @model_validator(mode="before")
    @classmethod
    def _named_by_rule(cls, given: Any) -> Any:
        return {"rule": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _is_said(self) -> Self:
        if self.rule is not StoppingRule.FIXED and self.details is None:
            raise ValueError(f"`rule: {self.rule}` needs `details:`, which say after what data is looked at and how")
        return self


class AnalysisPlan(Strict):
    """The `analysis:` section. `exclusions` are rows left out beyond those that have no score, in words.

    Two are called equal where their difference lies within `margin`, on the scale of 0 to 1.
    """

    primary: Outcome
    families: Annotated[tuple[Family, ...], Field(max_length=50)] = ()
    exclusions: Annotated[tuple[Statement, ...], Field(max_length=50)] = ()
    alpha: Alpha
    margin: Margin = MARGIN
    stopping: Stopping

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [family.name for family in self.families]
        if doubled := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"families: {doubled[0]!r} appears twice; give each family a `name:` of its own")
        return self

    @property
    def sha256(self) -> str:
        """Hex digest of what is declared. What is left to its default does not count, so that new keys change none."""
        declared = self.model_dump(mode="json", exclude_defaults=True)
        return sha256(json.dumps(declared, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def unknown_names(
        self, subjects: Collection[str], judges: Collection[str], dimensions: Collection[str]
    ) -> Iterator[str]:
        """Where it names somebody or something that a sweep does not have, as `key: name`."""
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
    """What was in a run or its store at a time: answers, the sweep's given answers, and verdicts on those."""

    answers: Count = 0
    given: Count = 0
    verdicts: Count = 0

    @property
    def has_results(self) -> bool:
        """Whether anything was there that a model had been asked for."""
        return self.answers + self.verdicts > 0

    def __str__(self) -> str:
        verdicts = f" and {self.verdicts:,} verdicts on given answers" if self.verdicts else ""
        return f"{self.answers:,} answers{verdicts}"


class Declaration(Strict):
    """What a run was declared to be for from a time on; without a plan, an earlier one was taken back.

    `replaces` is the digest of what was declared before and `changed` names the sections that differ; `existing` is
    what was there at that time.
    """

    at: datetime
    sha256: str | None
    replaces: str | None = None
    changed: tuple[str, ...] = ()
    existing: Existing = Existing()
    plan: AnalysisPlan | None


def changed_sections(before: AnalysisPlan | None, after: AnalysisPlan | None) -> tuple[str, ...]:
    """The names of the sections in which two plans differ; those that are there, where one of them is none."""
    found = [{} if plan is None else plan.model_dump(exclude_defaults=True) for plan in (before, after)]
    return tuple(name for name in AnalysisPlan.model_fields if found[0].get(name) != found[1].get(name))
