"""Runs `hab` on bad inputs in this process, each within its time; as a program, on those that may crash it."""

import io
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

from typer.main import get_command

from hab_ray.cli.main import app
from tests.bad_inputs.cases import BadInput, profile_cases, rubric_cases, sweep_cases, sweep_with
from tests.bad_inputs.files import file_cases, parquet_cases
from tests.bad_inputs.large import large_cases
from tests.bad_inputs.runs import good_run, run_cases

MAX_CPU_S = 5.0
MAX_S = 60.0
MAX_KIB = 500_000
hab = cache(get_command)  # typer takes 30 ms to make it


class TooLongError(BaseException):
    """A command took more than its time."""


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed on either stream."""

    status: int
    output: str
    took_s: float


def _end(signal_number: int, frame: FrameType | None) -> None:
    raise TooLongError


@contextmanager
def alarm() -> Iterator[None]:
    """While commands are run, a signal ends the one that takes too much of the CPU or hangs."""
    before = {number: signal.signal(number, _end) for number in (signal.SIGPROF, signal.SIGALRM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _limit(cpu_s: float, wall_s: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    signal.setitimer(signal.ITIMER_REAL, wall_s)


def ran(arguments: tuple[str, ...]) -> Ended:
    """Run `hab` in this process. Raises TooLongError, and whatever would leave the command as a traceback."""
    printed, started = io.StringIO(), time.monotonic()
    _limit(MAX_CPU_S, MAX_S)
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            hab(app).main(list(arguments), prog_name="hab")
    except SystemExit as end:
        return Ended(end.code if isinstance(end.code, int) else 1, printed.getvalue(), time.monotonic() - started)
    finally:
        _limit(0, 0)
    raise AssertionError("the command did not end by a status")


def problem(case: BadInput, folder: Path) -> str | None:
    """Why a bad input was not refused as it should be; None if it was. Leaves the current directory in the folder."""
    folder.mkdir(exist_ok=True)
    sweep_with(tests=next((name for name in ("given.jsonl", "given.parquet") if name in case.says), None))(folder)
    case.make(folder)
    os.chdir(folder)
    try:
        ended = ran(case.arguments)
    except (Exception, TooLongError) as error:
        return f"{case.name}: {error!r}"
    missing = [text for text in case.says if text not in ended.output]
    is_bug = "is a bug" in ended.output or "Traceback" in ended.output
    if ended.status == case.status and not missing and not is_bug:
        return None
    return f"{case.name}: status {ended.status} after {ended.took_s:.1f} s, lacks {missing}: {ended.output[:400]}"


def problems(cases: Iterable[BadInput], folder: Path) -> list[str]:
    """What is wrong with how these are refused, each tried in a folder of its own."""
    folder.mkdir(exist_ok=True)
    with alarm():
        found = [problem(case, folder / str(number)) for number, case in enumerate(cases)]
    return [told for told in found if told]


def in_copies(cases: list[BadInput], folder: Path) -> list[str]:
    """The same for damaged runs, each a copy of one good run."""
    good = folder / "good"
    good.mkdir(parents=True)
    os.chdir(good)
    good_run(good)
    with alarm():
        assert [ran((command, "run")).status for command in ("status", "report")] == [0, 0]
    for number in range(len(cases)):
        shutil.copytree(good, folder / str(number))
    return problems(cases, folder)


def main() -> None:
    """Try all that may crash in the folder given; print how many there were, then what is wrong."""
    folder = Path(sys.argv[1])
    large = list(large_cases())
    before = _peak_kib()
    told = problems(large, folder / "large")
    if (used := _peak_kib() - before) > MAX_KIB:
        told.append(f"{used:,} KiB were needed for large files")
    cases = [case for some in (sweep_cases, rubric_cases, profile_cases, file_cases, parquet_cases) for case in some()]
    crashing = [case for case in cases if case.may_crash]
    of_runs = [case for case in run_cases() if case.may_crash]
    told += [*problems(crashing, folder), *in_copies(of_runs, folder / "runs")]
    print("\n".join([str(len(large) + len(crashing) + len(of_runs)), *told]))


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
