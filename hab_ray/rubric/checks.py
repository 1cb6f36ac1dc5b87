"""Checks of rubric files beyond types: letters, points, duplicates, consistency, texts still to be filled in.

Most read the file's raw content, so that one bad entry does not hide the problems of the others.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from string import ascii_uppercase
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hab_ray.inputs.files import plain_words
from hab_ray.rubric.literal import RubricPart
from hab_ray.rubric.parts import (
    SCORE_START,
    VALIDATION_START,
    Criterion,
    Example,
    Note,
    Rubric,
    ScoredCandidate,
    Seed,
)
from hab_ray.visible import counted, one_line

P = TypeVar("P", bound=RubricPart)


@dataclass(frozen=True, slots=True)
class RubricProblem:
    """A problem in a file. `field` is a dotted path with list positions counted from 0; "" = the whole file."""

    file: str
    field: str
    cause: str
    remedy: str

    def __str__(self) -> str:
        where = f"{self.file}: {self.field}" if self.field else self.file
        return one_line(f"{where}: {self.cause}; {self.remedy}")


@dataclass(frozen=True)
class Findings:
    """Collects the problems of one file. `is_shipped`: the file is part of hab_ray."""

    file: str
    problems: list[RubricProblem]
    is_shipped: bool = False

    def add(self, field: str, cause: str, remedy: str) -> None:
        self.problems.append(RubricProblem(self.file, field, cause, remedy))

    def parse(self, kind: type[P], raw: Mapping[str, Any]) -> P | None:
        """Return the content as `kind`, or add a problem per missing, unknown or ill-typed key and return None."""
        try:
            return kind.model_validate(raw)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                path = [str(step) for step in detail["loc"]]
                self.add(".".join(path), *_explained(detail, path))
        return None


_KEYS = sorted({key for part in RubricPart.__subclasses__() for key in part.model_fields})


def _explained(error: ErrorDetails, path: list[str]) -> tuple[str, str]:
    if error["type"] == "missing":
        return "the key is missing", "add it"
    if error["type"] == "extra_forbidden":
        near = get_close_matches(path[-1], _KEYS, n=1)
        return "unknown key", f"write {near[0]} or remove it" if near else "remove it"
    message = plain_words(error)
    return message[0].lower() + message[1:], "correct the value"


SEEDS_MIN = 10
EXAMPLES = 3
THEMES_MIN = 75
ASSESSMENT_WORDS_MIN, _LETTERS_MIN = 6, 20
ALL_DIMENSIONS = "overall"
PLACEHOLDER = "<fill in"


def _at(raw: Mapping[str, Any], path: str) -> Any:
    value: Any = raw
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _list(raw: Mapping[str, Any], path: str) -> list[Any]:
    value = _at(raw, path)
    return value if isinstance(value, list) else []


def _valid_entries(raw: Mapping[str, Any], path: str, kind: type[P]) -> Iterator[tuple[str, P]]:
    for number, entry in enumerate(_list(raw, path)):
        with suppress(ValidationError):
            yield f"{path}.{number}", kind.model_validate(entry, extra="ignore")


def check_rubric(stem: str, raw: Mapping[str, Any], found: Findings) -> None:
    """Add the problems of a rubric file to `found`; ill-typed entries are left to `Findings.parse`.

    Rubrics with imported wording may have any number of seeds and examples.
    """
    if "id" in raw and raw["id"] != stem:
        found.add("id", f"is {raw['id']!r} in a file called {stem}.yaml", "give both the same name")
    if stem == ALL_DIMENSIONS:
        found.add("id", f"is {stem!r}, which stands for all dimensions together", "give rubric and file another name")
    _check_placeholders(raw, found)
    _check_deductions(raw, "validation.criteria", VALIDATION_START, found)
    _check_deductions(raw, "judging.issues", SCORE_START, found)
    if "literal" not in raw:
        _check_counts(raw, found)
    seeds = _valid_entries(raw, "generation.seeds", Seed)
    _check_duplicates(((f"{field}.prompt", seed.prompt) for field, seed in seeds), found)
    _check_scored(raw, found)
    _check_notes(raw, found)
    _check_examples(raw, found)
    _check_contexts(raw, found)
    _check_fidelity(raw, found)


def check_themes(raw: Mapping[str, Any], found: Findings) -> None:
    """Add the problems of a themes file to `found`."""
    themes = _at(raw, "themes")
    if isinstance(themes, list):
        if len(themes) < THEMES_MIN:
            found.add("themes", f"has {len(themes)} themes", f"write at least {THEMES_MIN}")
        _check_duplicates(((f"themes.{n}", str(theme)) for n, theme in enumerate(themes)), found)
    _check_fidelity(raw, found)


def short_assessments(rubric: Rubric, file: Path) -> Iterator[RubricProblem]:
    """Yield the assessments of worked examples that a model could also write without copying them.

    A reply that repeats the assessment of an example is not read. This is no part of `check_rubric`, so that runs that
    started with such a rubric can still be read and continued.
    """
    validated = rubric.validation.examples if rubric.validation else ()
    shown: list[tuple[str, str, Sequence[Example | ScoredCandidate]]] = [
        ("judging", "score", rubric.judging.examples),
        ("validation", "validation", validated),
    ]
    for section, lost, examples in shown:
        for number, example in enumerate(examples):
            if _is_short(example.assessment):
                words = counted(len(example.assessment.split()), "word")
                yield RubricProblem(
                    str(file),
                    f"{section}.examples.{number}.assessment",
                    f"has {words}: a reply that happens to say the same counts as a copy and loses its {lost}",
                    f"give the reasons, in at least {ASSESSMENT_WORDS_MIN} words",
                )


def _is_short(text: str) -> bool:
    """Whether a text has few words, or few letters if its script may put no spaces between words."""
    return len(text.split()) < ASSESSMENT_WORDS_MIN and sum(not each.isascii() for each in text) < _LETTERS_MIN


def _check_fidelity(raw: Mapping[str, Any], found: Findings) -> None:
    if found.is_shipped and "fidelity" not in raw:
        found.add("fidelity", "the key is missing", "say what equals the paper, what differs and why")


def _check_placeholders(raw: Any, found: Findings, path: str = "") -> None:
    match raw:
        case str() if raw.lstrip().startswith(PLACEHOLDER):
            hint = raw.strip().removeprefix(PLACEHOLDER).strip(" :>")
            found.add(path, "is still to be filled in", hint or "write it")
        case dict():
            for key, value in raw.items():
                _check_placeholders(value, found, f"{path}.{key}" if path else str(key))
        case list():
            for number, value in enumerate(raw):
                _check_placeholders(value, found, f"{path}.{number}")


def _check_deductions(raw: Mapping[str, Any], path: str, maximum: int, found: Findings) -> None:
    entries = list(_valid_entries(raw, path, Criterion))
    for field, entry in entries:
        if not 1 <= entry.deduction <= maximum:
            found.add(f"{field}.deduction", f"is {entry.deduction}", f"make it 1 to {maximum}")
    letters = [entry.letter for _, entry in entries]
    duplicates = [field for n, (field, entry) in enumerate(entries) if entry.letter in letters[:n]]
    for field in duplicates:
        found.add(f"{field}.letter", "appears twice in this list", "give each entry a letter of its own")
    count = len(_list(raw, path))
    if count > len(ascii_uppercase):
        found.add(path, f"has {count} entries", "keep at most 26, lettered A to Z")
    elif count == len(letters) and not duplicates and "".join(letters) != ascii_uppercase[: len(letters)]:
        cause = f"the letters run {', '.join(letters)}"
        found.add(path, cause, f"letter the entries A to {ascii_uppercase[len(letters) - 1]} in order")


def _check_counts(raw: Mapping[str, Any], found: Findings) -> None:
    seeds, examples = _at(raw, "generation.seeds"), _at(raw, "judging.examples")
    if isinstance(seeds, list) and len(seeds) < SEEDS_MIN:
        found.add("generation.seeds", f"has {counted(len(seeds), 'seed')}", f"write at least {SEEDS_MIN}")
    if isinstance(examples, list) and len(examples) != EXAMPLES:
        cause = f"has {len(examples)} examples"
        found.add("judging.examples", cause, f"give exactly {EXAMPLES}: good, middling and bad")


def _check_scored(raw: Mapping[str, Any], found: Findings) -> None:
    deductions = {c.letter: c.deduction for _, c in _valid_entries(raw, "validation.criteria", Criterion)}
    if not deductions:
        return
    for field, example in _valid_entries(raw, "validation.examples", ScoredCandidate):
        letters = set(example.deductions)
        _check_letters(f"{field}.deductions", example.deductions, "validation.criteria", deductions, found)
        score = max(0, VALIDATION_START - sum(deductions.get(letter, 0) for letter in letters))
        if letters <= deductions.keys() and example.score != score:
            found.add(f"{field}.score", f"is {example.score}, but its deductions leave {score}", "correct one of them")


def _check_notes(raw: Mapping[str, Any], found: Findings) -> None:
    for field, note in _valid_entries(raw, "judging.notes", Note):
        if note.ours and note.why is None:
            found.add(f"{field}.why", "is missing in a note marked `ours`", "say why the note is worth keeping")


def _check_examples(raw: Mapping[str, Any], found: Findings) -> None:
    issues = _list(raw, "judging.issues")
    letters = {str(issue.get("letter")).strip() for issue in issues if isinstance(issue, Mapping)}
    for field, example in _valid_entries(raw, "judging.examples", Example):
        _check_letters(f"{field}.issues", example.issues, "judging.issues", letters, found)


def _check_letters(field: str, named: Iterable[str], of: str, letters: Collection[str], found: Findings) -> None:
    for letter, times in Counter(named).items():
        if letter not in letters:
            found.add(field, f"{letter!r} is not a letter of {of}", "name one that is")
        if times > 1:
            found.add(field, f"{letter!r} is named {times} times", "name it once")


def _check_contexts(raw: Mapping[str, Any], found: Findings) -> None:
    has_context = raw.get("context") is not None
    is_within_prompt = _at(raw, "context.within_prompt") is True
    entries: list[tuple[str, Seed | Example | ScoredCandidate]] = [
        *_valid_entries(raw, "generation.seeds", Seed),
        *_valid_entries(raw, "validation.examples", ScoredCandidate),
        *_valid_entries(raw, "judging.examples", Example),
    ]
    for field, entry in entries:
        if has_context and entry.context is None:
            found.add(f"{field}.context", "is missing, though the rubric has a context field", "add it")
        elif not has_context and entry.context is not None:
            cause = "is given, though the rubric has no context field"
            found.add(f"{field}.context", cause, "remove it, or describe the field under context")
        elif is_within_prompt and not isinstance(entry, ScoredCandidate) and str(entry.context) not in entry.prompt:
            found.add(f"{field}.context", "does not occur in the prompt", "copy it from there word for word")


def _check_duplicates(texts: Iterable[tuple[str, str]], found: Findings) -> None:
    first: dict[str, str] = {}
    for field, text in texts:
        earlier = first.setdefault(" ".join(text.split()).casefold(), field)
        if earlier != field:
            found.add(field, f"repeats {earlier}", "write another or remove it")
