"""The sections of a sweep file: stages, models and their variants, given answers, budget, lease times."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator, model_validator

from hab_ray import bounds
from hab_ray.calls import Params, has_visible_text
from hab_ray.catalog.base import Strict
from hab_ray.location import Location
from hab_ray.visible import hides_something, one_line


def _checked_name(name: str) -> str:
    if hides_something(name):
        raise ValueError(f"{one_line(name)} holds a character that cannot be seen; write the name without it")
    if name and not has_visible_text(name):
        raise ValueError(f"{name!a} has nothing that can be seen; give it another name")
    return name


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_checked_name)]
VariantName = Annotated[str, Field(min_length=1, max_length=60), AfterValidator(_checked_name)]
IssueOrder = Literal["as_written", "reversed"]
Place = Annotated[Location, PlainValidator(Location.of), PlainSerializer(str, return_type=str)]
Folder = Annotated[Path, BeforeValidator(lambda given: str(Location.of(given)))]
ExecutorName = Literal["auto", "local", "ray"]
ModeName = Literal["auto", "online", "batch"]
_NOT_HASHED = {"mode", "rubrics", "tests"}


class SpendingLimit(Strict):
    """The most that a run may spend. With `reserve: likely`, it may cost more with probability at most `risk`.

    That holds if the costs of a stage and model's rows, sent by batch in a random order, are exchangeable.
    """

    usd: bounds.BudgetUsd
    reserve: Literal["hard", "likely"] = "hard"
    risk: bounds.Risk = 1e-6

    @property
    def assumption(self) -> str | None:
        """The probability that the run exceeds a likely budget, and the assumption behind it; None if it is hard."""
        if self.reserve == "hard":
            return None
        return (
            f"the run costs more than its budget with a probability of at most {self.risk:g}, if the rows of a stage "
            "and model, which go out by batch in a random order, are exchangeable: what the rows paid for so far have "
            "cost is a random sample of what all will cost"
        )


class ParamOverrides(Strict):
    """Settings of a subject or judge that replace the stage's."""

    max_tokens: bounds.Tokens | None = None
    temperature: bounds.Temperature | None = None
    top_p: bounds.TopP | None = None
    effort: str | None = None

    def over(self, base: Params) -> Params:
        """Return the stage's settings with these on top."""
        return replace(base, **self.model_dump(exclude_none=True))


class Generate(Strict):
    """How candidates are generated (paper: GPT-4.1, temperature 1.4, top-p 0.95, 1,500 tokens, 3 per call)."""

    model: Name
    mode: ModeName | None = None
    candidates: bounds.Candidates
    per_call: bounds.PerCall = 3
    seeds_shown: bounds.Shown = 3
    temperature: bounds.Temperature = 1.4
    top_p: bounds.TopP = 0.95
    max_tokens: bounds.Tokens = 1500


class Validate(Strict):
    """How candidates are scored (paper: GPT-4.1, temperature 0, best 2,000 kept). Those below `floor` are dropped."""

    model: Name
    mode: ModeName | None = None
    keep: bounds.Candidates
    floor: bounds.Points = 0
    max_tokens: bounds.Tokens = 1000


class Select(Strict):
    """How diverse tests are selected (paper: 50 components, 500 clusters, random state 42).

    `newlines: space` replaces line breaks by spaces before embedding, as the published code does.
    """

    embedding: Name
    mode: ModeName | None = None
    newlines: Literal["keep", "space"] = "keep"
    tests: bounds.Candidates
    components: bounds.Components = 50
    seed: bounds.RandomState = 42


class AskedModel(Strict):
    """A subject or judge as a sweep describes it. A changed digest tells a run that its rows are out of date."""

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
        """Hex digest of the description, without the mode, which changes no answer, and paths to hashed files."""
        return sha256(self.model_dump_json(exclude=_NOT_HASHED).encode()).hexdigest()

    @property
    def hashed(self) -> dict[str, Any]:
        """What the digest is of."""
        return self.model_dump(exclude=_NOT_HASHED)


class Subject(AskedModel):
    """A model under evaluation. One model may appear several times, under different names."""

    model: Name
    name: Name
    mode: ModeName | None = None
    system: str = ""
    params: ParamOverrides = ParamOverrides()


class Judge(AskedModel):
    """A model that reads a test and a response and names the issues that apply."""

    model: Name
    name: Name
    mode: ModeName | None = None
    params: ParamOverrides = ParamOverrides()


class VariedSubject(Subject):
    """A subject of the sweep (`base`) with another system prompt, or with paraphrased tests.

    `tests` is the file of paraphrases, None for the original wording.
    """

    name: str
    base: str
    tests: Place | None = None


class VariedJudge(Judge):
    """A judge of the sweep (`base`) with the rubrics' issues in reverse order, or with reworded rubrics.

    `rubrics` is the folder of reworded rubrics, None for those of the sweep.
    """

    name: str
    base: str
    issues: IssueOrder = "as_written"
    rubrics: Folder | None = None


class SubjectVariant(Strict):
    """Asks every subject again, with this system prompt instead of its own or with a file of paraphrased tests."""

    name: VariantName
    system: str | None = None
    tests: Place | None = None

    @model_validator(mode="after")
    def _differs(self) -> Self:
        if self.system is None and self.tests is None:
            raise ValueError("changes nothing; give it `system:`, or `tests:` with a file of paraphrases")
        return self

    def of(self, subject: Subject) -> VariedSubject:
        system = subject.system if self.system is None else self.system
        changes = {"name": f"{subject.name} ({self.name})", "system": system, "base": subject.name, "tests": self.tests}
        return VariedSubject(**dict(subject) | changes)


class JudgeVariant(Strict):
    """Has every judge read the subjects' answers again, with reordered or reworded rubrics."""

    name: VariantName
    issues: IssueOrder = "as_written"
    rubrics: Folder | None = None

    @model_validator(mode="after")
    def _differs(self) -> Self:
        if self.issues == "as_written" and self.rubrics is None:
            raise ValueError(
                "changes nothing; give it `issues: reversed`, or `rubrics:` with a folder of reworded ones"
            )
        return self

    def of(self, judge: Judge) -> VariedJudge:
        changes = {"base": judge.name, "issues": self.issues, "rubrics": self.rubrics}
        return VariedJudge(**dict(judge) | changes | {"name": f"{judge.name} ({self.name})"})


class Variants(Strict):
    """The variants of every subject and of every judge."""

    subjects: Annotated[tuple[SubjectVariant, ...], Field(max_length=bounds.MAX_LISTED)] = ()
    judges: Annotated[tuple[JudgeVariant, ...], Field(max_length=bounds.MAX_LISTED)] = ()


def _off(given: Any) -> Any:
    return "off" if given is False else given


Validation = Annotated[Validate | Literal["off"], BeforeValidator(_off)]
Deduplicate = Annotated[Literal["exact", "off"], BeforeValidator(_off)]


class ResponseSample(Strict):
    """Has judges read the answers to a random sample of a file's tests, drawn by `seed`, the same for every subject."""

    per_dimension: bounds.Candidates
    by: Literal["test"] = "test"
    seed: bounds.Seed = 0


class Drawn(Strict):
    """The sample of a dimension's tests: its size, the number (`of`) that it is drawn from, and the sample's digest."""

    tests: int
    of: int
    sha256: str


class GivenAnswers(Strict):
    """A file of responses for judges to read, so that their subjects need not be asked.

    `subjects` are the ones to read; () = all in the file. `only: rated` leaves out the answers that no person has rated
    in the files under `raters:`; `sample` draws from the remaining tests, which are then the run's tests.
    """

    file: Place
    subjects: Annotated[tuple[Name, ...], Field(max_length=bounds.MAX_LISTED)] = ()
    sample: ResponseSample | None = None
    only: Literal["rated"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _named_by_file(cls, given: Any) -> Any:
        return given if isinstance(given, dict | cls) else {"file": given}


class LeaseTimes(Strict):
    """Times, in seconds, of the lease on a store that several machines can reach.

    The holder renews its lease every `renew_s` and spends nothing while the last renewal is older than `lost_s`.
    Another process may take the lease over once its record has not changed for `take_s`.
    """

    renew_s: bounds.Seconds = 10.0
    lost_s: bounds.Seconds = 20.0
    take_s: bounds.Seconds = 40.0

    @model_validator(mode="after")
    def _in_this_order(self) -> Self:
        if not self.renew_s < self.lost_s < self.take_s:
            raise ValueError(
                f"renew_s ({self.renew_s:g}) must be below lost_s ({self.lost_s:g}), and that below take_s "
                f"({self.take_s:g}); leave `lease:` out for 10, 20 and 40"
            )
        return self
