"""Executes a checkout's code to derive its prompts as pieces, and compares their rendering over hostile values."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
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
from hab_ray.rubric.literal import Apply, Each, Insert, LiteralValues, Piece, Value, rendered
from hab_ray.visible import one_line

GENERATION, VALIDATION, JUDGING = "generative_prompt", "relevance_check_prompt", "subject_evaluation_prompt"
METHODS = (GENERATION, VALIDATION, JUDGING)
_WALL_S = 120.0
_COUNT, _SEEDS_SHOWN = 739_014, 3
_MARK = re.compile(f"{re.escape(child.OPEN)}(\\w+){re.escape(child.CLOSE)}|{_COUNT}")
_NAMES = {
    "question": Value.PROMPT,
    "answer": Value.RESPONSE,
    "misinformation": Value.CONTEXT,
    "n_prompts_created_per_generation": Value.COUNT,
}
_SEED_COUNT = "n_reference_prompts_shown_in_generation"


@dataclass(frozen=True)
class Executed:
    """The code's answer for one dimension, and its pieces by method."""

    answer: ChildAnswer
    pieces: Mapping[str, tuple[Piece, ...]]


_Population = Annotated[tuple[str, ...], Field(min_length=1)]


class ChildAnswer(BaseModel):
    """The child's answer for one dimension: texts with marks, and digests of all texts, in the order of calls."""

    model_config = ConfigDict(extra="forbid", strict=True)

    parameters: dict[str, list[str]]
    marked: Annotated[list[str], Field(min_length=len(METHODS), max_length=len(METHODS))]
    digests: list[str]
    system: dict[str, str]
    deductions: dict[str, int]
    top: float
    owner: str
    seeds: _Population
    themes: _Population


_ANSWER = TypeAdapter[dict[str, ChildAnswer]](dict[str, ChildAnswer])


def mark(name: str) -> str:
    """Return the placeholder of a value."""
    return f"{child.OPEN}{name}{child.CLOSE}"


_MARKED = LiteralValues(
    mark("prompt"),
    mark("context"),
    mark("response"),
    mark("theme"),
    _COUNT,
    tuple(mark(f"seed{n}") for n in range(_SEEDS_SHOWN)),
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
    """Return sets of values that templating, dedenting or line splitting might alter, each value in every position."""
    sets = []
    for number, text in enumerate(_HOSTILE):
        other, third = _HOSTILE[number - 1], _HOSTILE[number - 2]
        seeds = (text, other, third)[: 1 + number % _SEEDS_SHOWN]
        sets.append(LiteralValues(text, other, third, f"{text}\n", 1 + number % 12, seeds))
        sets.append(LiteralValues(third, text, other, "plain\n", 5, ("plain", text, "plain")))
        sets.append(LiteralValues("plain", "plain", text, text, 10, ("plain",)))
    return sets


def executed(checkout: Checkout) -> dict[str, Executed]:
    """Derive the pieces of every dimension, and check that they render exactly as the code does.

    Raises:
        ConfigError: the code does something forbidden, or a rendered request differs from the code's.
    """
    sets = [_MARKED, *hostile_values()]
    calls = [_call(method, values, marks=values is _MARKED) for values in sets for method in METHODS]
    results = {}
    for name, answer in _run(checkout, calls).items():
        where = f"{checkout.root}: {one_line(name)}"
        _check(where, answer)
        try:
            pieces = {method: _pieces(text, where) for method, text in zip(METHODS, answer.marked, strict=True)}
            ours = [_digest(rendered(pieces[method], values)) for values in sets[1:] for method in METHODS]
        except ValueError as error:
            raise ConfigError(f"{where}: its texts hold marks of values that no argument has: {error}") from None
        pairs = zip_longest(ours, answer.digests[len(METHODS) :])
        differs = next((number for number, (one, other) in enumerate(pairs) if one != other), None)
        if differs is not None:
            raise ConfigError(
                f"{where}: {METHODS[differs % len(METHODS)]} depends on its values by more than inserting them "
                f"(hostile set {differs // len(METHODS) + 1} of {len(sets) - 1}); nothing was written"
            )
        results[name] = Executed(answer, pieces)
    return results


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _call(method: str, values: LiteralValues, *, marks: bool) -> dict[str, Any]:
    arguments = {name: getattr(values, value.value) for name, value in _NAMES.items()}
    arguments[_SEED_COUNT] = len(values.seeds)
    return {
        "method": method, "arguments": arguments, "seeds": values.seeds, "theme": values.theme, "marks_dedent": marks
    }  # fmt: skip


def _check(where: str, answer: ChildAnswer) -> None:
    unknown = sorted({name for names in answer.parameters.values() for name in names} - {*_NAMES, _SEED_COUNT})
    if unknown:
        raise ConfigError(f"{where}: the meaning of the argument {one_line(unknown[0])!r} is unknown")
    if answer.top != 10:
        raise ConfigError(f"{where}: its top score is {answer.top:g}; only a top score of 10 is supported")


def _pieces(text: str, where: str) -> tuple[Piece, ...]:
    """Split a text with marks into pieces; raise ConfigError if the marks of a `dedent` are unbalanced."""
    open_parts: list[list[Piece]] = [[]]
    at = 0
    for found in _MARK.finditer(text):
        open_parts[-1].append(text[at : found.start()])
        at = found.end()
        match found[1]:
            case "dedent":
                open_parts.append([])
            case "end" if len(open_parts) > 1:
                inside = tuple(_with_seeds(open_parts.pop()))
                open_parts[-1].append(Apply(apply="dedent", to=inside))
            case "end":
                raise _truncated(where)
            case None:
                open_parts[-1].append(Insert(value=Value.COUNT))
            case name if name.startswith("seed"):
                open_parts[-1].append(Insert(value=Value.SEED, at=int(name[4:])))
            case name:
                open_parts[-1].append(Insert(value=Value(name)))
    open_parts[-1].append(text[at:])
    if len(open_parts) != 1:
        raise _truncated(where)
    return tuple(_with_seeds(open_parts[0]))


def _truncated(where: str) -> ConfigError:
    return ConfigError(f"{where}: a text is cut after textwrap.dedent, which is not supported")


def _with_seeds(parts: list[Piece]) -> list[Piece]:
    """Leave out empty texts, and merge consecutive seeds with the same text between them into one `Each`."""
    parts = [part for part in parts if part != ""]
    places = [n for n, part in enumerate(parts) if isinstance(part, Insert) and part.value is Value.SEED]
    if len(places) != _SEEDS_SHOWN or places[2] - places[0] != 4 or parts[places[0] + 1] != parts[places[1] + 1]:
        return parts
    head, between, tail = parts[: places[0]], str(parts[places[0] + 1]), parts[places[2] + 1 :]
    seed: tuple[Piece, ...] = (Insert(value=Value.SEED),)
    quoted = between.startswith('"') and between.endswith('"') and len(between) > 1
    if quoted and head and tail and str(head[-1]).endswith('"') and str(tail[0]).startswith('"'):
        seed, between = ('"', *seed, '"'), between[1:-1]
        head[-1], tail[0] = str(head[-1])[:-1], str(tail[0])[1:]
    return [part for part in (*head, Each(each=seed, between=between), *tail) if part != ""]


def _run(checkout: Checkout, calls: list[dict[str, Any]]) -> dict[str, ChildAnswer]:
    """Run the child on a copy of exactly the bytes whose digests were checked, and return its answer."""
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
        problem = data.removeprefix(child.PROBLEM).decode("utf-8", "replace")
        raise ConfigError(f"{checkout.root}: its code was stopped: {one_line(problem)}")
    if not data.endswith(b"}"):
        raise ConfigError(
            f"{checkout.root}: its code ended without an answer (status {process.returncode}); it may use at most "
            f"{child.CPU_S} s of CPU time, 1 GB of memory and 64 MB of output"
        )
    try:
        return _ANSWER.validate_json(data)
    except ValidationError as error:
        causes = one_line(causes_of(error))
        raise ConfigError(f"{checkout.root}: its code returned an unexpected answer: {causes}") from None
