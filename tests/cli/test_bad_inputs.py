"""Every bad input ends with its status and a message that names file, key and remedy: no traceback, no hang."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bad_inputs.cases import BadInput, profile_cases, rubric_cases, sweep_cases
from tests.bad_inputs.files import file_cases, place_cases
from tests.bad_inputs.running import in_copies, problems
from tests.bad_inputs.runs import run_cases

ROOT = Path(__file__).parents[2]
FAMILIES = {sweep_cases: 220, rubric_cases: 60, profile_cases: 40, file_cases: 35, place_cases: 11}
LEAST_OF_RUNS, LEAST_CRASHING = 60, 95


@pytest.mark.parametrize(("family", "least"), FAMILIES.items())
def test_files(
    family: Callable[[], Iterator[BadInput]], least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cases = [case for case in family() if not case.may_crash]
    assert problems(cases, tmp_path) == [] and len(cases) >= least


def test_runs_and_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cases = [case for case in run_cases() if not case.may_crash]
    assert in_copies(cases, tmp_path) == [] and len(cases) >= LEAST_OF_RUNS


def test_what_may_crash_the_interpreter(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.bad_inputs.running", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    tried, *wrong = ended.stdout.splitlines()
    assert wrong == [] and int(tried) >= LEAST_CRASHING
