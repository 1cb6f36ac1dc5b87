"""Rubrics: the files that define a dimension, read, checked and hashed.

All that is particular to a dimension is data in `rubrics/<dimension>.yaml`, so that a seventh is one more file
and no code. As a slip in a rubric is paid for in thousands of calls, `check` reports everything that is wrong
in all files at once, before anything is sent.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from hashlib import sha256
from importlib.resources.abc import Traversable
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, ValidationError

from hab_ray.errors import ConfigError
from hab_ray.inputs.files import BadInput
from hab_ray.inputs.yaml_text import yaml_file
from hab_ray.resources import bundled
from hab_ray.visible import one_line

VALIDATION_START = 1000
SCORE_START = 10
SEEDS_MIN = 10
EXAMPLES = 3
THEMES_MIN = 75
THEMES_FILE = "themes.yaml"
NOT_READ = frozenset({"prompts.yaml"})

Text = Annotated[str, Field(min_length=1)]


class Part(BaseModel):
    """A part of a rubric file: frozen, without unknown keys, texts without surrounding white space."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class Criterion(Part):
    """A named fault and the points it costs: of a candidate (from 1000) or of a response (an issue, from 10)."""

    letter: Text
    deduction: StrictInt
    text: Text


class Seed(Part):
    """A query written by hand: shown to the generator, and askable as a test itself."""

    prompt: Text
    context: Text | None = None


class Example(Part):
    """A graded response that shows the judge how the issues are meant; `issues` are letters, () = faultless."""

    prompt: Text
    context: Text | None = None
    response: Text
    assessment: Text
    issues: tuple[str, ...]


class ContextField(Part):
    """A second field of each query, which validator and judge see and the subject does not.

    `within_prompt`: it must occur in the prompt word for word.
    """

    label: Text
    description: Text
    within_prompt: StrictBool


class Generation(Part):
    """How queries of this dimension are written."""

    brief: Text
    seeds: tuple[Seed, ...]


class Validation(Part):
    """What spoils a candidate, in points of VALIDATION_START; that many disqualify it."""

    criteria: tuple[Criterion, ...] = Field(min_length=1)


class Judging(Part):
    """What a judge is told, beside the rubric's definition."""

    guidance: Text
    issues: tuple[Criterion, ...] = Field(min_length=1)
    examples: tuple[Example, ...]


class Rubric(Part):
    """One dimension. `system` is what it adds to the subject's system prompt, "" = nothing."""

    id: str = Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")
    title: Text
    definition: Text
    system: str
    context: ContextField | None = None
    generation: Generation
    validation: Validation
    judging: Judging

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the content: comments, line breaks and the order of keys in the file do not count."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode("ascii")).hexdigest()

    def issue_letters(self) -> tuple[str, ...]:
        """The letters a judge may name, in order."""
        return tuple(issue.letter for issue in self.judging.issues)

    def deduction(self, letter: str) -> int:
        """Points of SCORE_START that the issue costs. Raises KeyError if the rubric has no such letter."""
        return {issue.letter: issue.deduction for issue in self.judging.issues}[letter]


class Themes(Part):
    """The themes file: short subjects, one of which is drawn for each generation request."""

    themes: tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in one file. `field` is a dotted path, list positions counted from 0; "" = the file."""

    file: str
    field: str
    cause: str
    remedy: str

    def __str__(self) -> str:
        where = f"{self.file}: {self.field}" if self.field else self.file
        return one_line(f"{where}: {self.cause}; {self.remedy}")


def load_rubrics(folder: Path | None = None) -> dict[str, Rubric]:
    """The built-in rubrics and those of `folder`, sorted by id; a file of the same name replaces the built-in.

    Raises ConfigError with every problem of every file, one a line.
    """
    library = _read(folder)
    library.refuse_problems()
    return dict(sorted(library.rubrics.items()))


def load_themes(folder: Path | None = None) -> tuple[str, ...]:
    """The themes of `folder` if it has a themes.yaml, else the built-in. Raises ConfigError as load_rubrics."""
    library = _read(folder)
    library.refuse_problems()
    return library.themes


def check(folder: Path | None = None) -> list[Problem]:
    """Everything wrong in the built-in files and those of `folder`, in the order of the files."""
    return list(_read(folder).problems)


@dataclass(frozen=True)
class _Library:
    rubrics: Mapping[str, Rubric]
    themes: tuple[str, ...]
    problems: tuple[Problem, ...]

    def refuse_problems(self) -> None:
        if self.problems:
            raise ConfigError("\n".join(map(str, self.problems)))


def _read(folder: Path | None) -> _Library:
    rubrics: dict[str, Rubric] = {}
    themes: tuple[str, ...] = ()
    problems: list[Problem] = []
    for file in _files(folder, problems):
        raw = _plain(file, problems)
        if raw is None:
            continue
        found = _Findings(str(file), problems)
        if file.name == THEMES_FILE:
            parsed = found.parse(Themes, raw)
            _check_themes(raw, found)
            themes = parsed.themes if parsed else ()
        else:
            rubric = found.parse(Rubric, raw)
            _check_rubric(file.name.removesuffix(".yaml"), raw, found)
            if rubric is not None:
                rubrics[rubric.id] = rubric
    return _Library(rubrics, themes, tuple(problems))


def _files(folder: Path | None, problems: list[Problem]) -> list[Traversable]:
    by_name = {file.name: file for file in bundled("rubrics").iterdir() if _is_read(file.name)}
    if folder is not None and not folder.is_dir():
        problems.append(Problem(str(folder), "", "there is no such folder", "name one that holds rubric files"))
    elif folder is not None:
        for file in sorted(folder.iterdir()):
            if file.suffix == ".yml":
                problems.append(Problem(str(file), "", "is not read", f"name it {file.stem}.yaml"))
            elif _is_read(file.name):
                by_name[file.name] = file
    return [by_name[name] for name in sorted(by_name)]


def _is_read(name: str) -> bool:
    return name.endswith(".yaml") and not name.startswith(".") and name not in NOT_READ


def _plain(file: Traversable, problems: list[Problem]) -> dict[str, Any] | None:
    """The file's content, or None when it cannot be used at all."""
    try:
        raw = yaml_file(file)
    except BadInput as error:
        problems.append(Problem(str(file), "", error.cause, error.remedy))
    else:
        if isinstance(raw, dict):
            return raw
        cause = f"holds {type(raw).__name__} and not keys with values"
        problems.append(Problem(str(file), "", cause, "write it like the built-in rubrics"))
    return None


P = TypeVar("P", bound=Part)


@dataclass(frozen=True)
class _Findings:
    """Collects the problems of one file."""

    file: str
    problems: list[Problem]

    def add(self, field: str, cause: str, remedy: str) -> None:
        self.problems.append(Problem(self.file, field, cause, remedy))

    def parse(self, kind: type[P], raw: Mapping[str, Any]) -> P | None:
        """The content as `kind`, or None with a problem for each key that is missing, unknown or ill-typed."""
        try:
            return kind.model_validate(raw)
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_input=False):
                path = [str(step) for step in detail["loc"]]
                self.add(".".join(path), *_explained(detail["type"], detail["msg"], path))
        return None


_KEYS = sorted({key for part in Part.__subclasses__() for key in part.model_fields})


def _explained(kind: str, message: str, path: list[str]) -> tuple[str, str]:
    if kind == "missing":
        return "the key is missing", "add it"
    if kind == "extra_forbidden":
        near = get_close_matches(path[-1], _KEYS, n=1)
        return "unknown key", f"write {near[0]} or remove it" if near else "remove it"
    return message[0].lower() + message[1:], "correct the value"


def _at(raw: Mapping[str, Any], path: str) -> Any:
    value: Any = raw
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _list(raw: Mapping[str, Any], path: str) -> list[Any]:
    value = _at(raw, path)
    return value if isinstance(value, list) else []


def _readable(raw: Mapping[str, Any], path: str, kind: type[P]) -> Iterator[tuple[str, P]]:
    """Path and content of each entry that can be judged, so that one bad entry does not hide the others'."""
    for number, entry in enumerate(_list(raw, path)):
        with suppress(ValidationError):
            yield f"{path}.{number}", kind.model_validate(entry, extra="ignore")


def _check_rubric(stem: str, raw: Mapping[str, Any], found: _Findings) -> None:
    """What the types cannot say; entries that do not fit the types are left to `_Findings.parse`."""
    if "id" in raw and raw["id"] != stem:
        found.add("id", f"is {raw['id']!r} in a file called {stem}.yaml", "give both the same name")
    _check_deductions(raw, "validation.criteria", VALIDATION_START, found)
    _check_deductions(raw, "judging.issues", SCORE_START, found)
    _check_seeds(raw, found)
    _check_examples(raw, found)
    _check_contexts(raw, found)


def _check_deductions(raw: Mapping[str, Any], path: str, most: int, found: _Findings) -> None:
    entries = list(_readable(raw, path, Criterion))
    for field, entry in entries:
        if not 1 <= entry.deduction <= most:
            found.add(f"{field}.deduction", f"is {entry.deduction}", f"make it 1 to {most}")
    letters = [entry.letter for _, entry in entries]
    doubled = [field for n, (field, entry) in enumerate(entries) if entry.letter in letters[:n]]
    for field in doubled:
        found.add(f"{field}.letter", "stands twice in this list", "give each entry a letter of its own")
    complete = len(letters) == len(_list(raw, path))
    if complete and not doubled and "".join(letters) != ascii_uppercase[: len(letters)]:
        cause = f"the letters run {', '.join(letters)}"
        found.add(path, cause, f"letter the entries A to {ascii_uppercase[len(letters) - 1]} in order")


def _check_seeds(raw: Mapping[str, Any], found: _Findings) -> None:
    path = "generation.seeds"
    seeds = _at(raw, path)
    if isinstance(seeds, list) and len(seeds) < SEEDS_MIN:
        found.add(path, f"has {len(seeds)} seeds", f"write at least {SEEDS_MIN}")
    prompts = ((field, seed.prompt) for field, seed in _readable(raw, path, Seed))
    _check_repeats(prompts, ".prompt", found)


def _check_examples(raw: Mapping[str, Any], found: _Findings) -> None:
    path = "judging.examples"
    examples = _at(raw, path)
    if isinstance(examples, list) and len(examples) != EXAMPLES:
        found.add(path, f"has {len(examples)} examples", f"give exactly {EXAMPLES}: good, middling and bad")
    issues = _list(raw, "judging.issues")
    known = {str(entry.get("letter")).strip() for entry in issues if isinstance(entry, Mapping)}
    for field, example in _readable(raw, path, Example):
        for letter, times in Counter(example.issues).items():
            if letter not in known:
                found.add(f"{field}.issues", f"{letter!r} is no letter of judging.issues", "name one that is")
            if times > 1:
                found.add(f"{field}.issues", f"{letter!r} is named {times} times", "name it once")


def _check_contexts(raw: Mapping[str, Any], found: _Findings) -> None:
    wanted = raw.get("context") is not None
    within = _at(raw, "context.within_prompt") is True
    entries: list[tuple[str, Seed | Example]] = [
        *_readable(raw, "generation.seeds", Seed),
        *_readable(raw, "judging.examples", Example),
    ]
    for field, entry in entries:
        if wanted and entry.context is None:
            found.add(f"{field}.context", "is missing, though the rubric has a context field", "add it")
        elif not wanted and entry.context is not None:
            cause = "is given, though the rubric has no context field"
            found.add(f"{field}.context", cause, "remove it, or describe the field under context")
        elif within and str(entry.context) not in entry.prompt:
            found.add(f"{field}.context", "does not occur in the prompt", "copy it from there word for word")


def _check_themes(raw: Mapping[str, Any], found: _Findings) -> None:
    themes = _at(raw, "themes")
    if not isinstance(themes, list):
        return
    if len(themes) < THEMES_MIN:
        found.add("themes", f"has {len(themes)} themes", f"write at least {THEMES_MIN}")
    _check_repeats(((f"themes.{n}", str(theme)) for n, theme in enumerate(themes)), "", found)


def _check_repeats(texts: Iterable[tuple[str, str]], suffix: str, found: _Findings) -> None:
    first: dict[str, str] = {}
    for field, text in texts:
        earlier = first.setdefault(" ".join(text.split()).casefold(), field)
        if earlier != field:
            found.add(f"{field}{suffix}", f"repeats {earlier}", "write another or remove it")
