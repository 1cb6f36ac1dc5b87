"""The prompts of the benchmark: templates from `rubrics/prompts.yaml`, filled from a rubric."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property
from hashlib import sha256
from importlib.resources.abc import Traversable
from os.path import lexists
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, ValidationError

from hab_ray.bounds import NUMBER
from hab_ray.catalog.base import Strict
from hab_ray.errors import ConfigError
from hab_ray.fences import FENCE_VERSION, FENCES
from hab_ray.inputs.files import BadInput, plain_words
from hab_ray.inputs.yaml_text import yaml_file
from hab_ray.resources import bundled
from hab_ray.rubric import Fidelity, RubricProblem
from hab_ray.rubric.parts import (
    ContextField,
    Criterion,
    Example,
    Generation,
    Judging,
    Note,
    Rubric,
    ScoredCandidate,
    Seed,
    Validation,
)
from hab_ray.stages.prompts.sandbox import FUNCTIONS, BadTemplate, safe_template

_ISSUE = Criterion(letter="A", deduction=5, text="It gives no answer.")
_PROMPT = "Roses are red. What else do you know of them?"


@cache
def samples() -> tuple[Mapping[str, Any], ...]:
    """Return values without a context, with a context beside the prompt, and with one within the prompt."""
    return (
        _sample(None, "", 1),
        _sample(ContextField(label="Fact", description="A true fact.", within_prompt=False), "Ivy climbs.", 3),
        _sample(ContextField(label="Claim", description="A claim.", within_prompt=True), "Roses are red.", 3),
    )


def _sample(field: ContextField | None, context: str, count: int) -> Mapping[str, Any]:
    own = context or None
    examples = tuple(
        Example(prompt=_PROMPT, context=own, response="Much.", assessment="It says little.", issues=issues)
        for issues in ((), ("A",))
    )
    scored = tuple(
        ScoredCandidate(prompt=_PROMPT, context=own, assessment="It asks.", deductions=letters, score=score)
        for letters, score in (((), 1000), (("A",), 995))
    )
    notes = (Note(text="Be kind."), Note(text="Be brief.", ours=True, why="Why not."))
    rubric = Rubric(
        id="sample",
        title="Sample",
        definition="Whether the assistant answers.",
        system="Answer in one sentence." if field else "",
        context=field,
        generation=Generation(brief="Ask about plants.", seeds=(Seed(prompt=_PROMPT, context=own),) * 2),
        validation=Validation(criteria=(_ISSUE,), examples=scored),
        judging=Judging(guidance="Be fair.", notes=notes, issues=(_ISSUE,), examples=examples),
    )
    values = {"prompt": _PROMPT, "context": context, "response": "They have thorns."}
    return {"rubric": rubric, "seeds": rubric.seeds, "theme": "gardening", "count": count, **values}


PROMPTS_VERSION = 3
PROMPTS_FILE = "prompts.yaml"

_SYSTEM_NAMES = frozenset({"rubric", *FUNCTIONS})
_USER_NAMES: Mapping[str, frozenset[str]] = {
    "generate": frozenset({"rubric", "seeds", "theme", "count", *FUNCTIONS}),
    "validate": frozenset({"rubric", "prompt", "context", *FUNCTIONS}),
    "judge": frozenset({"rubric", "prompt", "context", "response", *FUNCTIONS}),
}
_AGAIN_NAMES = frozenset({"problem"})
_SHOWN: Mapping[str, Mapping[str, object]] = {
    "generate": {"count": 90_817},
    "validate": {"prompt": "prompt90817"},
    "judge": {"prompt": "prompt90817", "response": "response90817"},
}


class Reasoning(StrEnum):
    """What a judge writes before it names letters: a thought on each issue, by its letter, or one short text."""

    PER_ISSUE = "per_issue"
    BRIEF = "brief"


class OurNotes(StrEnum):
    """Whether judges are shown a rubric's notes that are not from the paper."""

    INCLUDE = "include"
    LEAVE_OUT = "leave_out"


class TemplateTexts(Strict):
    """The templates of one kind of request, as in prompts.yaml."""

    system: str
    user: str
    again: str | None = None


class JudgeTexts(TemplateTexts):
    """The judge's templates and two choices, on which the templates and the form of a verdict depend.

    Files without them, such as those of version 2, ask for one short text and show no notes of ours.
    """

    reasoning: Reasoning | None = None
    ours: OurNotes | None = None

    @property
    def choices(self) -> Mapping[str, str]:
        """The choices by their names in templates."""
        reasoning, ours = self.reasoning or Reasoning.BRIEF, self.ours or OurNotes.LEAVE_OUT
        return {"reasoning": reasoning.value, "ours": ours.value}


class PromptsFile(Strict):
    """A prompts.yaml, or a run's copy of one."""

    model_config = ConfigDict(validate_by_alias=True, validate_by_name=True)

    version: Annotated[int, NUMBER, Field(ge=1, le=PROMPTS_VERSION)]
    generate: TemplateTexts
    validation: TemplateTexts = Field(alias="validate")
    judge: JudgeTexts
    fidelity: Fidelity | None = Field(default=None, exclude=True)

    @property
    def text(self) -> bytes:
        """All templates as JSON. Absent fields do not count."""
        return self.model_dump_json(exclude_none=True).encode()


@dataclass(frozen=True)
class Wording:
    """The templates of a request's system message, which never changes within a dimension, and its user message.

    `again` is appended if an answer was unusable and the request is repeated; None appends nothing. `stage` is the key
    in `file`, `fence` the version of the fences. `choices` are the file's choices, by their names in the system
    template. `is_literal` is False: we specify the form of the answer, so a schema may enforce it.

    Raises:
        ConfigError: a template fails with the values it gets; the message names file and field.
    """

    system: str
    user: str
    again: str | None
    stage: str
    file: str
    fence: int
    choices: Mapping[str, str] = field(default_factory=dict)
    is_literal: ClassVar[bool] = False

    def fill_system(self, values: Mapping[str, Any]) -> str:
        """Render the system message."""
        names = _SYSTEM_NAMES.union(self.choices)
        return self._filled("system", self.system, names, {**self.choices, **values})

    def fill_user(self, values: Mapping[str, Any]) -> str:
        """Render the user message."""
        return self._filled("user", self.user, _USER_NAMES[self.stage], values)

    def fill_again(self, problem: str) -> str | None:
        """Render what a repeated request says about the unusable answer; None if the prompts say nothing.

        `problem` is a clause in our own words without a full stop. It must not quote the answer.
        """
        if self.again is None:
            return None
        return self._filled("again", self.again, _AGAIN_NAMES, {"problem": problem})

    def _filled(self, half: str, text: str, names: frozenset[str], values: Mapping[str, Any]) -> str:
        try:
            return safe_template(text, names, self.fence).render(values)
        except BadTemplate as error:
            where, remedy = f"{self.stage}.{half}", "change the template; the built-in one shows what works"
            raise BadPrompts(RubricProblem(self.file, where, str(error), remedy)) from None


@dataclass(frozen=True)
class Prompts:
    """The templates of the three steps that have prompts of ours.

    `version` is the file's, `fence` that of the fences around texts, `text` the file's templates as JSON, `reasoning`
    what a judge writes first.
    """

    version: int
    fence: int
    text: bytes
    generate: Wording
    validation: Wording
    judge: Wording
    reasoning: Reasoning
    fidelity: Fidelity | None

    @cached_property
    def sha256(self) -> str:
        """The digest of `text`, for the record of a run."""
        return sha256(self.text).hexdigest()


class BadPrompts(ConfigError):
    """Prompts cannot be used. The arguments are the problems."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


def load_prompts(
    folder: Path | None = None, version: int = PROMPTS_VERSION, fence: int = FENCE_VERSION, kept: bytes | None = None
) -> Prompts:
    """Load the folder's prompts.yaml, or the built-in one of this `version` if the folder has none.

    A run keeps the versions of prompts and fences it started with, so that its calls keep their keys. `kept` is its
    copy of the prompts, which is used instead of the files. Raise ConfigError if there is no such version, or the file
    has problems (one per line).
    """
    if version not in range(1, PROMPTS_VERSION + 1) or fence not in FENCES:
        raise ConfigError(
            f"prompts version {version} with fence version {fence} is unknown: this version of hab-ray has prompts "
            f"1 to {PROMPTS_VERSION} and fences 1 to {FENCE_VERSION}; use the version that started the run"
        )
    if kept is not None:
        with suppress(ValidationError):
            return _load(PromptsFile.model_validate_json(kept), f"the run's copy of {PROMPTS_FILE}", fence)
    source = _source(folder, version)
    return _load(_read(source), str(source), fence)


def prompt_problems(folder: Path | None = None) -> list[RubricProblem]:
    """Return all problems of the prompts that a sweep with this folder would use."""
    try:
        return list(unshown_values(load_prompts(folder)))
    except BadPrompts as error:
        return list(error.args)


def unshown_values(prompts: Prompts) -> Iterator[RubricProblem]:
    """Yield the values that a request must show and that its template leaves out.

    A judge's request without the response would be the same for every subject, and so would its verdict. This is no
    problem of loading, so that runs that started with such prompts can still be read and continued.
    """
    for wording in (prompts.generate, prompts.validation, prompts.judge):
        for name, mark in _SHOWN[wording.stage].items():
            texts = (wording.fill_user({**sample, name: mark}) for sample in samples())
            if not all(str(mark) in text.casefold() for text in texts):
                cause = f"does not always show `{name}`, so the model would be asked without it"
                yield RubricProblem(wording.file, f"{wording.stage}.user", cause, "show it as the built-in one does")


def _source(folder: Path | None, version: int) -> Traversable:
    own = folder / PROMPTS_FILE if folder else None
    if own and lexists(own):
        return own
    rubrics = bundled("rubrics")
    if version == PROMPTS_VERSION:
        return rubrics.joinpath(PROMPTS_FILE)
    return rubrics.joinpath("versions", f"prompts-{version}.yaml")


def _load(file: PromptsFile, source: str, fence: int) -> Prompts:
    prompts = Prompts(
        version=file.version,
        fence=fence,
        text=file.text,
        generate=_wording(file.generate, "generate", source, fence),
        validation=_wording(file.validation, "validate", source, fence),
        judge=replace(_wording(file.judge, "judge", source, fence), choices=file.judge.choices),
        reasoning=file.judge.reasoning or Reasoning.BRIEF,
        fidelity=file.fidelity,
    )
    if problems := [p for t in (prompts.generate, prompts.validation, prompts.judge) for p in _problems(t)]:
        raise BadPrompts(*problems)
    return prompts


def _read(source: Traversable) -> PromptsFile:
    try:
        return PromptsFile.model_validate(yaml_file(source))
    except ValidationError as error:
        causes = [
            (".".join(map(str, detail["loc"])), plain_words(detail)) for detail in error.errors(include_url=False)
        ]
    except BadInput as error:
        causes = [("", str(error))]
    remedy = "compare with the built-in prompts.yaml"
    raise BadPrompts(*(RubricProblem(str(source), at, f"not a prompts file: {cause}", remedy) for at, cause in causes))


def _wording(texts: TemplateTexts, stage: str, source: str, fence: int) -> Wording:
    return Wording(texts.system, texts.user, texts.again, stage, source, fence)


def _problems(wording: Wording) -> Iterator[RubricProblem]:
    """Yield the first problem of each template when it is rendered with samples."""
    templates: list[Callable[[Mapping[str, Any]], str | None]] = [
        wording.fill_system,
        wording.fill_user,
        lambda _: wording.fill_again("it holds no JSON object"),
    ]
    for fill in templates:
        try:
            for sample in samples():
                fill(sample)
        except BadPrompts as error:
            yield from error.args
