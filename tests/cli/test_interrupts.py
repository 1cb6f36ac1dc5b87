"""Ctrl-C while a command is imported, works or has ended: exit 130 or its own status, and never a traceback."""

import subprocess
import sys

import pytest

from hab_ray.errors import Exit
from tests.bad_inputs.runs import good_run
from tests.conftest import Desk

# Sends itself SIGINT as a module is imported for the first time, or as Python clears up.
PROGRAM = """
import atexit, os, signal, sys
module, times, *arguments = sys.argv[1:]

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            interrupt()

def interrupt():
    for _ in range(int(times)):
        os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from hab_ray.cli.start import main
if module == "atexit":
    atexit.register(interrupt)
sys.argv[1:] = arguments
main()
"""
REPORT = ("report", "run")
EXPORT = ("export", "run", "--format", "csv", "--out", "out")


@pytest.mark.parametrize(
    ("module", "times", "arguments"),
    [
        ("hab_ray.cli.interrupts", 1, REPORT),
        ("typer", 1, REPORT),
        ("hab_ray.cli.main", 2, REPORT),
        ("hab_ray.report.build", 2, REPORT),
        ("pyarrow.csv", 2, EXPORT),
        ("atexit", 1, ("status", "run")),
        ("atexit", 2, ("status", "run")),
    ],
)
def test_a_signal_ends_a_command_without_a_traceback(
    module: str, times: int, arguments: tuple[str, ...], desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk.folder)
    good_run(desk.folder)
    command = [sys.executable, "-c", PROGRAM, module, str(times), *arguments]
    ended = subprocess.run(command, cwd=desk.folder, capture_output=True, text=True, timeout=60)
    assert ended.stderr == ""
    assert ended.returncode == (Exit.COMPLETE if module == "atexit" else Exit.INTERRUPTED)
    assert list(desk.folder.glob(".*")) == [] or times > 1
