"""The sections of a sweep file: stages, models, variants of them, given answers, how a store is held."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator, model_validator

from hab_ray.bounds import (
    MAX_LISTED,
    BudgetUsd,
    Candidates,
    Components,
    PerCall,
    Points,
    RandomState,
    Risk,
    Seconds,
    Seed,
    Shown,
    Temperature,
    Tokens,
    TopP,
)
from hab_ray.calls import Params, has_visible_text
from hab_ray.catalog.models import Strict
from hab_ray.location import Location
from hab_ray.visible import hides_something, one_line


def _shown_as_it_is(name: str) -> str:
    if hides_something(name):
        raise ValueError(f"{one_line(name)} holds a character that cannot be seen; write the name without it")
    if name and not has_visible_text(name):
        raise ValueError(f"{name!a} has nothing that can be seen; give it another name")
    return name


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_shown_as_it_is)]
VariantName = Annotated[str, Field(min_length=1, max_length=60), AfterValidator(_shown_as_it_is)]
IssueOrder = Literal["as_written", "reversed"]
Place = Annotated[Location, PlainValidator(Location.of), PlainSerializer(str, return_type=str)]
ExecutorName = Literal["auto", "local", "ray"]
ModeName = Literal["auto", "online", "batch"]


class SpendingLimit(Strict):
    """The most that a run may spend. `likely`: with a probability of `risk` at most it may cost more.

    That holds if the rows of a stage and model, sent by batch in a random order, are alike in what they may cost.
    """

    usd: BudgetUsd
    reserve: Literal["hard", "likely"] = "hard"
    risk: Risk = 1e-6

    @property
    def assumption(self) -> str | None:
        """Under what assumption, and how surely, the budget holds; None where it is hard."""
        if self.reserve == "hard":
            return None
        return (
            f"the run costs more than its budget with a probability of at most {self.risk:g}, if the rows of a stage "
            "and model, which go out by batch in a random order, are exchangeable: what the ones paid for have cost is "
            "a sample of what the others will"
        )


class ParamOverrides(Strict):
    """Settings of a subject or judge that replace the stage's own."""

    max_tokens: Tokens | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    effort: str | None = None

    def over(self, base: Params) -> Params:
        """The stage's settings with these on top."""
        return replace(base, **self.model_dump(exclude_none=True))


class Generate(Strict):
    """How candidates are written (paper: GPT-4.1, temperature 1.4, top-p 0.95, 1,500 tokens, 3 a call)."""

    model: Name
    mode: ModeName | None = None
    candidates: Candidates
    per_call: PerCall = 3
    seeds_shown: Shown = 3
    temperature: Temperature = 1.4
    top_p: TopP = 0.95
    max_tokens: Tokens = 1500


class Validate(Strict):
    """How candidates are scored (paper: GPT-4.1, temperature 0, best 2,000 kept); below `floor` none is kept."""

    model: Name
    mode: ModeName | None = None
    keep: Candidates
    floor: Points = 0
    max_tokens: Tokens = 1000


class Select(Strict):
    """How diverse tests are picked (paper: 50 components, 500 clusters, random state 42).

    `newlines: space` embeds texts with spaces for line breaks, as the published code does.
    """

    embedding: Name
    mode: ModeName | None = None
    newlines: Literal["keep", "space"] = "keep"
    tests: Candidates
    components: Components = 50
    seed: RandomState = 42


class Asked(Strict):
    """What a sweep says of a model that it asks: by its digest, runs and rows know whether it is still the same."""

    @model_validator(mode="before")
    @classmethod
    def _named_by_model(cls, given: Any) -> Any:
        if isinstance(given, str):
            return {"model": given, "name": given}
        if isinstance(given, dict) and "model" in given:
            return {"name": given["model"], **given}
        return given

    @property
    def sha256(self) -> str:
        """The digest of all but the mode, which changes no answer, and places, whose content has a digest."""
        return sha256(self.model_dump_json(exclude={"mode", "rubrics", "tests"}).encode()).hexdigest()


class Subject(Asked):
    """A model under evaluation; one model may appear twice under two names."""

    model: Name
    name: Name
    mode: ModeName | None = None
    system: str = ""
    params: ParamOverrides = ParamOverrides()


class Judge(Asked):
    """A model that reads a test and a response and names the issues that apply."""

    model: Name
    name: Name
    mode: ModeName | None = None
    params: ParamOverrides = ParamOverrides()


class VariedSubject(Subject):
    """A subject of the sweep (`base`) under another system prompt, or asked the tests in other words.

    `tests` is the file that has these, None for the words of the tests.
    """

    name: str
    base: str
    tests: Place | None = None


class VariedJudge(Judge):
    """A judge of the sweep (`base`) with the rubrics' issues in reverse order, or with rubrics in other words.

    `rubrics` is the folder that has these, None for those of the sweep.
    """

    name: str
    base: str
    issues: IssueOrder = "as_written"
    rubrics: Path | None = None


class SubjectVariant(Strict):
    """Asks every subject again: with this system prompt in place of its own, or in the words of a file."""

    name: VariantName
    system: str | None = None
    tests: Place | None = None

    @model_validator(mode="after")
    def _differs(self) -> Self:
        if self.system is None and self.tests is None:
            raise ValueError("changes nothing; give it `system:`, or `tests:` with a file of paraphrases")
        return self

    def of(self, subject: Subject) -> VariedSubject:
        """A subject as it is asked under this variant."""
        return VariedSubject(
            model=subject.model,
            name=f"{subject.name} ({self.name})",
            mode=subject.mode,
            system=subject.system if self.system is None else self.system,
            params=subject.params,
            base=subject.name,
            tests=self.tests,
        )


class JudgeVariant(Strict):
    """Has every judge read the subjects' answers again with its rubrics in another order or in other words."""

    name: VariantName
    issues: IssueOrder = "as_written"
    rubrics: Path | None = None

    @model_validator(mode="after")
    def _differs(self) -> Self:
        if self.issues == "as_written" and self.rubrics is None:
            raise ValueError(
                "changes nothing; give it `issues: reversed`, or `rubrics:` with a folder of reworded ones"
            )
        return self

    def of(self, judge: Judge) -> VariedJudge:
        """A judge as it is asked under this variant."""
        return VariedJudge(
            model=judge.model,
            name=f"{judge.name} ({self.name})",
            mode=judge.mode,
            params=judge.params,
            base=judge.name,
            issues=self.issues,
            rubrics=self.rubrics,
        )


class Variants(Strict):
    """What is asked once more in another way: of every subject, of every judge."""

    subjects: Annotated[tuple[SubjectVariant, ...], Field(max_length=MAX_LISTED)] = ()
    judges: Annotated[tuple[JudgeVariant, ...], Field(max_length=MAX_LISTED)] = ()


def _off(given: Any) -> Any:
    return "off" if given is False else given


Validation = Annotated[Validate | Literal["off"], BeforeValidator(_off)]
Deduplicate = Annotated[Literal["exact", "off"], BeforeValidator(_off)]


class ResponseSample(Strict):
    """Has judges read the answers to some of a file's tests: the same ones of every subject, drawn by `seed`."""

    per_dimension: Candidates
    by: Literal["test"] = "test"
    seed: Seed = 0


class Drawn(Strict):
    """What a sweep reads of a dimension: so many tests `of` those in the file, and the digest of which."""

    tests: int
    of: int
    sha256: str


class GivenAnswers(Strict):
    """A file of responses that judges read instead of asking their subjects; `subjects` are those it is read for.

    Without names it is read for all that are in it. `only: rated` leaves out what no person has rated in the files
    under `raters:`, and `sample` draws among the tests that are left; the run's tests are then those.
    """

    file: Place
    subjects: Annotated[tuple[Name, ...], Field(max_length=MAX_LISTED)] = ()
    sample: ResponseSample | None = None
    only: Literal["rated"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _named_by_file(cls, given: Any) -> Any:
        return given if isinstance(given, dict | cls) else {"file": given}


class LeaseTimes(Strict):
    """How a store is held that more than one machine can reach, in seconds.

    The holder renews its lease every `renew_s`, spends nothing while its last renewal is older than `lost_s`, and may
    be succeeded once its record has not changed for `take_s`.
    """

    renew_s: Seconds = 10.0
    lost_s: Seconds = 20.0
    take_s: Seconds = 40.0

    @model_validator(mode="after")
    def _in_this_order(self) -> Self:
        if not self.renew_s < self.lost_s < self.take_s:
            raise ValueError(
                f"renew_s ({self.renew_s:g}) must be below lost_s ({self.lost_s:g}), and that below take_s "
                f"({self.take_s:g}); leave `lease:` out for 10, 20 and 40"
            )
        return self
