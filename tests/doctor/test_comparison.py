"""The doctor names what vendors do otherwise than the simulator, and nothing where they do the same or no harm."""

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hab_ray.doctor.comparison import ComparedProtocols, ProtocolDifference
from hab_ray.doctor.examination import Examined
from hab_ray.doctor.tap import Exchange, write_exchanges
from hab_ray.engine.ledger import Ledger, Phase
from hab_ray.storage.folder import open_folder
from hab_ray.storage.spending import online_spending
from hab_simulator import Profile, SimulatorClient, load_recording, replaying, simulator
from tests.doctor.conftest import PROFILE, Doctor
from tests.doctor.divergent import Divergence, diverging, drawn, in_json, page, place_of, refusing, without_header
from tests.doctor.recorded import Recorded, exchanges

WAIT_S = 5.0


def named(divergence: Divergence, found: list[ProtocolDifference]) -> bool:
    """Whether a difference says it, at the account and kind of question where it is."""
    account, _, kind = divergence.place.partition(" ")
    label = {"online": f" {account}/", "malformed": f"request to {account}", "batch": "batch of "}[kind]
    return any(
        label in one.label
        and f"{account}" in one.label
        and divergence.named in str(one)
        and (kind == "batch") == one.label.startswith("batch of")
        for one in found
    )


def _sum(reply: Any) -> None:
    if "usage" in reply:
        reply["usage"]["total_tokens"] += 7


def _renamed(reply: Any) -> None:
    reply["stopReason"] = reply.pop("stop_reason")


def _done(batch: Any) -> None:
    if batch.get("status") == "completed":
        batch["status"] = "done"


def _moved(line: Any) -> None:
    line["result"]["custom_id"] = line.pop("custom_id")


def _negative(batch: Any) -> None:
    batch["state"]["num_pending"] = -1


FIRST = [
    Divergence("openai online", "POST", in_json(_sum), "`total_tokens` is"),
    Divergence("anthropic online", "POST", in_json(_renamed), "`stop_reason` is `stopReason` instead"),
    Divergence(
        "google online",
        "v1beta",
        refusing(404, {"error": {"code": 404, "message": "unknown version v1beta"}}),
        "unknown version v1beta",
    ),
    Divergence(
        "xai online",
        "POST",
        refusing(400, {"error": "Argument not supported: top_p", "code": "bad"}),
        "Argument not supported: top_p",
    ),
    Divergence(
        "openai malformed",
        "POST",
        refusing(400, {"error": "words alone"}),
        "`error` is a text, where the simulator has an object",
    ),
    Divergence("openai batch", "GET .*/batches/", in_json(_done), "'done'"),
    Divergence(
        "google batch",
        "POST /google/upload",
        without_header("x-goog-upload-status"),
        "no header `x-goog-upload-status`",
    ),
    Divergence("anthropic batch", "results", in_json(_moved), "`custom_id` is `result.custom_id` instead"),
    Divergence("xai batch", "GET .*/batches/[^/]+$", in_json(_negative), "`state.num_pending` is negative: -1"),
    Divergence("anthropic malformed", "POST", page(403), "a web page instead of an answer"),
]


async def test_vendors_that_answer_as_the_simulator_differ_in_nothing(
    doctor: Doctor, vendor: str, tmp_path: Path
) -> None:
    found = await doctor.visit(vendor, tmp_path)
    compared = doctor.compare(found)
    assert [str(one) for one in compared.differences] == []
    assert {exchange.provider for exchange in found.exchanges} == {"openai", "anthropic", "google", "xai"}
    assert len(found.asked) == 8 and all(len(one.outcomes) == len(one.calls) for one in found.asked)
    meter = await asyncio.to_thread(SimulatorClient(vendor).meter)
    store = open_folder(doctor.work.sweep.store.sibling(tmp_path.name))
    batches = [batch for name in ("openai", "anthropic", "google", "xai") for batch in Ledger(store, name).read()]
    assert len(batches) == 4 and all(batch.phase is Phase.DONE for batch in batches)
    by_batch = sum(batch.harvested.nanousd for batch in batches if batch.harvested)
    epochs = [int(Path(name).stem) for name in store.list("runs") if name.endswith(".json")]
    assert online_spending(store, epochs, 0).spent + by_batch == meter.charged == found.cost_nanousd


async def test_a_batch_that_takes_longer_than_the_doctor_waits_is_no_difference(doctor: Doctor, tmp_path: Path) -> None:
    slow = {"batch": {"turnaround": {"kind": "fixed", "value_s": 600}}, "folder": tmp_path}
    async with simulator(Profile.model_validate(PROFILE | slow)) as url:
        found = await doctor.visit(url, tmp_path / "slow", wait_s=1.5)
    assert [str(one) for one in doctor.compare(found).differences] == []
    assert len(found.asked) == 4
    late = [note for note in found.left_open if "has not ended after 0.025 minutes" in note]
    assert len(late) == 4 and all("not compared" in note for note in late)


async def test_a_batch_that_the_vendor_does_not_take_in_time_is_a_difference(
    doctor: Doctor, vendor: str, tmp_path: Path
) -> None:
    busy = Divergence("openai batch", "POST .*/files$", refusing(503, {"error": {"message": "busy"}}), "HTTP 503")
    async with diverging(vendor, [busy]) as url:
        found = await doctor.visit(url, tmp_path / "busy", wait_s=1.5)
    serious = [str(one) for one in doctor.compare(found).serious]
    assert any("unanswered: " in one and "has not ended after" in one for one in serious), serious


async def test_ten_planted_divergences_are_named_and_named_again_from_the_file(
    doctor: Doctor, vendor: str, tmp_path: Path
) -> None:
    async with diverging(vendor, FIRST) as url:
        found = await doctor.visit(url, tmp_path / "first", wait_s=WAIT_S)
    compared = doctor.compare(found)
    differences = compared.differences
    assert [one for one in FIRST if not named(one, differences)] == [], "\n".join(map(str, differences))
    harmless = [one.place for one in FIRST if not named(one, list(compared.serious))]
    assert harmless == ["openai malformed"]
    file = tmp_path / "doctor.jsonl"
    write_exchanges(file, {"sweep": "visited"}, found.exchanges)
    async with replaying(load_recording(file)) as url:
        again = await doctor.visit(url, tmp_path / "again", wait_s=WAIT_S)
    assert {str(one) for one in doctor.compare(again).differences} == {str(one) for one in differences}


async def test_ten_drawn_divergences_are_named(doctor: Doctor, vendor: str, tmp_path: Path) -> None:
    random = Random(12)
    chosen: dict[str, Divergence] = {}
    exchanges = [one for one in doctor.reference.exchanges if one.method != "DELETE" and one.body.startswith("{")]
    exchanges.sort(key=lambda one: (one.label, one.method, re.sub(r"[\w-]*\d[\w-]*", "", one.path)))
    random.shuffle(exchanges)
    for one in exchanges:
        place = place_of(one.provider, one.path, one.request.encode() if one.request.startswith("{") else b"")
        verb = f"{one.method} .*" + re.sub(r"[\w-]*\d[\w-]*", "", one.path.partition("?")[0]).rpartition("/")[2]
        if place not in chosen:
            document = json.loads(one.body.split("\n")[0])
            chosen[place] = drawn(random, place, verb, document)
    wanted = list(chosen.values())[:10]
    async with diverging(vendor, wanted) as url:
        found = await doctor.visit(url, tmp_path / "drawn", wait_s=WAIT_S)
    differences = doctor.compare(found).differences
    missed = [one for one in wanted if not named(one, differences)]
    assert len(wanted) == 10
    assert missed == [], "\n".join(map(str, [*wanted, *differences]))


# What every vendor's front sends with an answer that the simulator's does not, and the other way round.
HEADERS = {"content-type": "application/json", "cf-ray": "9a1-FRA", "alt-svc": 'h3=":443"'}


def heard(doctor: Doctor, one: Recorded) -> ComparedProtocols:
    """What the doctor says of one exchange by itself, in the place of the one at the simulator."""
    (place, *_) = [each for each in doctor.reference.exchanges if is_like(each, one)]
    said = replace(place, status=one.status, headers={**HEADERS, **(one.headers or {})}, body=json.dumps(one.body))
    return doctor.compare(Examined([said]))


def is_like(exchange: Exchange, one: Recorded) -> bool:
    is_of_refusal = exchange.label.startswith("malformed")
    asked = re.search(f"^{one.verb}", f"{exchange.method} {exchange.path}")
    return exchange.provider == one.provider and is_of_refusal == one.is_refusal and asked is not None


@pytest.mark.parametrize("vendor_name", ["openai", "anthropic", "google", "xai"])
def test_of_thirty_recorded_exchanges_at_most_one_in_twenty_has_a_finding(doctor: Doctor, vendor_name: str) -> None:
    recorded = exchanges(vendor_name)
    found = [(one.verb, str(said)) for one in recorded for said in heard(doctor, one).serious]
    assert len(recorded) == 30
    assert len({verb for verb, _ in found}) <= 1 and len(found) <= len(recorded) // 20, found
    assert all("length" in said or "max_tokens" in said or "MAX_TOKENS" in said for _, said in found)
