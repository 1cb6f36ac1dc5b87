"""Reads rubric files: the built-in ones and those of a folder, which take precedence."""

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TypeVar

from hab_ray.errors import ConfigError
from hab_ray.inputs.files import BadInput, text_of
from hab_ray.inputs.origin import Origin
from hab_ray.inputs.yaml_text import parse_yaml, yaml_file
from hab_ray.resources import bundled
from hab_ray.rubric.checks import Findings, RubricProblem, check_rubric, check_themes, short_assessments
from hab_ray.rubric.parts import LiteralRubric, Rubric, Themes

_LINE = re.compile(r"([^\n]*\n|[^\n]+\Z)\n?")


@dataclass(frozen=True)
class KeptTexts:
    """A run's copies of the user's own texts. `read` returns the one with a digest; None if the run does not hold it.

    `hashes` and `origins` are those in the run's record. A rubric's digest leaves its origin out, and so does the copy.
    """

    read: Callable[[str], bytes | None]
    hashes: Mapping[str, str]
    origins: Mapping[str, Origin]

    def text(self, name: str) -> bytes | None:
        """Return the text with this name in the record."""
        return self.read(self.hashes.get(name, ""))

    def rubric(self, name: str) -> Rubric | None:
        """Return the rubric of a dimension, without what only readers see."""
        return self._rubric(f"rubric {name}", f"rubric {name}")

    def wordings(self, judge: str, dimensions: Iterable[str]) -> dict[str, Rubric]:
        """Return a varied judge's rubrics for those dimensions in which it has its own; {} if one is missing."""
        own = f"wording of {judge}"
        names = {name: f"{own}: {name}" for name in dimensions if f"{own}: {name}" in self.hashes}
        found = {name: rubric for name in names if (rubric := self._rubric(names[name], own))}
        return found if len(found) == len(names) else {}

    def _rubric(self, name: str, origin: str) -> Rubric | None:
        text = self.text(name)
        if text is None:
            return None
        with suppress(ValueError, TypeError, KeyError, RecursionError):  # a text that somebody else wrote
            rubric = json.loads(text)
            if "literal" not in rubric:
                return Rubric.model_validate(rubric)
            rubric["literal"]["origin"] = self.origins[origin]
            return LiteralRubric.model_validate(rubric)
        return None

    def themes(self) -> tuple[str, ...] | None:
        """Return the themes. Imported ones are lines, which include their line breaks."""
        text = self.text("themes")
        if text is None:
            return None
        shown = text.decode("utf-8", "replace")
        return tuple(_LINE.findall(shown) if "\n\n" in shown or shown.endswith("\n") else shown.split("\n"))


NO_TEXTS = KeptTexts(lambda digest: None, {}, {})


THEMES_FILE = "themes.yaml"
_NOT_READ = frozenset({"prompts.yaml"})
_VERSIONS = "versions"
_NO_DIGESTS: Mapping[str, str] = {}
Digested = TypeVar("Digested", Rubric, Themes)


def load_rubrics(folder: Path | None = None) -> dict[str, Rubric]:
    """Return the built-in rubrics and those of `folder`; see `read_library`."""
    return read_library(folder).rubrics()


def rubric_names(folder: Path | None = None) -> list[str]:
    """Return the sorted dimensions that have a built-in rubric file or one in `folder`; read none of the files."""
    files = {file.name for file in bundled("rubrics").iterdir()} | _own_files(folder, []).keys()
    return sorted(name.removesuffix(".yaml") for name in files if _is_read(name) and name != THEMES_FILE)


def unknown_dimensions(dimensions: Iterable[str], folder: Path | None, known: Collection[str]) -> Iterator[str]:
    """Yield a problem for each dimension that has no rubric, neither built-in nor in `folder`; `known` are those."""
    where = f"{folder} or the built-in rubrics" if folder else "the built-in rubrics"
    for dimension in dimensions:
        if dimension not in known:
            near = difflib.get_close_matches(dimension, known, n=1)
            hint = f"did you mean {near[0]!r}? There" if near else "there"
            yield f"dimensions: there is no rubric {dimension}.yaml in {where}; {hint} are {', '.join(known)}"


def load_rewordings(folder: Path) -> dict[str, Rubric]:
    """Return only the rubrics of `folder`, sorted by id; raises ConfigError like `read_library`."""
    library = read_library(folder)
    return {name: rubric for name, rubric in library.rubrics().items() if f"{name}.yaml" in library.own}


def check(folder: Path | None = None) -> list[RubricProblem]:
    """Return all problems of the built-in files and those of `folder`, in the order of the files.

    Assessments of examples that are too short come last. They are found only here and before a run starts.
    """
    library = _read(folder)
    files = ((rubric, library.own.get(f"{name}.yaml")) for name, rubric in library.found.items())
    short = (short_assessments(rubric, file) for rubric, file in files if file is not None)
    return [*library.problems, *chain.from_iterable(short)]


@dataclass(frozen=True)
class RubricLibrary:
    """The built-in rubrics and themes, and those of a folder, whose files replace built-in ones of the same name.

    `own` are the folder's files by name. `kept` has the texts of the run that is read, if one is.
    """

    found: Mapping[str, Rubric]
    themes: Themes
    own: Mapping[str, Path]
    problems: tuple[RubricProblem, ...]
    kept: KeptTexts = NO_TEXTS

    def rubrics(self, recorded: Mapping[str, str] = _NO_DIGESTS) -> dict[str, Rubric]:
        """Return the rubrics, sorted by id.

        `recorded` maps dimensions to the digests that a started run recorded. If a rubric has changed since, the kept
        text or the earlier built-in version with that digest is used, so that the run's calls keep their keys. Raise
        ConfigError if the folder's files have problems, and what a run recorded is not among the kept texts.
        """
        found = {name: self._with_digest(name, digest) for name, digest in recorded.items()}
        return dict(sorted({**self.found, **{name: rubric for name, rubric in found.items() if rubric}}.items()))

    def _with_digest(self, name: str, digest: str) -> Rubric | None:
        current = self.found.get(name)
        if current is not None and current.sha256 == digest:
            return current
        if kept := self.kept.rubric(name):
            return kept
        self.refuse_problems()
        if current is None or f"{name}.yaml" in self.own:
            return current
        return _with_digest(digest, f"{name}.yaml", current)

    def refuse_problems(self) -> None:
        """Check that the folder is there and its files are sound; raises ConfigError like `read_library`."""
        if self.problems:
            raise ConfigError("\n".join(map(str, self.problems)))

    def shown_themes(self, recorded: str | None = None) -> tuple[str, ...]:
        """Return the themes that generation shows; `recorded` is their digest in a started run, as in `rubrics`."""
        if recorded is None or recorded == self.themes.sha256:
            return self.themes.shown
        if kept := self.kept.themes():
            return kept
        if THEMES_FILE in self.own:
            return self.themes.shown
        return _with_digest(recorded, THEMES_FILE, self.themes).shown


def read_library(folder: Path | None = None) -> RubricLibrary:
    """Read the built-in files and those of `folder`.

    Raises:
        ConfigError: with one line per problem of any file.
    """
    library = _read(folder)
    library.refuse_problems()
    return library


def read_library_of_run(folder: Path | None, kept: KeptTexts) -> RubricLibrary:
    """Read what a run needs that is only looked at: where files of `folder` are gone or changed, its own copies.

    Problems of files are raised by `RubricLibrary.rubrics` and `refuse_problems`, and only if they matter.
    """
    return replace(_read(folder), kept=kept)


def _read(folder: Path | None) -> RubricLibrary:
    rubrics: dict[str, Rubric] = {}
    themes = Themes(themes=())
    problems: list[RubricProblem] = []
    shipped = {file.name: file for file in bundled("rubrics").iterdir() if _is_read(file.name)}
    own = _own_files(folder, problems)
    for name, file in sorted({**shipped, **own}.items()):
        try:
            read, found = _parsed(name, str(file), text_of(file), name not in own)
        except BadInput as error:
            problems.append(RubricProblem(str(file), "", error.cause, error.remedy))
            continue
        problems += found
        if isinstance(read, Themes):
            themes = read
        elif read is not None:
            rubrics[read.id] = read
    return RubricLibrary(rubrics, themes, own, tuple(problems))


@lru_cache(maxsize=64)
def _parsed(
    name: str, file: str, text: str, is_shipped: bool
) -> tuple[Rubric | Themes | None, Sequence[RubricProblem]]:
    """Return the rubric or the themes that a text holds, if it is one, and its problems. Parsing takes milliseconds.

    Raises:
        BadInput: it is not YAML with keys.
    """
    raw = parse_yaml(text)
    if not isinstance(raw, dict):
        raise BadInput("holds no keys with values", "write it like the built-in rubrics")
    problems: list[RubricProblem] = []
    found = Findings(file, problems, is_shipped)
    if name == THEMES_FILE:
        themes = found.parse(Themes, raw)
        check_themes(raw, found)
        return themes, tuple(problems)
    rubric = found.parse(LiteralRubric if "literal" in raw else Rubric, raw)
    check_rubric(name.removesuffix(".yaml"), raw, found)
    return rubric, tuple(problems)


def _own_files(folder: Path | None, problems: list[RubricProblem]) -> dict[str, Path]:
    own: dict[str, Path] = {}
    if folder is not None and not folder.is_dir():
        remedy = f"name one that holds rubric files; for a run that exists, put its own at {folder.absolute()}"
        problems.append(RubricProblem(str(folder), "", "there is no such folder", remedy))
    elif folder is not None:
        for file in sorted(folder.iterdir()):
            if file.suffix == ".yml":
                problems.append(RubricProblem(str(file), "", "is not read", f"name it {file.stem}.yaml"))
            elif _is_read(file.name):
                own[file.name] = file
    return own


def _is_read(name: str) -> bool:
    return name.endswith(".yaml") and not name.startswith(".") and name not in _NOT_READ


def _with_digest(digest: str, file: str, current: Digested) -> Digested:
    """Return the version of a built-in file with this digest, or the current one if no version has it."""
    if current.sha256 == digest:
        return current
    folders = (entry for entry in bundled("rubrics").joinpath(_VERSIONS).iterdir() if entry.is_dir())
    files = (folder.joinpath(file) for folder in folders)
    versions = (type(current).model_validate(yaml_file(each)) for each in files if each.is_file())
    return next((version for version in versions if version.sha256 == digest), current)
