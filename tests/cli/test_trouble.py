"""Broken files, full disks and bugs: one message with the remedy, a status that says what to do, no traceback."""

import importlib
import os
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import typer

from hab_ray.cli import ending
from hab_ray.errors import Exit
from tests.conftest import Desk, Vendors
from tests.distributions import Distributions
from tests.sweep.crashing import TESTS, sweep_file


@pytest.mark.parametrize("name", ["replies", "ledger"])
def test_a_store_that_cannot_be_listed_is_not_taken_for_an_empty_one(desk: Desk, vendor: Vendors, name: str) -> None:
    sim = vendor()
    sweep = sweep_file(desk.folder, "openai", sim.url, "unreadable")
    (desk.folder / "store").mkdir()
    (desk.folder / "store" / name).write_text("in the way")
    done = desk.says("run", sweep, "--yes", status=2)
    assert f"store/{name}" in done and "Traceback" not in done
    assert sim.requests() == []


@pytest.mark.parametrize("name", ["lease/000001.json", "ledger/openai/000001/002-submitted.json"])
def test_a_damaged_file_is_named_with_its_remedy_and_the_remedy_helps(desk: Desk, vendor: Vendors, name: str) -> None:
    sim = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 0.2}})
    sweep = sweep_file(desk.folder, "openai", sim.url, "damaged")
    assert desk.hab("run", sweep, "--yes", "--detach").returncode in (0, 3)
    path = desk.folder / "store" / name
    path.write_text("{")
    done = desk.says("run", sweep, "--yes", status=7)
    assert "Traceback" not in done
    assert name in done and "delete it" in done
    for event in path.parent.glob("*.json"):
        if event.name >= path.name:
            event.unlink()
    desk.says("run", sweep, "--yes")
    assert sim.billed_once(2 * TESTS)


def broken_by_limit(desk: Desk, sweep: Path, which: int, limit: int) -> str:
    """What a run says that a limit of its process ends with status 7; one on the size of files is a full disk."""
    done = subprocess.run(
        [sys.executable, "-m", "hab_ray.cli", "run", str(sweep), "--yes"],
        cwd=desk.folder,
        env=desk.whole_environment,
        capture_output=True,
        text=True,
        timeout=100,
        preexec_fn=lambda: resource.setrlimit(which, (limit, limit)),
    )
    said = done.stdout + done.stderr
    assert done.returncode == 7 and "Traceback" not in said, said
    return said


def test_a_full_disk_as_the_report_is_written_is_told_with_the_remedy(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 0.2}})
    sweep = sweep_file(desk.folder, "openai", sim.url, "page", tests="seeds")
    said = broken_by_limit(desk, sweep, resource.RLIMIT_FSIZE, 30_000)
    remedy = f"its rows are stored, but its scores or report are not: `hab report {desk.folder / 'run'}` writes them"
    assert "report/index.html: cannot be written: File too large" in said and remedy in said, said
    status = desk.says("status", desk.folder / "run")
    assert "the last `hab run` ended with exit status 7" in status and remedy in status, status
    desk.says("report", desk.folder / "run")
    assert (desk.folder / "run/report/index.html").exists()


def test_too_few_open_files_end_the_run_with_7_and_every_paid_reply_is_kept(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(latency={"kind": "fixed", "value_s": 0.5})
    account = {"limits": {"concurrent": 300, "patience_s": 4, "timeout_s": 20}, "price": {"input": 1, "output": 2}}
    few = {"dimensions": ["encourage_learning"], "tests": desk.tests(40), "executor": "local"}
    sweep = desk.sweep("few", sim.url, account, **few)
    said = broken_by_limit(desk, sweep, resource.RLIMIT_NOFILE, 64)
    assert "Too many open files. Raise the limit" in said and "could not be written" not in said, said
    desk.says("run", sweep, "--yes")
    assert sim.meter()["billed_more_than_once"]["bodies"] == 0


def test_the_limit_of_open_files_is_raised() -> None:
    code = (
        "import resource; from hab_ray.cli.main import main\n"
        "try: main(['--version'])\n"
        "finally: print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 512)),
    )
    assert "(512, 512)" in done.stdout, done.stderr


@pytest.mark.parametrize(("command", "unbuffered"), [("--version", ""), ("--help", "1"), ("sweeps", "")])
def test_an_output_on_a_full_disk_is_one_line_and_status_7(command: str, unbuffered: str) -> None:
    hab = [sys.executable, "-m", "hab_ray.cli", command]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(hab, stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
        both = subprocess.run(hab, stdout=full, stderr=full, env=environment) if command == "--version" else done
    (said,) = done.stderr.splitlines()
    assert "standard output: cannot be written: No space left on device" in said
    assert (done.returncode, both.returncode) == (7, 7)


@pytest.mark.parametrize("command", ["--version", "--help"])
def test_an_output_that_nobody_reads_ends_in_silence(command: str) -> None:
    hab = [sys.executable, "-m", "hab_ray.cli", *command.split()]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(hab, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.stderr == ""


@pytest.mark.parametrize("verbose", [False, True])
def test_a_bug_is_one_line_and_a_traceback_only_on_request(verbose: bool, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(verbose: bool) -> Exit:
        raise ZeroDivisionError("a [/red] bug")

    with pytest.raises(typer.Exit) as ended:
        ending.ends_with_status(broken)(verbose=verbose)
    said = capsys.readouterr().err
    assert ended.value.exit_code == 7 and "ZeroDivisionError: a [/red] bug" in said and "This is a bug" in said
    assert ("Traceback" in said) == verbose


FAULTY = """
class Stage:
    pass

def divide():
    return 1 / 0
"""


@pytest.mark.parametrize(
    ("code", "place"), [("divide()", "acme_faulty.py, line 6"), ("Stage().rows", "acme-hab 0.3, not")]
)
def test_a_bug_of_a_package_that_extends_hab_is_not_called_one_of_hab(
    code: str, place: str, distributions: Distributions, capsys: pytest.CaptureFixture[str]
) -> None:
    distributions.install_modules(
        "acme-hab", "0.3", {"acme_faulty": FAULTY}, {"hab_ray.stages": {"faulty": "acme_faulty:Stage"}}
    )
    faulty = importlib.import_module("acme_faulty")
    with pytest.raises(Exception) as caught:
        eval(code, vars(faulty).copy() | {"__name__": "tests"})
    assert ending.say_error(caught.value, with_traceback=False) is Exit.ENGINE
    said = capsys.readouterr().err
    assert "the package acme-hab 0.3" in said and place in said and "bug in hab_ray" not in said


MORE = """
import hab_ray
from hab_ray.cli.ending import ends_with_status

@ends_with_status
def nothing():
    pass

def bare(run: str):
    hab_ray.open_run(run)
"""


@pytest.mark.parametrize(("arguments", "status", "cause"), [(["nothing"], 0, ""), (["bare", "gone"], 2, "gone: ")])
def test_bare_commands_are_taken(arguments: list[str], status: int, cause: str, distributions: Distributions) -> None:
    groups = {"hab_ray.commands": {"nothing": "acme_more:nothing", "bare": "acme_more:bare"}}
    distributions.install_modules("acme-hab", "0.3", {"acme_more": MORE}, groups)
    path = os.pathsep.join([str(distributions.site), os.environ.get("PYTHONPATH", "")])
    hab = [sys.executable, "-m", "hab_ray.cli", *arguments]
    done = subprocess.run(hab, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == status and cause in done.stderr and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        pa.ArrowMemoryError("malloc of size 64 failed"),
        RuntimeError("can't start new thread"),
        ImportError("libstdc++.so.6: failed to map segment from shared object"),
    ],
    ids=["allocation", "Arrow", "thread", "library"],
)
def test_too_little_memory_is_no_bug(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert ending.say_error(error, with_traceback=False) is Exit.ENGINE
    said = capsys.readouterr().err
    assert "no more memory" in said and "`ulimit -v`" in said and "bug" not in said


def test_a_library_on_a_disk_without_execution_lacks_no_memory(capsys: pytest.CaptureFixture[str]) -> None:
    error = ImportError("/tmp/x.so: failed to map segment from shared object: Operation not permitted")
    ending.say_error(error, with_traceback=False)
    assert "no more memory" not in capsys.readouterr().err
