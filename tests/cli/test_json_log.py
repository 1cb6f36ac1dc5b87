"""`hab run --log-format json`."""

import fcntl
import json
import subprocess
import sys
from typing import Any

import pyarrow.parquet as pq
import pytest

from hab_ray.errors import Exit
from hab_ray.storage.simulated import PARTLY
from tests.conftest import Desk, Vendors, until
from tests.sweep.crashing import TESTS, sweep_file

PIPE_BYTES = 4096


def said(output: str) -> list[dict[str, Any]]:
    """Each line of an output, which must be JSON throughout."""
    lines = [json.loads(line) for line in output.splitlines()]
    assert all({"at", "level", "message"} <= set(line) for line in lines)
    return lines


def test_every_line_is_json_with_run_shard_and_batch(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 0.5}})
    sweep = sweep_file(desk.folder, "anthropic", sim.url, "logged")
    desk.environment["COLUMNS"] = "60"
    lines = said(desk.says("run", sweep, "--yes", "--log-format", "json"))
    logged = [line for line in lines if set(line) - {"at", "level", "message", "run", "scores"}]
    (run,) = {line["run"] for line in lines}
    assert (desk.folder / run / "sweep.yaml").exists()
    complete = {line["shard"] for line in logged if line["message"] == "shard complete"}
    assert len(complete) == 2 and all((desk.folder / run / shard).exists() for shard in complete)
    batches = {(line["batch"], line["message"]) for line in logged if "batch" in line}
    assert {("anthropic/000001", "batch closed"), ("anthropic/000002", "batch closed")} <= batches
    assert {line["rows"] for line in logged if "batch" in line} == {TESTS}
    assert any(line["message"].startswith("report: ") for line in lines)
    assert any(line["message"] == PARTLY.format("anthropic") for line in lines), "no sentence is broken into lines"
    assert (logged[-1]["message"], logged[-1]["status"]) == ("ended: complete", 0)
    (scores,) = [line["scores"] for line in lines if "scores" in line]
    assert scores == pq.read_table(desk.folder / run / "scores.parquet").to_pylist()


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_reader_that_has_seen_enough_ends_no_run(desk: Desk, vendor: Vendors, form: str) -> None:
    """`hab run --log-format json | head -2`: also what the log itself writes afterwards goes nowhere."""
    sim = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 0.5}})
    sweep = sweep_file(desk.folder, "openai", sim.url, "head")
    command = [sys.executable, "-m", "hab_ray.cli", "run", str(sweep), "--yes", "--log-format", form]
    errors = desk.folder / "errors.txt"
    with errors.open("w") as said_wrong:
        process = subprocess.Popen(
            command, cwd=desk.folder, env=desk.whole_environment, stdout=subprocess.PIPE, stderr=said_wrong
        )
        assert process.stdout is not None
        process.stdout.readline(), process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == Exit.COMPLETE
    assert errors.read_text() == ""
    assert sim.meter()["batch"]["lines_billed"] == 2 * TESTS


def test_a_reader_that_does_not_read_holds_up_no_run(desk: Desk, vendor: Vendors) -> None:
    """A pager, or a terminal after Ctrl-S: the run goes on, and nothing that it says is lost."""
    sim = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 0.2}})
    sweep = desk.sweep("unread", sim.url, executor="local", run="run", tests="seeds")
    process = desk.start("run", sweep, "--yes", "--log-format", "json")
    assert process.stdout is not None
    fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    progress = desk.folder / "run/log/progress.json"
    until(lambda: progress.exists() and json.loads(progress.read_text())["end"])
    assert json.loads(progress.read_text())["end"]["status"] == Exit.COMPLETE and process.poll() is None
    lines = said(process.communicate(timeout=60)[0])
    complete = {line["shard"] for line in lines if line["message"] == "shard complete"}
    views = {str(file.relative_to(desk.folder / "run")) for file in (desk.folder / "run").glob("*s/*/**/*.parquet")}
    assert len(views) == 6 * 2 * 2 and views <= complete
    assert sum(len(str(line)) for line in lines) > 4 * PIPE_BYTES


def test_an_error_is_a_line_of_json_too(desk: Desk) -> None:
    hostile = desk.folder / "a\x1b[31m.yaml"
    ended = desk.says("run", hostile, "--log-format", "json", status=Exit.CONFIGURATION)
    assert "\x1b" not in ended
    assert [line["level"] for line in said(ended)] == ["error"]
