"""Paid replies are written, whatever the store is doing when the engine ends."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hab_ray.calls import Call, Finish, Reply, Usage
from hab_ray.catalog.prices import Mode
from hab_ray.engine.jobs import Counters, Job
from hab_ray.engine.online.reply_writer import JobStream, ReplyWriter
from hab_ray.location import Location
from hab_ray.storage.folder import Folder, LocalFolder, open_folder
from hab_ray.storage.replies import store
from hab_ray.storage.replies.keyindex import AnsweredKeys
from hab_ray.storage.replies.store import StoreWriter
from tests.engine.bench import chat, stored
from tests.folders import Through
from tests.forking import ON_DISK


class SlowFolder(LocalFolder):
    """A disk whose writes the test delays."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.writing, self.may_go_on = threading.Event(), threading.Event()

    def put_new(self, name: str, data: bytes) -> None:
        self.writing.set()
        assert self.may_go_on.wait(10)
        super().put_new(name, data)


def reply(call: Call) -> Reply:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    return Reply(call.key, Finish.OK, Usage(), 1, "m", "", "0" * 64, at, text="yes")


async def test_close_during_write(tmp_path: Path) -> None:
    """An outcome added while another one is being written is written before the end."""
    folder, counters, stream = SlowFolder(tmp_path), Counters(), JobStream()
    replies = ReplyWriter(StoreWriter(folder, 1, "w", Mode.ONLINE), AnsweredKeys(), counters)
    calls = [chat("a", "first"), chat("a", "second")]
    for call in calls:
        assert await replies.register(Job(0, call.key, call), stream)
    writing = asyncio.create_task(replies.flush_regularly())
    replies.add(calls[0], reply(calls[0]))
    assert await asyncio.to_thread(folder.writing.wait, 10)
    replies.add(calls[1], reply(calls[1]))
    replies.close()
    folder.may_go_on.set()
    await asyncio.wait_for(writing, 10)
    assert set(stored(tmp_path, "a")) == {call.key for call in calls}
    assert stream.outstanding == 0 and counters.finished[0] == 2


async def test_the_last_reply_waits_for_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once every call in progress is answered, the replies are written well before the writer's second has passed."""
    monkeypatch.setattr(store, "ON_DISK", ON_DISK)
    writer, stream = StoreWriter(LocalFolder(tmp_path), 1, "w", Mode.ONLINE), JobStream()
    replies = ReplyWriter(writer, AnsweredKeys(), Counters())
    writing, took = asyncio.create_task(replies.flush_regularly()), list[float]()
    for call in (chat("a", f"{number}") for number in range(5)):
        assert await replies.register(Job(0, call.key, call), stream)
        began = time.monotonic()
        replies.add(call, reply(call))
        await replies.wait_until(lambda: stream.outstanding == 0)
        took.append(time.monotonic() - began)
    replies.close()
    await asyncio.wait_for(writing, 10)
    assert min(took) < 0.7, took


class Timed(Through):
    """A bucket that records when each object became durable."""

    def __init__(self, inner: Folder) -> None:
        super().__init__(inner)
        self.durable_at: list[float] = []

    def put_new(self, name: str, data: bytes) -> None:
        super().put_new(name, data)
        self.durable_at.append(time.monotonic())


async def test_a_reply_waits_two_seconds_for_its_bucket_at_most(bucket: str) -> None:
    """A kill repeats the calls answered in that time, and each further request is charged for."""
    folder, stream = Timed(open_folder(Location.of(f"{bucket}/store"))), JobStream()
    assert not list(folder.list()), "the first request waits until the client is made"
    replies = ReplyWriter(StoreWriter(folder, 1, "w", Mode.ONLINE), AnsweredKeys(), Counters())
    calls = [chat("a", f"{number}") for number in range(101)]
    for call in calls:
        assert await replies.register(Job(0, call.key, call), stream)
    writing = asyncio.create_task(replies.flush_regularly())
    began, answered_at = time.monotonic(), list[float]()
    for call in calls[:-1]:  # the last one keeps the writer waiting for more
        replies.add(call, reply(call))
        answered_at.append(time.monotonic())
        await asyncio.sleep(0.05)
    written = list(folder.durable_at)
    replies.close()
    await asyncio.wait_for(writing, 30)
    waited = [next(at for at in folder.durable_at if at > answered) - answered for answered in answered_at]
    assert max(waited) < 3.0, max(waited)
    assert 2 <= len(written) <= (time.monotonic() - began) / 1.5
