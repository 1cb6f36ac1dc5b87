"""Fence codes in requests: one per request, the same online and by batch, and not part of the call's key."""

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from hab_ray.calls import ChatCall, Reply
from hab_ray.catalog.models import ModelEntry
from hab_ray.catalog.prices import Price
from hab_ray.engine.batch.packing import RowPacker
from hab_ray.engine.jobs import Job
from hab_ray.fences import PLACEHOLDER, FenceCodes
from hab_ray.providers import connect, connect_batch
from hab_ray.providers.base import Endpoint
from hab_ray.stages.prompts.wording import load_prompts
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.secret import fence_secret
from hab_simulator import Profile, simulator
from tests.engine.bench import engine_at, jobs, seen_by, stream
from tests.stages.calls_of_prompts import calls

CODE = re.compile(r"<<<(?:END )?[A-Z]+ ([0-9a-f]{16})>>>")
MODEL = "some-model"


def packed(store: Path, call: ChatCall) -> str:
    """The body of a call in a line of a batch."""
    endpoint = Endpoint("vendor", "openai", "http://localhost:1/v1", "a-key", 1.0)
    codes = FenceCodes(fence_secret(LocalFolder(store)))
    entry = ModelEntry(provider="vendor", wire=MODEL)
    price = Price(input=1, output=1, cached=1, cache_written=1)
    row = RowPacker(connect(endpoint), connect_batch(endpoint), entry, price, codes).row(Job(0, "r", call))
    return json.dumps(json.loads(row.line)["body"])


async def sent(store: Path, asked: Mapping[str, ChatCall]) -> tuple[list[str], dict[str, Reply]]:
    """The bodies received by the vendor, with sorted keys, and the stored replies."""
    async with simulator(Profile(keep_bodies=True)) as url:
        async with engine_at(url, store, MODEL) as b, b.engine:
            await b.engine.complete(stream(jobs(asked.values())))
            assert b.engine.counters.finished[0] == len(asked)
        seen = await seen_by(url, "_calls")
    return [json.dumps(json.loads(call["body"])) for call in seen], b.stored(MODEL)


async def test_online_and_by_batch_the_same_code_is_sent_and_filed_under_the_calls_key(tmp_path: Path) -> None:
    asked = {name: call for name, call in calls(load_prompts()).items() if not name.startswith("generate")}
    bodies, stored = await sent(tmp_path, asked)
    assert sorted(bodies) == sorted(packed(tmp_path, call) for call in asked.values())
    assert set(stored) == {call.key for call in asked.values()}
    assert {reply.body_sha256 for reply in stored.values()} == {
        sha256(json.dumps(json.loads(body), separators=(",", ":")).encode()).hexdigest() for body in bodies
    }
    codes = [set(CODE.findall(body)) for body in bodies]
    assert all(len(of_one) == 1 for of_one in codes) and len(set.union(*codes)) == len(bodies)
    assert not any(PLACEHOLDER in body for body in bodies)


async def test_a_run_of_the_first_version_sends_what_it_sent(tmp_path: Path) -> None:
    asked = {name: call for name, call in calls(load_prompts(version=1, fence=1)).items() if "plain" in name}
    bodies, _ = await sent(tmp_path, asked)
    texts = {json.loads(body)["messages"][-1]["content"] for body in bodies}
    assert texts == {call.messages[0].text for call in asked.values()}
