"""What `hab status` shows of a run, and what that takes."""

import fcntl
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hab_ray.cli.commands.running.status import Status, print_status, read_status
from hab_ray.cli.ending import console
from hab_ray.cli.main import app
from hab_ray.config.sections import LeaseTimes
from hab_ray.errors import Exit
from hab_ray.exchange.export import CARD
from hab_ray.location import Location
from hab_ray.progress import PROGRESS, LastEnd, Progress, StageProgress
from hab_ray.resolve import write_record
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.lease.lease import Holder, LocalLease, StoreLock
from hab_ray.storage.lease.renewed import first_renewal
from hab_ray.visible import usd
from tests.conftest import Desk, Vendors, until
from tests.instant import MADE, NOW, Run, work_of


@pytest.mark.parametrize(
    ("end", "is_open"), [(None, True), (Exit.INTERRUPTED, True), (Exit.COMPLETE, False)], ids=["none", "130", "0"]
)
def test_all_rows_known_so_far_are_not_taken_for_all_rows(tmp_path: Path, end: Exit | None, is_open: bool) -> None:
    place, stages = Location.of(tmp_path), (StageProgress("judge", "a", 9, 9, 0, 0),)
    progress = Progress(
        "2026-01-01T00:00:00+00:00", 1, stages, 9, 0, 0, (), end=None if end is None else LastEnd.by(end)
    )
    with console.capture() as captured:
        print_status(Status(place, place, progress, None))
    assert ("more may follow" in captured.get()) == is_open


def test_every_stage_is_shown_in_order_and_what_has_no_file_is_left_open(tmp_path: Path) -> None:
    run = Run(work_of(tmp_path, **MADE, subjects=["house/a"], judges=["house/j"]))
    write_record(run.work, NOW)
    for shard in run.work.shards():
        if shard.stage != "judge":
            run.take(shard)
    with console.capture() as captured:
        print_status(read_status(run.work.run_path))
    shown = [line.split() for line in captured.get().splitlines()[1:7]]
    assert shown == [
        ["generate", "house/writer", "14", "14"],
        ["validate", "house/checker", "14", "14"],
        ["select", "house/vectors", "10"],
        ["choose", "8", "8"],
        ["respond", "house/a", "8", "8"],
        ["judge", "house/j", "0", "8"],
    ]


@pytest.mark.parametrize("budget", [{}, {"budget_usd": 1000}])
def test_what_a_killed_process_paid_is_shown_by_the_next(desk: Desk, vendor: Vendors, budget: dict[str, int]) -> None:
    sweep, run = small(desk, vendor().url, **budget), desk.folder / "run"
    sweep.write_text(sweep.read_text().replace("input: 0", "input: 1000"))
    desk.says("run", sweep, "--yes")
    report, paid = run / "log/progress.json", status_of(desk)["cost_nanousd"]
    report.write_text(json.dumps(json.loads(report.read_text()) | {"cost_nanousd": 1}))
    desk.says("run", sweep, "--yes")
    status = status_of(desk)
    assert (status["cost_nanousd"], status["earlier_nanousd"]) == (0, paid) and paid > 10**6
    assert f"for $0.00, and {usd(paid)} before" in desk.hab("status", run).stdout
    if budget:
        assert json.loads(desk.hab("budget", "show", run, "--json").stdout)["paid"] == paid


def test_a_run_that_has_just_been_resumed_still_shows_its_rows(desk: Desk, vendor: Vendors) -> None:
    sweep = small(desk, vendor().url)
    desk.says("run", sweep, "--yes")
    progress = desk.folder / "run/log/progress.json"
    again, totals = desk.start("run", sweep, "--yes"), set()
    while again.poll() is None:
        totals.add(sum(stage["total"] for stage in json.loads(progress.read_text())["stages"]))
    assert again.returncode == 0 and 0 not in totals


def held(folder: Path, **changes: Any) -> Status:
    """The status of a run that reported long ago, as of a holder whose process id is not one here."""
    store, run, long_ago = Location.of(folder / "store"), Location.of(folder / "run"), NOW - timedelta(days=1)
    report = Progress(long_ago.isoformat(), 1, (), 9, 0, 0, (), store=str(store))
    LocalFolder(run.path).put(PROGRESS, report.to_json())
    holder = replace(Holder.after(None, store, run, long_ago), **{"pid": 2**22 + 1, **changes})
    LocalFolder(store.path).put(holder.name, holder.record())
    return read_status(run)


def test_a_lock_tells_whether_its_holder_lives_also_from_another_container(tmp_path: Path) -> None:
    lock = StoreLock.taken(Location.of(tmp_path / "store"), fcntl.LOCK_EX)
    assert held(tmp_path).is_driven
    lock.release()
    assert (status := held(tmp_path)).died and status.driver is None


@pytest.mark.parametrize("has_store", [False, True], ids=["empty", "with a store of its own"])
def test_a_driver_is_seen_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_store: bool) -> None:
    for folder in ("here", "elsewhere"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    work = work_of(Path())
    write_record(work, NOW)
    work.run.folder.put(PROGRESS, Progress("", 1, (), 9, 0, 0, (), store=str(work.sweep.store)).to_json())
    lease = LocalLease.acquire(work.sweep.store, work.run_path, NOW)
    monkeypatch.chdir(tmp_path / "elsewhere")
    if has_store:
        LocalLease.acquire(work.sweep.store, work.run_path, NOW).release()
    run = str(tmp_path / "here/run")
    assert read_status(Location.of(run)).is_driven
    assert CliRunner().invoke(app, ["rm", run, "--yes"]).exit_code == Exit.HELD
    monkeypatch.chdir(tmp_path / "here")
    lease.release()


@pytest.mark.parametrize("changes", [{"renewal": first_renewal(LeaseTimes())}, {"host": "far"}])
def test_a_holder_without_a_lock_here_lives_while_it_reports(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert held(tmp_path, since=datetime.now(UTC).isoformat(), **changes).is_driven
    status = held(tmp_path, **changes)
    assert status.silent and status.driver is None and status.died is None
    with console.capture() as captured:
        print_status(status)
    assert "it may have died: process" in captured.get() and "running" not in captured.get()


MAX_REQUESTS, MAX_REQUESTS_AT_END = 3, 7
READS = ("list", "exists", "size", "get", "get_range")


def counted_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every read of a folder from now on, as it happens."""
    made: list[str] = []
    for name in READS:
        sound: Callable[..., Any] = getattr(LocalFolder, name)

        def counted(folder: LocalFolder, *arguments: Any, read: Callable[..., Any] = sound) -> Any:
            made.append(f"{read.__name__} {arguments}")
            return read(folder, *arguments)

        monkeypatch.setattr(LocalFolder, name, counted)
    return made


def small(desk: Desk, url: str, **changes: Any) -> Path:
    """A sweep of three tests, with its run and store in the desk's folder."""
    where = {"run": str(desk.folder / "run"), "store": str(desk.folder / "store")}
    return desk.sweep("status", url, **where, tests=desk.tests(3), dimensions=["encourage_learning"], **changes)


def status_of(desk: Desk) -> dict[str, Any]:
    told = desk.says("status", desk.folder / "run", "--json")
    return dict(json.loads(told))


def lines(status: dict[str, Any]) -> set[tuple[str, str, int, int]]:
    """Stage, model, rows done and known of each line."""
    return {(s["stage"], s["model"], s["done"], s["total"]) for s in (*status["stages"], *status["computed"])}


def test_a_status_of_files_takes_three_requests(desk: Desk, vendor: Vendors, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.says("run", small(desk, vendor().url))
    status = status_of(desk)
    assert status["end"] == {"status": 0, "meaning": Exit.COMPLETE.meaning} and status["driver"] is None
    reads, progress = counted_reads(monkeypatch), desk.folder / "run/log/progress.json"
    read_status(Location.of(desk.folder / "run"))
    assert 0 < len(reads) <= MAX_REQUESTS_AT_END, reads
    reads.clear()
    progress.write_text(json.dumps({**json.loads(progress.read_text()), "end": None}))
    read_status(Location.of(desk.folder / "run"))
    assert 0 < len(reads) <= MAX_REQUESTS, reads
    progress.unlink()
    counted = status_of(desk)
    assert lines(counted) == lines(status) and len(lines(status)) > 2 and counted["end"] is None


def test_lost_results_are_named_until_the_same_command_brings_them_back(desk: Desk, vendor: Vendors) -> None:
    sim = vendor()
    sweep = small(desk, sim.url)
    desk.says("run", sweep)
    run, asked = desk.folder / "run", sim.meter()["received"]
    assert status_of(desk)["lost"] is None and "lacks" not in desk.says("status", run) + desk.says("scores", run)
    for view in ("verdicts/*/*", "responses/*", "tests"):
        file = next(run.glob(f"{view}/encourage_learning.parquet"))
        kept = file.read_bytes()
        file.unlink()
        lacking = f"the run's folder lacks 1 file that it had at its end, such as {file.relative_to(run)}"
        assert lacking in desk.says("status", run) and lacking in status_of(desk)["lost"]
        assert lacking in desk.says("scores", run)
        assert lacking in " ".join(json.loads(desk.says("scores", run, "--json"))["notes"])
        if view != "tests":
            desk.says("export", run, "--format", "csv", "--out", desk.folder / view.partition("/")[0])
            assert lacking in (desk.folder / view.partition("/")[0] / CARD).read_text()
            desk.says("run", sweep)
            assert file.read_bytes() == kept and status_of(desk)["lost"] is None
    assert sim.meter()["received"] == asked


def test_a_status_says_how_the_last_run_ended_and_nothing_once_another_has_begun(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(latency={"kind": "fixed", "value_s": 0.2})
    sweep = small(desk, sim.url, budget_usd=0.000001)
    settings = sweep.read_text()
    sweep.write_text(settings.replace("input: 0", "input: 1"))
    desk.says("run", sweep, "--yes", status=Exit.BUDGET)
    assert status_of(desk)["end"] == {"status": 4, "meaning": Exit.BUDGET.meaning}
    assert "ended with exit status 4: budget reached" in desk.hab("status", desk.folder / "run").stdout
    sweep.write_text(settings.replace("budget_usd: 1.0e-06", "budget_usd: 9").replace("input: 0", "input: 1"))
    running = desk.start("run", sweep, "--yes")
    until(lambda: sim.meter()["models"], running)
    status = status_of(desk)
    assert status["driver"]["pid"] == running.pid and status["end"] is None
    running.kill()
    running.communicate()
    assert status_of(desk)["driver"] is None
    told = desk.hab("status", desk.folder / "run").stdout
    assert f"process {running.pid} on" in told and "has died" in told
    progress = desk.folder / "run/log/progress.json"
    progress.write_text(json.dumps({**json.loads(progress.read_text()), "at": "2026-01-01T00:00:00+00:00"}))
    assert "has not reported since 2026-01-01T00:00:00+00:00; if" in desk.hab("status", desk.folder / "run").stdout
