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
from pathlib import Path
from typing import Any

from hab_ray.errors import ConfigError
from hab_ray.exchange.imports import child
from hab_ray.exchange.imports.checkout import Checkout
from hab_ray.rubric import Apply, Each, Insert, LiteralValues, Operation, rendered
from hab_ray.rubric.literal import Piece, Value
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
    """What the code of one dimension says: its pieces by method, and its attributes."""

    pieces: Mapping[str, tuple[Piece, ...]]
    uses_context: bool
    system: Mapping[str, str]
    deductions: Mapping[str, Any]
    seeds: tuple[str, ...]
    themes: tuple[str, ...]
    owner: str


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
    found = _ran(checkout, calls)
    made = {}
    for name, each in found.items():
        where = f"{checkout.root}: {one_line(name)}"
        _check(where, each)
        pieces = {method: _pieces(text, where) for method, text in zip(METHODS, each["texts"], strict=False)}
        for number, text in enumerate(each["texts"][len(METHODS) :]):
            values, method = sets[1 + number // len(METHODS)], METHODS[number % len(METHODS)]
            if rendered(pieces[method], values) != text:
                raise ConfigError(
                    f"{where}: {method} depends on its values by more than their places (hostile set "
                    f"{number // len(METHODS) + 1} of {len(sets) - 1}); nothing was written"
                )
        context = "misinformation" in each["parameters"][JUDGING]
        made[name] = Executed(
            pieces, context, each["system"], each["deductions"], tuple(each["seeds"]), tuple(each["themes"]),
            each["class"],
        )  # fmt: skip
    return made


def _call(method: str, values: LiteralValues, *, marks: bool) -> dict[str, Any]:
    arguments = {name: getattr(values, value.value) for name, value in _NAMES.items()}
    given = arguments | {_TOLD: len(values.seeds)}
    return {
        "method": method, "arguments": given, "seeds": values.seeds, "theme": values.theme, "marks_dedent": marks
    }  # fmt: skip


def _check(where: str, each: Mapping[str, Any]) -> None:
    unknown = sorted({name for names in each["parameters"].values() for name in names} - {*_NAMES, _TOLD})
    if unknown:
        raise ConfigError(f"{where}: it is not known what the argument {one_line(unknown[0])!r} stands for")
    if each["top"] != 10:
        raise ConfigError(f"{where}: its top score is {one_line(str(each['top']))}, and hab scores from 10 down")
    for kind in ("seeds", "themes"):
        if not each[kind] or not all(isinstance(text, str) for text in each[kind]):
            raise ConfigError(f"{where}: {GENERATION} draws no {kind}, or not texts")
    if not all(isinstance(text, str) for text in each["system"].values()):
        raise ConfigError(f"{where}: a system prompt is no text")


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


def _ran(checkout: Checkout, calls: list[dict[str, Any]]) -> dict[str, Any]:
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
    try:
        answer = json.loads(data)
    except ValueError:
        raise ConfigError(
            f"{checkout.root}: its code ended without an answer (status {process.returncode}): it takes at most "
            f"{child.CPU_S} s of computing, 1 GB of memory and 64 MB of texts"
        ) from None
    if "problem" in answer:
        raise ConfigError(f"{checkout.root}: its code was stopped: {one_line(str(answer['problem']))}")
    found: dict[str, Any] = answer["found"]
    return found
