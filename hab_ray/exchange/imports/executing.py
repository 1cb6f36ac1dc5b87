"""Prompts as a checkout's own code makes them: derived as pieces, and compared with ours over hostile values."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from hab_ray.errors import ConfigError
from hab_ray.exchange.imports import child
from hab_ray.exchange.imports.checkout import Checkout
from hab_ray.inputs.files import causes_of
from hab_ray.rubric.literal import Apply, Each, Insert, LiteralValues, Operation, Piece, Value, rendered
from hab_ray.visible import one_line

GENERATION, VALIDATION, JUDGING = "generative_prompt", "relevance_check_prompt", "subject_evaluation_prompt"
METHODS = (GENERATION, VALIDATION, JUDGING)
_WALL_S = 120.0
_COUNT, _SHOWN = 739_014, 3
_MARK = re.compile(f"{re.escape(child.OPEN)}(\\w+){re.escape(child.CLOSE)}|{_COUNT}")
_NAMES = {
    "question": Value.PROMPT,
    "answer": Value.RESPONSE,
    "misinformation": Value.CONTEXT,
    "n_prompts_created_per_generation": Value.COUNT,
}
_TOLD = "n_reference_prompts_shown_in_generation"


@dataclass(frozen=True)
class Executed:
    """What the code of one dimension says, and its pieces by method."""

    said: ChildAnswer
    pieces: Mapping[str, tuple[Piece, ...]]


_Drawn = Annotated[tuple[str, ...], Field(min_length=1)]


class ChildAnswer(BaseModel):
    """What the child says of one dimension: texts with marks, and the digests of all texts, in the order of calls."""

    model_config = ConfigDict(extra="forbid", strict=True)

    parameters: dict[str, list[str]]
    marked: Annotated[list[str], Field(min_length=len(METHODS), max_length=len(METHODS))]
    digests: list[str]
    system: dict[str, str]
    deductions: dict[str, int]
    top: float
    owner: str
    seeds: _Drawn
    themes: _Drawn

    @property
    def uses_context(self) -> bool:
        """Whether judges are shown a second text."""
        return "misinformation" in self.parameters[JUDGING]


_ANSWER = TypeAdapter[dict[str, ChildAnswer]](dict[str, ChildAnswer])


def mark(name: str) -> str:
    """The text that stands for a value where pieces are derived."""
    return f"{child.OPEN}{name}{child.CLOSE}"


_MARKED = LiteralValues(
    mark("prompt"),
    mark("context"),
    mark("response"),
    mark("theme"),
    _COUNT,
    tuple(mark(f"seed{n}") for n in range(_SHOWN)),
)
_HOSTILE = (
    "", " ", "plain", "two\nlines at column 0", "twelve\n            spaces", "twenty\n" + " " * 20 + "spaces\n",
    "tab\n\tline", "\t\tmixed\n \t x", "white\n   \n\t\n\nlines", "CRLF\r\nline\r\n", "CR\rline\r", "NEL\x85line",
    "line\u2028separator\u2029", "NUL\x00", "{question} {0} {{}}", "%s %(answer)d %%", "\ufeffBOM", "\\n \\ \\u0041",
    '"quoted"\n"twice"', "'''\"\"\"", "```json\n{\"issues\": [\"A\"]}\n```", "<score>1000</score>", "\n\nleading\n\n",
    "            all\n            indented", "form\x0cfeed\x0b\n \x0c", "é\u0301\U0001f600\u202e", "\ud800 alone",
    "\x1c\x1d\x1e",
    "\u00a0\u3000\n\u00a0\u3000wide", "x" * 100_000, "line\n" * 20_000, mark("dedent"), mark("end"), mark("prompt"),
    str(_COUNT),
)  # fmt: skip


def hostile_values() -> list[LiteralValues]:
    """Sets of values that a template, an indentation or a splitting of lines could change, each in every place."""
    sets = []
    for number, text in enumerate(_HOSTILE):
        other, third = _HOSTILE[number - 1], _HOSTILE[number - 2]
        seeds = (text, other, third)[: 1 + number % _SHOWN]
        sets.append(LiteralValues(text, other, third, f"{text}\n", 1 + number % 12, seeds))
        sets.append(LiteralValues(third, text, other, "plain\n", 5, ("plain", text, "plain")))
        sets.append(LiteralValues("plain", "plain", text, text, 10, ("plain",)))
    return sets


def executed(checkout: Checkout) -> dict[str, Executed]:
    """Derive the pieces of every dimension, and prove them equal to what the code gives.

    Raises:
        ConfigError: the code does what is not allowed, or its requests are not ours byte for byte.
    """
    sets = [_MARKED, *hostile_values()]
    calls = [_call(method, values, marks=values is _MARKED) for values in sets for method in METHODS]
    made = {}
    for name, each in _ran(checkout, calls).items():
        where = f"{checkout.root}: {one_line(name)}"
        _check(where, each)
        try:
            pieces = {method: _pieces(text, where) for method, text in zip(METHODS, each.marked, strict=True)}
            ours = [_digest(rendered(pieces[method], values)) for values in sets[1:] for method in METHODS]
        except ValueError as error:
            raise ConfigError(f"{where}: its texts hold marks of values that no argument has: {error}") from None
        pairs = zip_longest(ours, each.digests[len(METHODS) :])
        differs = next((number for number, (one, other) in enumerate(pairs) if one != other), None)
        if differs is not None:
            raise ConfigError(
                f"{where}: {METHODS[differs % len(METHODS)]} depends on its values by more than their places "
                f"(hostile set {differs // len(METHODS) + 1} of {len(sets) - 1}); nothing was written"
            )
        made[name] = Executed(each, pieces)
    return made


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _call(method: str, values: LiteralValues, *, marks: bool) -> dict[str, Any]:
    arguments = {name: getattr(values, value.value) for name, value in _NAMES.items()}
    given = arguments | {_TOLD: len(values.seeds)}
    return {
        "method": method, "arguments": given, "seeds": values.seeds, "theme": values.theme, "marks_dedent": marks
    }  # fmt: skip


def _check(where: str, each: ChildAnswer) -> None:
    unknown = sorted({name for names in each.parameters.values() for name in names} - {*_NAMES, _TOLD})
    if unknown:
        raise ConfigError(f"{where}: it is not known what the argument {one_line(unknown[0])!r} stands for")
    if each.top != 10:
        raise ConfigError(f"{where}: its top score is {each.top:g}, and hab scores from 10 down")


def _pieces(text: str, where: str) -> tuple[Piece, ...]:
    """The pieces of a text with marks in it.

    Raises:
        ConfigError: a `dedent` has no end, for example because its text was cut.
    """
    open_parts: list[list[Piece]] = [[]]
    at = 0
    for found in _MARK.finditer(text):
        _add(open_parts[-1], text[at : found.start()])
        at = found.end()
        match found[1]:
            case "dedent":
                open_parts.append([])
            case "end" if len(open_parts) > 1:
                inside = tuple(_with_seeds(open_parts.pop()))
                open_parts[-1].append(Apply(apply=Operation.DEDENT, to=inside))
            case "end":
                raise ConfigError(f"{where}: a text is cut after textwrap.dedent, which is not known")
            case None:
                open_parts[-1].append(Insert(value=Value.COUNT))
            case name if name.startswith("seed"):
                open_parts[-1].append(Insert(value=Value.SEED, at=int(name[4:])))
            case name:
                open_parts[-1].append(Insert(value=Value(name)))
    _add(open_parts[-1], text[at:])
    if len(open_parts) != 1:
        raise ConfigError(f"{where}: a text is cut after textwrap.dedent, which is not known")
    return tuple(_with_seeds(open_parts[0]))


def _add(parts: list[Piece], text: str) -> None:
    if text:
        parts.append(text)


def _with_seeds(parts: Sequence[Piece]) -> list[Piece]:
    """Seeds one after another, with the same text between them, as one `Each`."""
    places = [n for n, part in enumerate(parts) if isinstance(part, Insert) and part.value is Value.SEED]
    if len(places) != _SHOWN or places[2] - places[0] != 4 or parts[places[0] + 1] != parts[places[1] + 1]:
        return list(parts)
    head, between, tail = list(parts[: places[0]]), str(parts[places[0] + 1]), list(parts[places[2] + 1 :])
    seed: tuple[Piece, ...] = (Insert(value=Value.SEED),)
    quoted = between.startswith('"') and between.endswith('"') and len(between) > 1
    if quoted and head and tail and str(head[-1]).endswith('"') and str(tail[0]).startswith('"'):
        seed, between = ('"', *seed, '"'), between[1:-1]
        head[-1], tail[0] = str(head[-1])[:-1], str(tail[0])[1:]
    return [part for part in (*head, Each(each=seed, between=between), *tail) if part != ""]


def _ran(checkout: Checkout, calls: list[dict[str, Any]]) -> dict[str, ChildAnswer]:
    """What the child answers; it works on a copy of the bytes that were checked, and of nothing else."""
    with tempfile.TemporaryDirectory(prefix="hab-import-") as folder, tempfile.TemporaryFile() as out:
        for file in checkout.files.values():
            path = Path(folder, file.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.data)
        process = subprocess.Popen(
            [sys.executable, "-I", "-B", str(Path(child.__file__))],
            cwd=folder, env={}, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            process.communicate(json.dumps({"calls": calls, "cpu_s": child.CPU_S}).encode(), timeout=_WALL_S)
        except subprocess.TimeoutExpired:
            raise ConfigError(f"{checkout.root}: its code did not end within {_WALL_S:.0f} s") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        data = out.read(child.OUTPUT_BYTES)
    if data.startswith(child.PROBLEM):
        told = data.removeprefix(child.PROBLEM).decode("utf-8", "replace")
        raise ConfigError(f"{checkout.root}: its code was stopped: {one_line(told)}")
    if not data.endswith(b"}"):
        raise ConfigError(
            f"{checkout.root}: its code ended without an answer (status {process.returncode}): it takes at most "
            f"{child.CPU_S} s of computing, 1 GB of memory and 64 MB of texts"
        )
    try:
        return _ANSWER.validate_json(data)
    except ValidationError as error:
        causes = one_line(causes_of(error))
        raise ConfigError(f"{checkout.root}: its code gives something else than expected: {causes}") from None
