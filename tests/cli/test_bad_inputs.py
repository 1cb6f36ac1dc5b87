"""Every bad input ends with its status and a message that names file, key and remedy: no traceback, no hang."""

from __future__ import annotations

import io
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

import pytest
import yaml
from typer.main import get_command

from hab_ray.cli.main import app
from tests.bad_inputs.cases import GOOD_SWEEP, BadInput, profile_cases, rubric_cases, sweep_cases
from tests.bad_inputs.files import file_cases, sweep_of
from tests.bad_inputs.runs import good_run, run_cases

MOST_S = 5
hab = cache(get_command)  # typer takes 30 ms to make it


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed on either stream."""

    status: int
    output: str
    took_s: float


class _TooLongError(BaseException):
    """A command took more than its time."""


def _end(signal_number: int, frame: FrameType | None) -> None:
    raise _TooLongError


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, _end)
    yield
    signal.signal(signal.SIGALRM, before)


def ran(arguments: tuple[str, ...]) -> Ended:
    """Run `hab` in this process. Raises _TooLongError, and whatever would leave the command as a traceback."""
    printed, started = io.StringIO(), time.monotonic()
    signal.alarm(MOST_S)
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            hab(app).main(list(arguments), prog_name="hab")
    except SystemExit as end:
        return Ended(end.code if isinstance(end.code, int) else 1, printed.getvalue(), time.monotonic() - started)
    finally:
        signal.alarm(0)
    raise AssertionError("the command did not end by a status")


def refused(case: BadInput, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """Why a bad input was not refused as it should be; None if it was."""
    folder.mkdir(exist_ok=True)
    tests = next((name for name in ("given.jsonl", "given.parquet") if name in case.says), None)
    (folder / "sweep.yaml").write_text(sweep_of(tests) if tests else yaml.safe_dump(GOOD_SWEEP), "utf-8")
    case.make(folder)
    monkeypatch.chdir(folder)
    try:
        ended = ran(case.arguments)
    except (Exception, _TooLongError) as error:
        return f"{case.name}: {error!r}"
    missing = [text for text in case.says if text not in ended.output]
    is_bug = "is a bug" in ended.output or "Traceback" in ended.output
    if ended.status == case.status and not missing and not is_bug:
        return None
    return f"{case.name}: status {ended.status} after {ended.took_s:.1f} s, lacks {missing}: {ended.output[:400]}"


def all_refused(cases: list[BadInput], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = (refused(case, tmp_path / str(n), monkeypatch) for n, case in enumerate(cases))
    wrong = [problem for problem in found if problem]
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong)


def test_sweep_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    all_refused(list(sweep_cases()), tmp_path, monkeypatch)


def test_rubrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    all_refused(list(rubric_cases()), tmp_path, monkeypatch)


def test_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    all_refused(list(profile_cases()), tmp_path, monkeypatch)


def test_runs_and_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = tmp_path / "good"
    good.mkdir()
    monkeypatch.chdir(good)
    good_run(good)
    assert [ran((command, "run")).status for command in ("status", "report")] == [0, 0]
    cases = list(run_cases())
    for number in range(len(cases)):
        shutil.copytree(good, tmp_path / str(number))
    all_refused(cases, tmp_path, monkeypatch)


def test_files_of_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    all_refused(list(file_cases()), tmp_path, monkeypatch)
