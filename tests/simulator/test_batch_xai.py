"""xAI's batches as their documentation has them: counters instead of states, results in pages."""

import asyncio
from typing import Any

import aiohttp
import pytest

from tests.simulator.batches import SOON, chat, jsonl, openai_line
from tests.simulator.conftest import KEYS, Line, Start

BASE = "/xai/v1"
ZERO = {"num_requests": 0, "num_pending": 0, "num_success": 0, "num_error": 0, "num_cancelled": 0}
MODEL = "grok-4.3"


async def ask(line: Line, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    async with line.session.request(method, line.url + BASE + path, json=body, headers=KEYS) as response:
        return response.status, await response.json()


async def upload(line: Line, lines: list[Any], **fields: str) -> tuple[int, Any]:
    form = aiohttp.FormData(fields)
    form.add_field("file", jsonl(lines), filename="requests.jsonl")
    async with line.session.post(line.url + BASE + "/files", data=form, headers=KEYS) as response:
        return response.status, await response.json()


async def submit(line: Line, lines: list[Any], name: str = "mine") -> dict[str, Any]:
    _, file = await upload(line, lines)
    status, batch = await ask(line, "POST", "/batches", {"name": name, "input_file_id": file["id"]})
    assert status == 200
    return dict(batch)


async def ended(line: Line, batch_id: str) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while True:
            _, batch = await ask(line, "GET", f"/batches/{batch_id}")
            state = batch["state"]
            if batch["cancel_by_xai_message"] or (state["num_requests"] and not state["num_pending"]):
                return dict(batch)
            await asyncio.sleep(0.02)


def grok(number: int) -> dict[str, Any]:
    return openai_line(number, chat(number, MODEL))


async def test_from_upload_to_results(start: Start) -> None:
    line = await start(batch=SOON)
    batch = await submit(line, [grok(n) for n in range(7)])
    assert batch["name"] == "mine" and batch["state"] == ZERO
    done = await ended(line, batch["batch_id"])
    assert done["state"] == ZERO | {"num_requests": 7, "num_success": 7} and done["cancel_time"] is None
    found: dict[str, Any] = {}
    token, pages = "", 0
    while pages == 0 or token:
        more = f"&pagination_token={token}" if token else ""
        _, page = await ask(line, "GET", f"/batches/{batch['batch_id']}/results?limit=3{more}")
        found |= {
            one["batch_request_id"]: one["batch_result"]["response"]["chat_get_completion"] for one in page["results"]
        }
        token, pages = page["pagination_token"], pages + 1
    assert pages == 3 and set(found) == {f"c{n}" for n in range(7)}
    _, _, online = await line.post(f"{BASE}/chat/completions", chat(1, MODEL))
    assert found["c1"] == online


async def test_nothing_is_there_before_the_end_and_a_cancelled_batch_keeps_what_was_done(start: Start) -> None:
    line = await start(batch={"turnaround": {"kind": "fixed", "value_s": 600}})
    batch = await submit(line, [grok(n) for n in range(3)])
    path = f"/batches/{batch['batch_id']}"
    async with asyncio.timeout(20):
        while (seen := (await ask(line, "GET", path))[1])["state"] == ZERO:
            await asyncio.sleep(0.02)
    assert seen["state"] == ZERO | {"num_requests": 3, "num_pending": 3}
    assert (await ask(line, "GET", f"{path}/results"))[1] == {"results": [], "pagination_token": None}
    status, cancelled = await ask(line, "POST", f"{path}:cancel")
    assert status == 200 and cancelled["cancel_time"]
    done = await ended(line, batch["batch_id"])
    assert done["state"] == ZERO | {"num_requests": 3, "num_cancelled": 3}
    _, page = await ask(line, "GET", f"{path}/results")
    assert [one["batch_result"] for one in page["results"]] == [{"error": "Batch cancelled"}] * 3
    assert (await ask(line, "POST", f"{path}:cancel"))[0] == 200


async def test_a_refused_file_is_told_by_a_message_and_no_counter(start: Start) -> None:
    line = await start(batch=SOON)
    batch = await submit(line, [grok(1), {"custom_id": "c2"}])
    done = await ended(line, batch["batch_id"])
    assert done["state"] == ZERO and "method" in done["cancel_by_xai_message"] and done["cancel_time"]


async def test_a_request_that_fails_says_so_in_bare_words(start: Start) -> None:
    line = await start(batch=SOON | {"lines": {"failed": 1.0, "failed_status": 503}})
    batch = await submit(line, [grok(1)])
    done = await ended(line, batch["batch_id"])
    assert done["state"] == ZERO | {"num_requests": 1, "num_error": 1}
    _, page = await ask(line, "GET", f"/batches/{batch['batch_id']}/results")
    (one,) = page["results"]
    assert one["batch_result"].keys() == {"error"} and isinstance(one["batch_result"]["error"], str)


async def test_a_cancelled_batchs_counters_go_back_to_what_was_done(start: Start) -> None:
    faults = [{"kind": "stuck", "done": 1.0}, {"kind": "reverted_cancel"}]
    line = await start(batch=SOON, batch_faults=faults)
    path = f"/batches/{(await submit(line, [grok(n) for n in range(3)]))['batch_id']}"
    async with asyncio.timeout(20):
        while (await ask(line, "GET", path))[1]["state"] == ZERO:
            await asyncio.sleep(0.02)
    await ask(line, "POST", f"{path}:cancel")
    first = await ended(line, path.rpartition("/")[2])
    assert first["state"] == ZERO | {"num_requests": 3, "num_cancelled": 3}
    assert (await ask(line, "GET", f"{path}/results"))[1]["results"][0]["batch_result"] == {"error": "Batch cancelled"}
    assert (await ask(line, "GET", path))[1]["state"] == ZERO | {"num_requests": 3, "num_success": 3}
    assert "response" in (await ask(line, "GET", f"{path}/results"))[1]["results"][0]["batch_result"]


async def test_a_model_without_batches_is_refused_at_once_or_cancelled_as_a_whole(start: Start) -> None:
    line = await start(batch=SOON, accounts={"xai": {"models": {"dead": {"by_batch": "cancelled"}, "*": {}}}})
    batch = await submit(line, [openai_line(n, chat(n, "dead")) for n in range(2)])
    done = await ended(line, batch["batch_id"])
    assert done["cancel_by_xai_message"] == "Model dead is not supported for batch processing."
    assert done["state"] == ZERO | {"num_requests": 2, "num_cancelled": 2}
    line = await start(batch=SOON)
    _, file = await upload(line, [openai_line(1, chat(1, "grok-4.7"))])
    status, said = await ask(line, "POST", "/batches", {"name": "a", "input_file_id": file["id"]})
    assert status == 400 and "Model grok-4.7 is not supported for batch processing" in said["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/batches", {"name": "a"}, 400),
        ("POST", "/batches", {"name": "a", "input_file_id": "file-none"}, 400),
        ("POST", "/batches", {"name": "a", "input_file_id": "f", "endpoint": "/v1/chat/completions"}, 400),
        ("GET", "/batches?limit=0", None, 400),
        ("GET", "/batches?pagination_token=x", None, 400),
        ("GET", "/batches/none", None, 404),
        ("GET", "/batches/none/results", None, 404),
        ("POST", "/batches/none:cancel", None, 404),
        ("DELETE", "/batches/none", None, 404),
    ],
)
async def test_what_is_refused(start: Start, method: str, path: str, body: Any, status: int) -> None:
    assert (await ask(await start(), method, path, body))[0] == status


async def test_files_need_no_purpose_and_take_no_other(start: Start) -> None:
    line = await start()
    assert (await upload(line, [grok(1)]))[0] == 200
    assert (await upload(line, [grok(1)], purpose="batch"))[0] == 200
    assert (await upload(line, [grok(1)], purpose="fine-tune"))[0] == 400
