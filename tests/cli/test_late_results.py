"""Batches that end before their results show, at every vendor: what the vendor's meter and our books say then."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.conftest import Desk, Vendor, Vendors
from tests.sweep.crashing import MODELS, TESTS, account_of, changed, sweep_file

PRICE = {"input": 1, "output": 8}
MODEL = {"price": PRICE, "serves": ["chat"], "thinking": "always"}
PROFILE: dict[str, Any] = {
    "batch": {"turnaround": {"kind": "fixed", "value_s": 0.2}},
    "accounts": {kind: {"models": {model: MODEL}} for kind, model in MODELS.items()},
}


def asking(desk: Desk, sim: Vendor, **changes: Any) -> Path:
    """A sweep with a subject at each vendor, all judged at one, by batch."""
    priced = {"price": PRICE, "batch": {"discount": 0.5}}
    accounts = {
        kind: account_of(sweep_file(desk.folder, kind, sim.url, "late")) | {"models": {model: priced}}
        for kind, model in MODELS.items()
    }
    models = list(MODELS.values())
    return changed(desk.folder / "sweep.yaml", providers=accounts, subjects=models, judges=models[:1], **changes)


def late(polls: int | None, **which: Any) -> dict[str, Any]:
    return {"kind": "late_results", "polls": polls, **which}


def scored(folder: Path) -> int:
    files = (folder / "run/verdicts").rglob("*.parquet")
    return sum(row["state"] == "ok" for file in files for row in pq.read_table(file).to_pylist())


def booked(folder: Path) -> int:
    """What the ledger says that batches have cost, in nano-dollars."""
    events = [json.loads(file.read_bytes()) for file in (folder / "store/ledger").rglob("*-harvested.json")]
    return sum(event["nanousd"] + event["lost_nanousd"] for event in events)


def test_results_that_never_show_are_booked_and_asked_again_only_on_demand(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(**PROFILE, batch_faults=[late(None)])
    done = desk.hab("run", asking(desk, sim, budget_usd=1.0), "--yes")
    assert done.stdout.count(f"{TESTS} rows are failures, booked at all") == len(MODELS), done.stdout
    meter, rows = sim.meter()["batch"], len(MODELS) * TESTS
    assert (meter["created"], meter["lines_billed"]) == (len(MODELS), rows)
    assert not [got for got in sim.requests() if got["method"] == "DELETE"]
    least = booked(desk.folder)
    assert least >= meter["nanousd"] > 0
    sweep = asking(desk, sim, budget_usd=least / 1e9 + 0.0001)
    again = desk.hab("run", sweep, "--yes", "--detach")
    assert "0 calls sent" in again.stdout, again.stdout
    refused = desk.hab("run", sweep, "--yes", "--retry-failed")
    assert refused.returncode == 4 and sim.meter()["batch"]["lines_billed"] == rows, refused.stdout


def test_failed_rows_that_were_sent_again_are_collected_without_the_option_too(desk: Desk, vendor: Vendors) -> None:
    """The batch is paid for, and the command that collects it is the one without `--retry-failed`."""
    slow = {"batch": {"turnaround": {"kind": "fixed", "value_s": 3.0}}}
    sim = vendor(**PROFILE | slow, batch_faults=[late(None, ordinal=1)])
    sweep = changed(asking(desk, sim), subjects=[MODELS["openai"]])
    assert desk.hab("run", sweep, "--yes").returncode == 5
    left = desk.says("run", sweep, "--yes", "--retry-failed", "--detach", status=3)
    assert f"1 batch with {TESTS} rows" in left
    desk.says("run", sweep, "--yes")
    meter = sim.meter()["batch"]
    assert (meter["lines_billed"], scored(desk.folder)) == (3 * TESTS, TESTS)
    assert booked(desk.folder) >= meter["nanousd"]


def test_an_open_batch_of_a_provider_that_was_renamed_is_not_forgotten(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(**PROFILE | {"batch": {"turnaround": {"kind": "fixed", "value_s": 300.0}}})
    model = MODELS["openai"]
    sweep = sweep_file(desk.folder, "openai", sim.url, "late")
    desk.says("run", sweep, "--yes", "--detach", status=3)
    renamed = changed(sweep, providers={"Lab": account_of(sweep)}, subjects=[f"Lab/{model}"], judges=[f"Lab/{model}"])
    said = desk.hab("run", renamed, "--yes", "--detach").stdout
    assert f"batch openai/000001 ({TESTS} rows of {model}, at most $0." in said, said
    assert "this sweep no longer uses the provider openai: what the vendor answers of it is charged" in said
    assert said.count("no longer uses the provider") == 1, said
    again = desk.hab("run", renamed, "--yes", "--detach").stdout
    assert again.count("no longer uses the provider") == 1, again
    listed = desk.says("batches", "list", desk.folder / "run")
    assert "openai/000001" in listed and f"2 open: {2 * TESTS} rows" in listed
