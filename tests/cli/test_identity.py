"""A run keeps its identity, and the store what it has spent, wherever its folder goes."""

import json
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from hab_ray.errors import ConfigError
from hab_ray.resolve import write_record
from hab_ray.stopping import Stop
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.format import FORMAT
from hab_ray.storage.lease.lease import last_holder
from hab_ray.storage.simulated import PARTLY
from hab_ray.sweep.session import spending
from tests.conftest import Desk, Vendor, Vendors
from tests.instant import work_of
from tests.sweep.crashing import sweep_file

SIMULATED = PARTLY.format("openai")


@pytest.fixture
def sim(vendor: Vendors) -> Vendor:
    priced = {"openai": {"models": {"gpt-4.1-mini": {"price": {"input": 0.4, "output": 1.6}}}}}
    return vendor(accounts=priced, batch={"turnaround": {"kind": "fixed", "value_s": 0.1}})


def budgeted(desk: Desk, sim: Vendor) -> Path:
    return sweep_file(desk.folder, "openai", sim.url, "identity", run="run", store="store", budget_usd=1.0)


@pytest.fixture
def sweep(desk: Desk, sim: Vendor) -> Path:
    """A sweep whose run is complete."""
    path = budgeted(desk, sim)
    desk.says("run", path, "--yes")
    return path


def record(run: Path) -> dict[str, Any]:
    return dict(yaml.safe_load((run / "sweep.yaml").read_text()))


def money(run: Path) -> dict[str, int]:
    return dict(json.loads((run / "log/progress.json").read_text())["money"])


def test_a_moved_or_linked_run_has_spent_what_it_has_spent(desk: Desk, sim: Vendor, sweep: Path) -> None:
    """The budget counts by the run's id, not by where its folder is."""
    spent = money(desk.folder / "run")["spent"]
    assert spent == sim.meter()["batch"]["nanousd"] > 0
    (desk.folder / "run").rename(desk.folder / "moved")
    desk.says("run", sweep, "--run", "moved", "--yes")
    assert money(desk.folder / "moved")["spent"] == spent
    (desk.folder / "link").symlink_to("moved")
    desk.says("run", sweep, "--run", "link", "--yes")
    assert money(desk.folder / "moved")["spent"] == spent
    assert sim.meter()["batch"]["nanousd"] == spent


def test_a_copied_run_is_refused_until_it_has_an_id_of_its_own(desk: Desk, sim: Vendor) -> None:
    """Two folders with one id would share a budget without anybody noticing."""
    sweep = budgeted(desk, sim)
    assert "not a copy" in desk.says("run", sweep, "--new-id", "--yes", status=2)
    desk.says("run", sweep, "--yes")
    first = record(desk.folder / "run")["id"]
    shutil.copytree(desk.folder / "run", desk.folder / "copy")
    refused = desk.says("run", sweep, "--run", "copy", "--yes", status=2)
    assert "--new-id" in refused and "copy of" in refused
    desk.says("run", sweep, "--run", "copy", "--new-id", "--yes")
    assert record(desk.folder / "copy")["id"] != first == record(desk.folder / "run")["id"]
    assert money(desk.folder / "copy")["spent"] == 0
    assert json.loads((desk.folder / "copy/log/progress.json").read_text())["earlier_nanousd"] == 0
    desk.says("run", sweep, "--run", "copy", "--yes")
    desk.says("run", sweep, "--yes")


def test_what_an_unclean_end_has_stranded_is_shown_and_can_be_released(desk: Desk, sweep: Path) -> None:
    """What was granted and not accounted for counts as spent until somebody who has seen the bill releases it."""
    spent = money(desk.folder / "run")["spent"]
    assert "nothing is stranded" in desk.hab("budget", "release", "run").stdout
    store = LocalFolder(desk.folder / "store")
    store.put("budget/000001.json", json.dumps({"outlay": 250_000_000, "committed": 0, "cost": 0}).encode())
    again = desk.says("run", sweep, "--yes")
    assert "hab budget release" in again and "$0.2500" in again
    assert money(desk.folder / "run") == {"spent": spent + 250_000_000, "reserved": 0, "budget": 10**9} | {
        "stranded": 250_000_000,
        "waits_for": 0,
        "assumption": "",
    }
    assert "$0.2500 of it stranded" in desk.hab("status", "run").stdout
    shown = json.loads(desk.hab("budget", "show", "run", "--json").stdout)
    assert shown == {"budget": 10**9, "paid": spent, "unanswered": 0, "stranded": 250_000_000, "in_flight": 0} | {
        "hard": 0,
        "by_bound": 0,
        "left": 10**9 - spent - 250_000_000,
    }
    assert "$0.2500 no longer counts as spent" in desk.says("budget", "release", "run")
    assert "nothing is stranded" in desk.hab("budget", "release", "run").stdout
    desk.says("run", sweep, "--yes")
    assert money(desk.folder / "run")["spent"] == spent
    for event in (desk.folder / "store/ledger/openai/000001").glob("*.json"):
        if "intent" not in event.name:  # without an answer it may be a batch that is billed
            event.unlink()
    store.put("budget/000001.json", json.dumps({"outlay": 250_000_000, "committed": 0, "cost": 0}).encode())
    refused = desk.says("budget", "release", "run", status=2)
    assert "openai/000001" in refused and "hab run" in refused


def test_a_store_of_a_newer_version_is_refused_and_one_without_format_adopted(desk: Desk, sweep: Path) -> None:
    """What this version cannot read it must not touch. `hab status` shows what the run itself has reported last."""
    told = desk.folder / "store/format.json"
    assert json.loads(told.read_text()) == {"format": FORMAT}
    told.write_text(json.dumps({"format": FORMAT + 1}))
    epoch = last_holder(LocalFolder(desk.folder / "store"))
    for command in (("run", sweep, "--yes"), ("plan", sweep), ("report", "run")):
        refused = desk.says(*command, status=2)
        assert f"format {FORMAT + 1}" in refused and "newer hab_ray" in refused
    assert last_holder(LocalFolder(desk.folder / "store")) == epoch
    os.unlink(told)
    assert desk.hab("run", sweep, "--yes").returncode == 0 and json.loads(told.read_text()) == {"format": FORMAT}


def test_releasing_and_reporting_accept_no_change_of_what_the_run_was_made_with(desk: Desk, sweep: Path) -> None:
    """Only `hab run` takes over a sweep's settings, after it has checked that they fit. The page says who answered."""
    before, page = record(desk.folder / "run"), desk.folder / "run/report/index.html"
    assert SIMULATED in page.read_text()
    tests = desk.folder / "tests.jsonl"
    tests.write_text(tests.read_text().replace("task 1", "task 9"))
    desk.says("budget", "release", "run")
    desk.says("report", "run")
    assert record(desk.folder / "run") == before
    assert "tests: its text has changed" in desk.says("run", sweep, "--yes", status=2)
    tests.unlink()
    for command in (("budget", "release", "run"), ("report", "run")):
        desk.says(*command)
    assert before["hashes"]["tests"] in page.read_text() and SIMULATED in page.read_text()


def test_another_store_is_refused_as_it_knows_nothing_of_the_spending(desk: Desk, sim: Vendor, sweep: Path) -> None:
    """Also the default store of another directory, and a copy beside the store; one that was moved goes on."""
    kept, spent = (desk.folder / "run/sweep.yaml").read_bytes(), money(desk.folder / "run")["spent"]
    other = replace(desk, folder=desk.folder / "other")
    other.folder.mkdir()
    for asked in (("budget", "release", "../run"), ("batches", "list", "../run")):  # an empty store has nothing open
        assert "the run's store is not at store" in other.says(*asked, status=2)
    assert not list(other.folder.iterdir())
    shutil.copy(desk.folder / "tests.jsonl", other.folder)
    shutil.copytree(desk.folder / "store", desk.folder / "copy")
    for where, command, why in (
        (desk, ("run", sweep, "--yes", "--store", "s2"), "knows nothing"),
        (other, ("run", sweep, "--yes", "--run", desk.folder / "run"), "knows nothing"),
        (desk, ("run", sweep, "--yes", "--store", "copy"), "is a copy"),
        (desk, ("plan", sweep, "--store", "s2"), "knows nothing"),
    ):
        refused = where.says(*command, status=2)
        assert why in refused
        assert f"store {desk.folder / 'store'}" in refused and "--store" in refused
        assert (desk.folder / "run/sweep.yaml").read_bytes() == kept
    shutil.copytree(desk.folder / "store", other.folder / "store")
    assert "is a copy" in other.says("budget", "release", "../run", status=2)
    assert not (desk.folder / "s2").exists() and sim.meter()["batch"]["nanousd"] == spent
    (desk.folder / "store").rename(desk.folder / "moved")
    for again in (("run", sweep, "--yes"), ("plan", sweep)):  # an empty store would pay for each open call again
        refused = desk.says(*again, status=2)
        assert f"is not at {desk.folder / 'store'}. Put it back" in refused and "another `run:`" in refused
    assert not (desk.folder / "store").exists()
    shutil.rmtree(desk.folder / "copy")
    desk.says("run", sweep, "--store", "moved", "--yes")
    assert money(desk.folder / "run")["spent"] == spent == sim.meter()["batch"]["nanousd"]
    desk.says("run", sweep, "--store", "moved", "--yes")


def test_of_two_stores_that_start_one_run_at_once_the_second_is_refused(tmp_path: Path) -> None:
    """Each holds the lease of its own store: only the run's own record can tell them apart."""
    now = datetime.now(UTC)
    first, second = (work_of(tmp_path, store=str(tmp_path / name)) for name in ("s1", "s2"))
    with spending(first, Stop()), spending(second, Stop()) as session:
        write_record(first, now)
        kept = (tmp_path / "run/sweep.yaml").read_bytes()
        with pytest.raises(ConfigError, match=r"are in the store \S+/s1, and \S+/s2"):
            session.adopt_id()
    assert (tmp_path / "run/sweep.yaml").read_bytes() == kept


def test_what_says_what_was_spent_and_is_damaged_is_named(desk: Desk, sim: Vendor, sweep: Path) -> None:
    """A file that cannot be read is not taken for one that says 0."""
    run, release = ("run", sweep, "--yes"), ("budget", "release", "run")
    (entry,) = (desk.folder / "store/runs").rglob("*.json")
    entry.write_text("")
    ended = desk.says(*run, status=7)
    assert entry.name in ended and "bug" not in ended
    entry.unlink()
    for name, text, command in (("budget", "", run), ("budget", '{"outlay": "x"}', release), ("lost", "[]", run)):
        damaged = desk.folder / f"store/{name}/000001.json"
        damaged.parent.mkdir(exist_ok=True)
        damaged.write_text(text)
        ended = desk.says(*command, status=7)
        assert f"{name}/000001.json" in ended and "bug" not in ended
        damaged.unlink()
    desk.says(*run)
    assert money(desk.folder / "run")["spent"] == sim.meter()["batch"]["nanousd"]
