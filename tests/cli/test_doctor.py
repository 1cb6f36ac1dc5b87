"""`hab doctor`: what stands in the way, and one call of each kind, within a bound and on the store's record."""

import signal
from pathlib import Path

from hab_ray.engine.ledger import Ledger
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.visible import usd
from hab_simulator import SimulatorClient, load_recording
from tests.conftest import Desk, Vendor, Vendors, ended, until

PRICE = {"input": 2.0, "output": 8.0}
KEY = "sk-never-shown-anywhere-81"


def priced(desk: Desk, sim: Vendor) -> Path:
    batches = {"batch": {"discount": 0.5}, "batches": {"poll_s": 0.2, "longest_poll_s": 0.2}}
    less = {"validate": "off", "subjects": ["sim/alpha"], "dimensions": ["encourage_learning"]}
    return desk.sweep("visited", sim.url, {"key_env": "LAB_KEY", "price": PRICE, **batches}, **less)


def test_a_sweep_is_looked_at_asked_once_and_booked(desk: Desk, vendor: Vendors) -> None:
    batch = {"turnaround": {"kind": "fixed", "value_s": 0.3}}
    sim = vendor(accounts={"x/sim": {"models": {"*": {"price": PRICE}}}}, batch=batch)
    sweep = priced(desk, sim)
    assert "LAB_KEY is not set" in desk.says("doctor", sweep, status=2)
    desk.environment["LAB_KEY"] = KEY
    dear = desk.says("doctor", sweep, "--live", "--yes", "--max-usd", 0.0001, status=2)
    assert "nothing was sent" in dear
    assert "LAB_KEY set" in dear and KEY not in dear
    assert sim.meter()["billed"] == 0
    live = desk.says("doctor", sweep, "--live", "--batch", "--yes", "--out", "seen.jsonl")
    assert "no difference" in live
    assert f"{usd(SimulatorClient(sim.url).meter().charged)} paid" in live
    recorded = load_recording(desk.folder / "seen.jsonl")
    assert len(recorded) > 20 and KEY not in (desk.folder / "seen.jsonl").read_text()
    store = open_folder(Location.of(desk.folder / "store"))
    assert len(store.list("runs")) == 1 and store.list("ledger/sim")
    assert "doctor-visited" in store.get(store.list("runs")[0]).decode()


def test_a_practice_run_without_a_key_is_warned_of_nothing_at_its_simulator(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(accounts={"x/sim": {"models": {"*": {}, "listed": {}}}})
    said = desk.hab("doctor", desk.sweep("practice", sim.url)).stdout
    told = " ".join(said.split())
    assert "sim: endpoint" in told and "does not list" not in told and "key_env" not in told


def test_a_model_without_a_price_is_wrong_because_hab_run_refuses_it(desk: Desk, vendor: Vendors) -> None:
    less = {"tests": "seeds", "subjects": ["sim/alpha"], "dimensions": ["encourage_learning"]}
    sweep = desk.sweep("unpriced", vendor().url, {"price": None}, **less)
    assert "no price is known for alpha" in desk.says("run", sweep, "--yes", status=2)
    examined = desk.says("doctor", sweep, status=2)
    assert "price of sim/alpha" in examined and "price of sim/judge" in examined


def test_nothing_is_asked_where_the_exchanges_cannot_be_written(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(accounts={"x/sim": {"models": {"*": {"price": PRICE}}}})
    desk.environment["LAB_KEY"] = KEY
    (desk.folder / "place.yaml").write_text("a file\n")
    for out in ("/proc/x.jsonl", "place.yaml/x.jsonl", "."):
        refused = desk.says("doctor", priced(desk, sim), "--live", "--yes", "--out", out, status=2)
        assert "cannot write the exchanges" in refused, refused
    assert [each["method"] for each in sim.requests()] == ["GET"] * 3  # whether the vendor can be reached


def test_ctrl_c_names_the_batches_that_it_leaves_and_how_to_cancel_them(desk: Desk, vendor: Vendors) -> None:
    batch = {"turnaround": {"kind": "fixed", "value_s": 600}}
    sim = vendor(accounts={"x/sim": {"models": {"*": {"price": PRICE}}}}, batch=batch)
    desk.environment["LAB_KEY"] = KEY
    sweep = priced(desk, sim)
    desk.says("run", sweep, "--yes")
    process = desk.start("doctor", sweep, "--live", "--batch", "--yes", "--out", "seen.jsonl")
    store = open_folder(Location.of(desk.folder / "store"))
    until(lambda: any(one.batch_id for one in Ledger(store, "sim").read()), process)
    process.send_signal(signal.SIGINT)
    told = ended(process)
    (left,) = Ledger(store, "sim").read()
    assert told.returncode == 130, told.stdout
    assert left.batch_id and left.batch_id in told.stdout, told.stdout
    assert f"hab batches cancel {desk.folder}/runs/visited {left.name}" in told.stdout
    assert (desk.folder / "seen.jsonl").exists()
    assert "cancellation requested" in desk.says("batches", "cancel", "runs/visited", left.name)
