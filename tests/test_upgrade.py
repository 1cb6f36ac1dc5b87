"""Runs and stores made before stores named their format: `hab run` goes on with them and pays for nothing again.

`git show 5825f34:benchmarks/upgrade.py` made them; `left.json` says what was true when they were left.
"""

import json
import shutil
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import zstandard

from hab_ray.errors import Exit
from tests.conftest import Desk, Vendor, Vendors

FIXTURES = Path(__file__).parent / "fixtures/format0"
TESTS = 14
CALLS, VERDICTS = 2 * 2 * TESTS, 2 * TESTS
PRICE = {"input": 1.0, "output": 4.0}
ANY_MODEL = {"*": {"price": PRICE, "batch_price": PRICE}}


def start(vendor: Vendors) -> Vendor:
    """The vendors of the fixtures."""
    quick, slow = ({"turnaround": {"kind": "fixed", "value_s": seconds}} for seconds in (0.3, 0.5))
    online, by_batch = {"models": ANY_MODEL, "batch": quick}, {"models": ANY_MODEL, "batch": slow}
    return vendor(accounts={"x/sim": online, "anthropic": by_batch})


def charged(meter: dict[str, Any]) -> int:
    return int(meter["nanousd"] + meter["batch"]["nanousd"])


def taken_over(desk: Desk, name: str, url: str) -> tuple[Desk, Path, dict[str, Any]]:
    """A copy of a fixture, its vendors at a simulator; a desk in it, its sweep file, and what was true of it."""
    folder = desk.folder / name
    shutil.copytree(FIXTURES / name, folder)
    left = json.loads((folder / "left.json").read_bytes())
    sweep = folder / "sweep.yaml"
    sweep.write_text(sweep.read_text().replace(left["url"], url))
    return replace(desk, folder=folder), sweep, left


def spent(folder: Path) -> int:
    return int(json.loads((folder / "run/log/progress.json").read_bytes())["money"]["spent"])


def verdicts(folder: Path) -> int:
    tables = [pq.read_table(path) for path in folder.glob("run/verdicts/*/*/*.parquet")]
    return sum(row["state"] == "ok" for table in tables for row in table.to_pylist())


def test_a_finished_run_sends_nothing_and_has_spent_the_same(desk: Desk, vendor: Vendors) -> None:
    sim = start(vendor)
    here, sweep, left = taken_over(desk, "finished", sim.url)
    refused = here.says("store", "gc", "store", ".", status=Exit.CONFIGURATION)
    assert "repeat its `hab run`, which gives it one" in " ".join(refused.split())
    scores = pq.read_table(here.folder / "run/scores.parquet").to_pylist()
    here.says("run", "--yes", sweep)
    assert sim.meter()["received"] == 0 and sim.meter()["batch"]["created"] == 0
    assert spent(here.folder) == left["spent_nanousd"]
    again = pq.read_table(here.folder / "run/scores.parquet").to_pylist()
    for now, then in zip(
        again, scores, strict=True
    ):  # intervals are made otherwise since; a dimension's is no narrower
        assert all(now[key] == then[key] for key in then if key not in ("mean", "low", "high"))
        assert now["mean"] == pytest.approx(then["mean"], abs=1e-12)
        is_wider = now["low"] <= then["low"] + 1e-9 and now["high"] >= then["high"] - 1e-9
        assert is_wider or now["dimension"] == "overall"


def test_an_interrupted_run_asks_only_what_was_not_answered(desk: Desk, vendor: Vendors) -> None:
    sim = start(vendor)
    here, sweep, left = taken_over(desk, "interrupted", sim.url)
    here.says("run", "--yes", sweep)
    meter = sim.meter()
    assert meter["received"] == meter["billed"] == CALLS - left["billed_online"]
    assert not {call["identity"] for call in sim.calls()} & set(left["identities"])
    assert spent(here.folder) == left["spent_nanousd"] + charged(meter)
    assert verdicts(here.folder) == VERDICTS
    here.says("run", "--yes", sweep)
    assert sim.meter()["received"] == meter["received"]
    assert spent(here.folder) == left["spent_nanousd"] + charged(meter)


def test_an_open_batch_is_collected_and_what_was_collected_is_not_asked_again(desk: Desk, vendor: Vendors) -> None:
    sim = start(vendor)
    here, sweep, left = taken_over(desk, "batches", sim.url)
    before = made_again(sim, here.folder / "store/ledger", left)
    here.says("run", "--yes", sweep)
    meter = sim.meter()
    lines = meter["batch"]["lines_billed"] - before["batch"]["lines_billed"]
    assert lines == CALLS - left["billed_by_batch"] and meter["billed"] == 0
    assert meter["billed_more_than_once"]["bodies"] == 0
    assert spent(here.folder) == left["spent_nanousd"] + charged(meter) - charged(before)
    assert verdicts(here.folder) == VERDICTS


def made_again(sim: Vendor, ledger: Path, left: dict[str, Any]) -> dict[str, Any]:
    """Have a new vendor make the open batch as the old one made it, so that it has the same number; the meter then."""
    for batch in left["batches"]:
        create(sim, requests(ledger / "other") if is_open(batch) else [NOTHING])
    for old, new in zip(left["batches"], sim.get("/_batches"), strict=True):
        assert not is_open(old) or (old["account"], old["id"]) == (new["account"], new["id"])
    return sim.meter()


def is_open(batch: dict[str, Any]) -> bool:
    return bool(batch["state"] != "completed")


NOTHING: dict[str, Any] = {"custom_id": "nothing", "params": {"model": "nothing", "max_tokens": 1, "messages": []}}


def requests(folder: Path) -> list[dict[str, Any]]:
    """The lines of a provider's batch as they were sent."""
    (path,) = folder.glob("*/requests-*")
    packed = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
    return [json.loads(line) for line in packed.split(b"\n") if line]


def create(sim: Vendor, lines: list[dict[str, Any]]) -> None:
    """Make a batch at Anthropic."""
    body = json.dumps({"requests": lines}).encode()
    headers = {"x-api-key": "any", "anthropic-version": "2023-06-01", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{sim.url}/anthropic/v1/messages/batches", body, headers)
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200


def test_releasing_says_nothing_of_how_verdicts_were_read(desk: Desk) -> None:
    """Else the next report would show an older reader's scores as the present one's."""
    here, _, _ = taken_over(desk, "finished", "http://127.0.0.1:9")
    here.says("budget", "release", "run")
    assert "verdicts were read again" in here.says("report", "run")


def test_verdicts_that_a_newer_version_has_read_are_read_again(desk: Desk) -> None:
    """After a downgrade the report's scores are those of one reader, the present one."""
    here, _, _ = taken_over(desk, "finished", "http://127.0.0.1:9")
    record = here.folder / "run/sweep.yaml"
    record.write_text(record.read_text() + "reader_version: 99\n")
    assert "verdicts were read again" in here.says("report", "run")
    assert "verdicts were read again" not in here.says("report", "run")
