"""Bad inputs to `hab`: settings as data in the YAML files beside this, and what has to be generated.

A case is made in an empty folder, in which a good input of its kind already lies, and names the command that must
refuse it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

DATA = Path(__file__).parent
RUBRIC = "encourage_learning"
HOLE = "what is tried here"
GOOD_SWEEP: dict[str, Any] = {
    "name": "good",
    "store": "store",
    "dimensions": [RUBRIC],
    "generate": {"model": "lab/writer", "candidates": 4},
    "validate": {"model": "lab/checker", "keep": 4},
    "select": {"embedding": "lab/vectors", "tests": 2},
    "providers": {
        "lab": {
            "kind": "openai",
            "url": "http://127.0.0.1:9/v1",
            "price": {"input": 1, "output": 4},
            "batch": {"discount": 0.5},
            "models": {"vectors": {"purpose": "embedding"}, "a": {}},
        }
    },
    "subjects": ["lab/a", {"model": "lab/b", "params": {}}],
    "judges": ["lab/j"],
}


@dataclass(frozen=True)
class BadInput:
    """`make` puts the input into a folder; `hab arguments`, given there, must say each of `says` with `status`."""

    name: str
    make: Callable[[Path], object]
    arguments: tuple[str, ...]
    says: tuple[str, ...]
    status: int = 2

    @property
    def may_crash(self) -> bool:
        """Whether it is of a kind that has ended interpreters or used up memory: these go into a process apart."""
        return any(word in self.name for word in ("30,000", "bomb", "Parquet: ", "terabyte", "million"))


def data(name: str) -> Any:
    """What a file of cases holds."""
    return yaml.load((DATA / name).read_text("utf-8"), yaml.CSafeLoader)


def with_value(good: dict[str, Any], key: str, value: str) -> str:
    """The YAML of a good file with one key's value replaced by text as it stands."""
    changed = deepcopy(good)
    *sections, last = key.split(".")
    at: Any = changed
    for section in sections:
        at = at[int(section)] if isinstance(at, list) else at.setdefault(section, {})
    if isinstance(at, list):
        at[int(last)] = HOLE
    else:
        at[last] = HOLE
    text: str = yaml.dump(changed, Dumper=yaml.CSafeDumper, allow_unicode=True, width=10_000)
    return text.replace(HOLE, value)


def writing_value(name: str, good: dict[str, Any], key: str, value: str) -> Callable[[Path], object]:
    """A maker of a good file with one bad value."""
    return lambda folder: writing(name, with_value(good, key, value))(folder)


def writing(name: str, content: str | bytes) -> Callable[[Path], object]:
    """A maker of one file."""
    content = content.encode() if isinstance(content, str) else content

    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_bytes(content)

    return write


def both(first: Callable[[Path], object], second: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda folder: (first(folder), second(folder))


def sweep_with(**changes: Any) -> Callable[[Path], object]:
    """A maker of a good sweep with top-level keys changed, or left out with None."""
    sweep = {key: value for key, value in {**GOOD_SWEEP, **changes}.items() if value is not None}
    return writing("sweep.yaml", yaml.safe_dump(sweep))


def no_utf8(rows: int = 1) -> pa.Array:
    """Texts that are none."""
    return pa.array([b"\xff\xfe\xfd\xfc"] * rows, pa.binary()).view(pa.string())


def placing(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    """A maker of something else than a file under a name."""

    def place(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        make(folder / name)

    return place


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


NO_FILES: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a device that never ends": lambda path: path.symlink_to("/dev/zero"),
    "a loop of links": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a terabyte of zeros": _sparse,
}
NESTED = 30_000
BAD_TEXTS: dict[str, str | bytes] = {
    "30,000 nested lists": "[" * NESTED + "]" * NESTED,
    "30,000 nested mappings": "{a: " * NESTED + "}" * NESTED,
    "30,000 nested block lists": "- " * NESTED,
    "a bomb of aliases": "a: &a [x, x, x, x, x, x, x, x]\n"
    + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 8)}]\n" for a, b in zip("abcdefghij", "bcdefghijk", strict=True)),
    "an integer of 5,000 digits": "name: " + "7" * 5_000,
    "a sexagesimal number of 200,000 digits": "name: 1" + ":11" * 100_000,
    "a float of 100,000 digits": "name: 1." + "7" * 100_000,
    "a million values": "[" + "1," * 1_000_000 + "1]",
    "five megabytes": "# " + "x" * 5_000_000,
    "Latin-1": "name: J\xfcrgen".encode("latin-1"),
    "UTF-16": "name: x".encode("utf-16"),
    "NUL": "name: \0",
    "a broken UTF-8 sequence": b"name: \xf0\x9f\x98",
    "a lone surrogate in UTF-8": b"name: \xed\xa0\x80",
    "control characters": "name: \x1b[31mred",
    "a million anchors": "".join(f"- &a{n} x\n" for n in range(200_000)),
    "Parquet": b"PAR1" + bytes(64) + b"PAR1",
    "gzip": b"\x1f\x8b\x08" + bytes(64),
}


def sweep_cases() -> Iterator[BadInput]:
    """Sweep files, read by `hab plan`."""
    plan = ("plan", "sweep.yaml")
    for group, given in data("values.yaml").items():
        for key in given["keys"]:
            for value in map(str, given["values"]):
                write = writing_value("sweep.yaml", GOOD_SWEEP, key, value)
                yield BadInput(f"{group}: {key}: {value}", write, plan, ("sweep.yaml: ", key.partition(".")[0]))
    for case in data("sweeps.yaml"):
        yield BadInput(f"sweep {case['text'][:40]!r}", writing("sweep.yaml", case["text"]), plan, (case["says"],))
    for name, text in BAD_TEXTS.items():
        yield BadInput(f"sweep: {name}", writing("sweep.yaml", text), plan, ("sweep.yaml: ",))
    for name, make in NO_FILES.items():
        yield BadInput(f"sweep: {name}", placing("sweep.yaml", make), plan, ("sweep.yaml: ",))
    for command in ("run", "rehearse"):
        yield BadInput(f"{command}: a pipe", placing("sweep.yaml", os.mkfifo), (command, "sweep.yaml"), ("a pipe",))
        wrong = writing_value("sweep.yaml", GOOD_SWEEP, "samples", "0")
        yield BadInput(f"{command}: samples", wrong, (command, "sweep.yaml"), ("samples",))


@cache
def good_rubric() -> dict[str, Any]:
    return dict(yaml.load((DATA.parent.parent / f"rubrics/{RUBRIC}.yaml").read_text("utf-8"), yaml.CSafeLoader))


@cache
def good_prompts() -> dict[str, Any]:
    return dict(yaml.load((DATA.parent.parent / "rubrics/prompts.yaml").read_text("utf-8"), yaml.CSafeLoader))


def rubric_cases() -> Iterator[BadInput]:
    """Folders of rubrics, read by `hab rubric check`."""
    check, rubric, prompts = ("rubric", "check", "own"), f"own/{RUBRIC}.yaml", "own/prompts.yaml"
    for case in data("rubrics.yaml"):
        for value in map(str, case["values"]):
            write = writing_value(rubric, good_rubric(), case["key"], value)
            where = "line " if value == "2026-13-01" else case["key"]
            yield BadInput(f"rubric: {case['key']}: {value}", write, check, (rubric, where))
    for case in data("templates.yaml"):
        changed = {**good_prompts(), "generate": {**good_prompts()["generate"], "user": case["text"]}}
        yield BadInput(
            f"template: {case['text'][:60]}", writing(prompts, yaml.safe_dump(changed)), check, (prompts, case["says"])
        )
    for key, value in (("version", "0"), ("version", "yes"), ("judge", "7"), ("judge.system", "[a]"), ("x", "1")):
        write = writing_value(prompts, good_prompts(), key, value)
        yield BadInput(f"prompts: {key}: {value}", write, check, (prompts, key))
    for name in (rubric, prompts, "own/themes.yaml"):
        for what in ("30,000 nested lists", "a bomb of aliases", "an integer of 5,000 digits", "Latin-1"):
            yield BadInput(f"{name}: {what}", writing(name, BAD_TEXTS[what]), check, (name,))
        for what in ("a folder", "a pipe", "a link to nothing"):
            yield BadInput(f"{name}: {what}", placing(name, NO_FILES[what]), check, (name,))
    for what, make in NO_FILES.items():
        if what != "a folder":
            yield BadInput(f"folder of rubrics: {what}", placing("own", make), check, ("own",))


def profile_cases() -> Iterator[BadInput]:
    """Profiles of the simulator and files of faults."""
    commands = {
        "profile": ("simulate", "--profile", "given.yaml"),
        "faults": ("rehearse", "sweep.yaml", "--faults", "given.yaml"),
    }
    for option, arguments in commands.items():
        named = f"--{option} given.yaml: "
        for case in data("profiles.yaml")[option]:
            write = writing("given.yaml", case["text"])
            yield BadInput(f"{option}: {case['text']}", write, arguments, (named, case["says"]))
        for what in ("30,000 nested lists", "a bomb of aliases", "an integer of 5,000 digits", "Latin-1", "NUL"):
            yield BadInput(f"{option}: {what}", writing("given.yaml", BAD_TEXTS[what]), arguments, (named,))
        for what, make in NO_FILES.items():
            yield BadInput(f"{option}: {what}", placing("given.yaml", make), arguments, (named,))
