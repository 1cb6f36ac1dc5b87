"""The machinery below the batches: disk instead of memory, a large JSON body in pieces, other requests meanwhile."""

import asyncio
import io
import json
import os
import signal
import tempfile
import time
from pathlib import Path

import pytest
from aiohttp import ClientSession

from hab_simulator import Profile, SimulatorProcess, simulator
from hab_simulator.anthropic import batch as anthropic_batch
from hab_simulator.anthropic.batch import NotRequests, requests
from hab_simulator.asks import Bill, MeantReply, Sighting, Usage
from hab_simulator.batch.spool import Entry, Lines, Spool
from tests.simulator.batches import AnthropicClient, OpenAiClient, chat, openai_line
from tests.simulator.conftest import Line, Start

ROWS = 4000


async def test_other_requests_are_answered_while_lines_are(start: Start) -> None:
    line = await start(batch={"turnaround": {"kind": "none"}})
    client = OpenAiClient(line)
    batch = await client.submit(map(openai_line, range(ROWS)))
    began, waits = time.perf_counter(), list[float]()
    while (await line.get("/_batches"))[0]["state"] != "completed":
        asked = time.perf_counter()
        assert (await line.post("/openai/v1/chat/completions", chat(-len(waits))))[0] == 200
        waits.append(time.perf_counter() - asked)
    assert len(waits) >= 4 and max(waits) < (time.perf_counter() - began) / 2
    assert len(await client.content((await client.end(batch.id)).output_file_id)) == ROWS


async def test_lines_live_on_disk_and_go_with_the_simulator(tmp_path: Path) -> None:
    settings = {"folder": str(tmp_path), "batch": {"turnaround": {"kind": "fixed", "value_s": 600}}}
    async with simulator(Profile.model_validate(settings)) as url:
        async with ClientSession() as session:
            line = Line(url, session)
            await OpenAiClient(line).submit(map(openai_line, range(100)))
            await AnthropicClient(line).submit(100)
            await asyncio.sleep(0.3)
        assert sum(path.stat().st_size for path in tmp_path.rglob("answered")) > 50_000
    assert list(tmp_path.iterdir()) == []


def test_a_killed_simulator_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it wrote goes once it is stopped."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with SimulatorProcess.start(Profile()) as process:
        assert [path for path in tmp_path.glob("*/*") if path.is_dir()]
        os.kill(process.pid, signal.SIGKILL)
    assert list(tmp_path.iterdir()) == []


async def test_speed_scales_the_turnaround_and_the_vendors_clock(start: Start) -> None:
    settings = {"turnaround": {"kind": "fixed", "value_s": 1800.0}}
    line = await start(batch=settings, speed=3600)
    client, messages = OpenAiClient(line), AnthropicClient(line)
    began = time.perf_counter()
    ended = await client.run([openai_line(1)])
    assert time.perf_counter() - began < 60
    assert ended.completed_at and ended.completed_at - ended.created_at >= 1800
    batch = await messages.run(1)
    assert batch.ended_at and (batch.ended_at - batch.created_at).total_seconds() >= 1800


@pytest.mark.parametrize("window", [20, 33, 64, 1 << 18])
def test_requests_come_out_of_a_body_in_pieces(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(anthropic_batch, "_WINDOW", window)
    items = [{"a": [1, {"b": "]}, \u2028"}]}, {}, {"text": "x" * 100}]
    for indent in (None, 2):
        body = json.dumps({"requests": items}, indent=indent, ensure_ascii=False)
        found = list(requests(io.StringIO(body)))
        assert [value for _, value in found] == items == [json.loads(text) for text, _ in found]


@pytest.mark.parametrize(
    "body", ["", "[]", '{"other": []}', '{"requests": [{}', '{"requests": [{}]', '{"requests": 1}']
)
def test_what_is_no_list_of_requests_is_refused(body: str) -> None:
    with pytest.raises(NotRequests):
        list(requests(io.StringIO(body)))


def test_lines_are_split_at_newlines_only(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes("a\u2028b\n\n \r\nc\x85\nd".encode())
    lines = Lines(path)
    assert len(lines) == 3 and list(lines) == ["a\u2028b".encode(), "c\x85".encode(), b"d"]
    path.write_bytes(b"")
    assert list(Lines(path)) == []


def test_a_spool_gives_back_what_was_put_in(tmp_path: Path) -> None:
    bill = Bill(Usage(5, 1, 3, 1), 77)
    entries = [
        Entry(b'"a"', b"line", 1),
        Entry(b'"b"', b"", 0),
        Entry(
            b'"c"',
            b"more",
            2,
            b"label",
            "p",
            "m",
            bill,
            MeantReply(3, b"l", (), Sighting("s", "d", b"p", "AB", 4, "[[m]]")),
        ),
    ]
    spool = Spool(tmp_path / "spool")
    for number, entry in enumerate(entries):
        spool.add(number / 10, entry)
    spool.finish()
    assert list(spool.read([2, 0, 1])) == [(0.2, entries[2]), (0.0, entries[0]), (0.1, entries[1])]
    spool.remove()
    assert list(tmp_path.iterdir()) == []
