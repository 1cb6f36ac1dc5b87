"""`hab` at gateways that are like a vendor: the sweep names no price, and every bill agrees with the vendor's meter."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hab_ray.catalog.base import UsdPrice
from hab_ray.catalog.models import load_catalog
from hab_ray.catalog.prices import priced
from hab_ray.visible import usd
from hab_simulator import SimulatorClient
from tests.conftest import Desk, Vendor, Vendors
from tests.sweep.crashing import TESTS, sweep_file

SUBJECT, JUDGE = "claude-haiku-4-5", "gpt-4.1-mini"
OFTEN = {"poll_s": 0.2, "longest_poll_s": 0.2}
UNHURRIED = {"concurrent": 8}


def charged(name: str, **more: Any) -> dict[str, Any]:
    """A model as its vendor charges for it today."""
    entry = priced(load_catalog().find(name), datetime.now(UTC).date())
    assert entry.price and entry.batch and entry.batch.price

    def dollars(price: UsdPrice) -> dict[str, float]:
        return price.model_dump(include={"input", "output", "cached"}, exclude_none=True)

    return {"serves": ["chat"], "price": dollars(entry.price), "batch_price": dollars(entry.batch.price), **more}


def gateways(vendor: Vendors) -> Vendor:
    """A gateway that speaks OpenAI's protocol and has batches, and one that speaks Anthropic's and has none."""
    wire, subject = load_catalog().find(SUBJECT).wire, charged(SUBJECT, sampling="temperature")
    return vendor(
        batch={"turnaround": {"kind": "fixed", "value_s": 0.3}},
        accounts={
            "x/house": {"keys": ["sk-of-the-house"], "models": {JUDGE: charged(JUDGE)}},
            "x/team": {"kind": "anthropic", "batch_api": False, "models": {wire: subject}},
        },
    )


def sweep(desk: Desk, url: str, **changes: Any) -> Path:
    desk.environment |= {"HOUSE_KEY": "sk-of-the-house", "OPENAI_API_KEY": "sk-of-the-vendor"}
    settings: dict[str, Any] = {
        "executor": "local",
        "tests": desk.tests(3),
        "dimensions": ["encourage_learning"],
        "providers": {
            "house": {
                "like": "openai",
                "url": f"{url}/x/house/v1",
                "key_env": "HOUSE_KEY",
                "batch": True,
                "batches": OFTEN,
            },
            "team": {"like": "anthropic", "url": f"{url}/x/team", "limits": UNHURRIED},
        },
        "subjects": [f"team/{SUBJECT}"],
        "judges": [{"model": f"house/{JUDGE}", "mode": "batch"}],
        **changes,
    }
    return desk.write("gated", **settings)


def test_a_run_is_planned_and_paid_at_the_vendors_prices(desk: Desk, vendor: Vendors) -> None:
    sim = gateways(vendor)
    planned = desk.says("plan", sweep(desk, sim.url), "--long")
    lines = [row for row in planned.splitlines() if row.startswith(("respond ", "judge ")) and " $" in row]
    rows = {row.split()[1]: row for row in lines}
    assert rows.keys() == {f"team/{SUBJECT}", f"house/{JUDGE}"}, planned
    assert rows[f"house/{JUDGE}"].count("$") == 4 and rows[f"team/{SUBJECT}"].count("$") == 2
    done = desk.says("run", sweep(desk, sim.url), "--yes")
    meter = SimulatorClient(sim.url).meter()
    assert meter.charged > 0 and f"{usd(meter.charged)} paid" in done, done
    assert "our prices give" not in done
    assert sim.meter()["batch"]["nanousd"] > 0 and sim.received(load_catalog().find(SUBJECT).wire) > 0
    desk.says("run", sweep(desk, sim.url), "--yes")
    assert SimulatorClient(sim.url).meter().charged == meter.charged


def test_the_doctor_asks_a_gateway_as_it_asks_the_vendor(desk: Desk, vendor: Vendors) -> None:
    sim = gateways(vendor)
    live = desk.says("doctor", sweep(desk, sim.url), "--live", "--batch", "--yes")
    assert "no difference" in live
    assert f"{usd(SimulatorClient(sim.url).meter().charged)} paid" in live
    assert "HOUSE_KEY set" in live and re.search(r"team: key +none is configured; calls send 'no-key-needed'", live)


def test_a_rehearsal_bills_each_gateway_by_itself(desk: Desk) -> None:
    """A vendor and two gateways to it have one model at three prices, online and by batch."""
    nowhere = "http://127.0.0.1:9"
    more = {
        "house": {"like": "openai", "url": f"{nowhere}/v1", "batch": True, "price": {"input": 3, "output": 5}},
        "team": {"like": "anthropic", "url": nowhere, "batch": True, "price": {"input": 40, "output": 50}},
        "other": {"like": "anthropic", "url": nowhere, "price": {"input": 0.5, "output": 0.25}},
        "google-like": {"like": "google", "url": nowhere, "batch": True},
    }
    subjects = [SUBJECT, f"team/{SUBJECT}", f"other/{SUBJECT}", "google-like/gemini-3.8-flash"]
    asked = [{"model": name, "mode": "online" if name.startswith("other") else "batch"} for name in subjects]
    judges = [{"model": f"house/{JUDGE}", "mode": "batch"}]
    rehearsed = sweep(desk, nowhere, providers=more, subjects=asked, judges=judges)
    done = desk.says("rehearse", rehearsed, "--turnaround", 0.5)
    assert "8 of 8 scores by dimension" in done and "the bills agree" in done
    assert re.search(r"(\d+) batch(?:es)? with (\d+) calls, \2 billed", done), done


def test_the_vendors_own_price_is_booked_and_the_difference_is_told(desk: Desk, vendor: Vendors) -> None:
    model = {"serves": ["chat"], "thinking": "always", "price": {"input": 5, "output": 30}}
    sim = vendor(accounts={"xai": {"models": {"*": model}}})
    said = re.sub(r"\s+", " ", desk.says("run", sweep_file(desk.folder, "xai", sim.url, "dear"), "--yes"))
    paid = sim.meter()["batch"]["nanousd"]
    assert f"{usd(paid)} paid" in said and paid > 0
    stated = re.search(r"note: grok-4\.3: the vendor states \$(\S+) for (\d+) calls, our prices give \$(\S+);", said)
    assert stated, said
    assert round(float(stated[1]), 6) == round(paid / 1e9, 6) and int(stated[2]) == 2 * TESTS
    assert 2 * float(stated[3]) < float(stated[1])
