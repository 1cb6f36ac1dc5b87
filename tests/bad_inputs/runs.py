"""Damaged folders of runs and stores, read by `hab status` and `hab report`."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from hab_ray.config.sweep import Sweep
from hab_ray.errors import Exit
from hab_ray.progress import BudgetStatus, LastEnd, Progress, StageProgress
from hab_ray.resolve import resolve, write_record
from hab_ray.storage.lease.lease import Holder
from tests.bad_inputs.cases import (
    BAD_TEXTS,
    GOOD_SWEEP,
    NO_FILES,
    RUBRIC,
    BadInput,
    no_utf8,
    placing,
    with_value,
    writing,
)
from tests.instant import NOW, Run

RECORD, PROGRESS, LEASE = "run/sweep.yaml", "run/log/progress.json", "store/lease/000001.json"
_SOME = ("30,000 nested lists", "an integer of 5,000 digits", "Latin-1", "UTF-16", "NUL")
STATUS, REPORT = ("status", "run"), ("report", "run")
VIEWS = (f"run/tests/{RUBRIC}.parquet", f"run/responses/lab-a-*/{RUBRIC}.parquet", f"run/verdicts/*/*/{RUBRIC}.parquet")


def good_run(folder: Path) -> None:
    """A complete run and its store, with paths relative to the folder, which is the current directory."""
    sweep = Sweep.model_validate({**GOOD_SWEEP, "run": "run", "tests": "seeds", "subjects": ["lab/a"]})
    run = Run(resolve(sweep, NOW))
    write_record(run.work, NOW)
    run.all()
    writing(PROGRESS, good_progress().to_json())(folder)
    writing("store/format.json", '{"format": 1}')(folder)
    holder = Holder(1, 1, "somewhere", "../run", "2026-11-21T12:00:00+00:00", released=True)
    writing(LEASE, holder.record())(folder)


def good_progress() -> Progress:
    line = StageProgress("respond", "lab/a", 12, 12, 0, 0)
    money = BudgetStatus(1_000, 0, 2_000)
    return Progress(
        "2026-11-21T12:00:00+00:00", 1.0, (line,), 12, 0, 1_000, (), money, store="store", end=LastEnd(0, "x")
    )


def _edited(name: str, changes: dict[str, Any]) -> Callable[[Path], object]:
    def edit(folder: Path) -> None:
        record = json.loads((folder / name).read_bytes())
        (folder / name).write_text(json.dumps(record | changes))

    return edit


def _view(pattern: str, change: Callable[[Path], object]) -> Callable[[Path], object]:
    """Damages the file of the run that fits the pattern."""

    def damage(folder: Path) -> None:
        (path,) = folder.glob(pattern)
        change(path)

    return damage


def _table(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], object]:
    return lambda path: pq.write_table(change(pq.read_table(path)), path)


def _column(name: str, values: Callable[[int], pa.Array]) -> Callable[[Path], object]:
    return _table(lambda table: table.set_column(table.column_names.index(name), name, values(table.num_rows)))


def _replaced(make: Callable[[Path], object]) -> Callable[[Path], object]:
    def replace_it(path: Path) -> None:
        path.unlink()
        make(path)

    return replace_it


def _record(key: str, value: str) -> Callable[[Path], object]:
    def edit(folder: Path) -> None:
        good = yaml.load((folder / RECORD).read_text("utf-8"), yaml.CSafeLoader)
        (folder / RECORD).write_text(with_value(good, key, value), "utf-8")

    return edit


def record_cases() -> Iterator[BadInput]:
    """The record of a run, which people edit by hand."""
    for what, text in BAD_TEXTS.items():
        yield BadInput(f"status: {RECORD}: {what}", _unreported(writing(RECORD, text)), STATUS, (RECORD,))
    for what, make in NO_FILES.items():
        says = "sweep.yaml" if what != "a terabyte of zeros" else RECORD
        yield BadInput(f"report: {RECORD}: {what}", placing(RECORD, make), REPORT, (says,))
    for key, value in (
        *(("id", id) for id in ("x", "../../elsewhere", ".", "''")),
        ("started", "2026-13-45"),
        ("started", "soon"),
        ("sweep.samples", "99999999999"),
        ("sweep.subjects", "[]"),
        ("hashes", "7"),
        ("as_of", "[a]"),
        ("prompts_version", "yes please"),
        ("unknown", "1"),
    ):
        yield BadInput(f"report: {RECORD}: {key}: {value}", _record(key, value), REPORT, (RECORD,))
    yield BadInput("report: prompts of the future", _record("prompts_version", "99"), REPORT, ("prompts version 99",))
    for command in (STATUS, REPORT):
        yield BadInput(f"{command[0]}: no run", lambda _: None, (command[0], "nowhere"), ("nowhere", "no run here"))


def _unreported(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """Without a last report, so that a status is counted from the record and the views."""

    def made(folder: Path) -> None:
        (folder / PROGRESS).unlink()
        make(folder)

    return made


def progress_cases() -> Iterator[BadInput]:
    """The last report of a run and the record of its store's holder."""
    told = ("log/progress.json cannot be read",)
    for what in _SOME:
        text = BAD_TEXTS[what]
        yield BadInput(f"status: {PROGRESS}: {what}", writing(PROGRESS, text), STATUS, told, Exit.COMPLETE)
    for what in ("a pipe", "a device that never ends"):
        yield BadInput(f"status: {PROGRESS}: {what}", placing(PROGRESS, NO_FILES[what]), STATUS, (PROGRESS,))
    huge = 10**400
    for key, value in (
        ("cost_nanousd", huge),
        ("cost_nanousd", "NaN"),
        ("calls", huge),
        ("elapsed_s", "Infinity"),
        ("stages", [{}]),
        ("stages", 7),
        ("money", {"spent": huge, "reserved": 0, "budget": 0}),
        ("store", "a\0b"),
        ("store", "s3://"),
        ("store", 7),
        ("notes", "abc"),
        ("batches", [{"name": 1}]),
        ("end", {"status": huge, "meaning": "x"}),
    ):
        change = _edited(PROGRESS, {key: value})
        yield BadInput(f"status: {key} {str(value)[:30]}", change, STATUS, told, Exit.COMPLETE)
    for when in ("soon", "9999-99-99", "", "0001-01-01T00:00:00+23:59"):
        change = _edited(PROGRESS, {"at": when, "end": None})
        yield BadInput(f"status: at {when}", change, STATUS, ("12",), Exit.COMPLETE)
    line = {**asdict(good_progress().stages[0]), "stage": "\x1b[31mred"}
    stage = _edited(PROGRESS, {"stages": [line]})
    yield BadInput("status: a stage nobody knows", stage, STATUS, ("U+001B",), Exit.COMPLETE)
    for what in _SOME:
        text = BAD_TEXTS[what]
        yield BadInput(f"status: {LEASE}: {what}", writing(LEASE, text), STATUS, ("lease/000001.json",), Exit.ENGINE)
    for key, value in (("epoch", 7), ("pid", huge), ("run", 7), ("released", "maybe")):
        change = _edited(LEASE, {key: value})
        yield BadInput(f"status: lease: {key}", change, STATUS, ("lease/000001.json",), Exit.ENGINE)


def view_cases() -> Iterator[BadInput]:
    """The views of a run, read by its report."""
    damages: dict[str, Callable[[Path], object]] = {
        "empty": lambda path: path.write_bytes(b""),
        "noise": lambda path: path.write_bytes(os.urandom(5_000)),
        "the end cut off": lambda path: path.write_bytes(path.read_bytes()[:-30]),
        "YAML": lambda path: path.write_text("a: b"),
        "no columns": _table(lambda table: table.select([])),
        "other columns": _table(lambda table: table.rename_columns([f"{name}x" for name in table.column_names])),
        "numbers for texts": _column("dimension", lambda rows: pa.array(range(rows))),
        "lists for texts": _column("dimension", lambda rows: pa.array([["x"]] * rows)),
        "no UTF-8": _column("dimension", no_utf8),
        "a folder": _replaced(Path.mkdir),
        "a pipe": _replaced(os.mkfifo),
        "a device that never ends": _replaced(lambda path: path.symlink_to("/dev/zero")),
    }
    tests, responses, verdicts = VIEWS
    for what, pattern in (
        *(("empty", each) for each in VIEWS),
        ("noise", tests),
        ("the end cut off", responses),
        ("YAML", verdicts),
        ("no columns", tests),
        ("other columns", responses),
        ("numbers for texts", verdicts),
        ("lists for texts", tests),
        ("no UTF-8", responses),
        ("a folder", verdicts),
        ("a pipe", tests),
        ("a device that never ends", responses),
    ):
        is_file = what not in ("a folder", "a pipe", "a device that never ends")
        status = Exit.ENGINE if is_file else Exit.CONFIGURATION
        yield BadInput(f"report: {pattern}: {what}", _view(pattern, damages[what]), REPORT, (RUBRIC,), status)
    for pattern, column, value in (
        (responses, "state", "unknown"),
        (verdicts, "state", ""),
        (responses, "settings", "[" * 30_000),
        (responses, "settings", "7"),
    ):
        change = _column(column, partial(_repeated, value))
        yield BadInput(f"report: {column} {value[:20]}", _view(pattern, change), REPORT, (column,), Exit.ENGINE)


def _repeated(value: str, rows: int) -> pa.Array:
    return pa.array([value] * rows)


def run_cases() -> Iterator[BadInput]:
    """All of them, and damaged stores."""
    yield from record_cases()
    yield from progress_cases()
    yield from view_cases()
    for text in ("", "{", "7", "[]", '{"format": "1"}', '{"format": -1}', '{"format": true}', '{"format": 99}'):
        make = _unreported(writing("store/format.json", text))
        yield BadInput(f"status: format.json {text}", make, STATUS, ("format",))
    for what in ("30,000 nested lists", "an integer of 5,000 digits", "Latin-1"):
        make = _unreported(writing("store/format.json", BAD_TEXTS[what]))
        yield BadInput(f"status: format.json: {what}", make, STATUS, ("format.json",))
