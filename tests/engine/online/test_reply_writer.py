"""Paid replies are written, whatever the store is doing when the engine ends."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hab_ray.calls import Call, Failure, Finish, Reply, Usage
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


@dataclass
class Writing:
    """A writer of replies at work."""

    replies: ReplyWriter
    counters: Counters
    stream: JobStream = field(default_factory=JobStream)

    async def register(self, calls: Sequence[Call]) -> None:
        for call in calls:
            assert await self.replies.register(Job(0, call.key, call), self.stream)

    def add(self, call: Call, output_tokens: int = 0) -> None:
        usage, at = Usage(output=output_tokens), datetime(2026, 11, 1, tzinfo=UTC)
        self.replies.add(call, Reply(call.key, Finish.OK, usage, 40, "m", "", "0" * 64, at, text="yes"))


@asynccontextmanager
async def writing(folder: Folder) -> AsyncIterator[Writing]:
    """A writer of replies to this folder, which has ended afterwards."""
    counters = Counters()
    replies = ReplyWriter(StoreWriter(folder, 1, "w", Mode.ONLINE), AnsweredKeys(), counters)
    work = asyncio.create_task(replies.flush_regularly())
    yield Writing(replies, counters)
    replies.close()
    await asyncio.wait_for(work, 30)


async def test_close_during_write(tmp_path: Path) -> None:
    """An outcome added while another one is being written is written before the end."""
    folder, calls = SlowFolder(tmp_path), [chat("a", "first"), chat("a", "second")]
    async with writing(folder) as w:
        await w.register(calls)
        w.add(calls[0])
        assert await asyncio.to_thread(folder.writing.wait, 10)
        w.add(calls[1])
        w.replies.close()
        folder.may_go_on.set()
    assert set(stored(tmp_path, "a")) == {call.key for call in calls}
    assert w.stream.outstanding == 0 and w.counters.finished[0] == 2


async def test_the_last_reply_waits_for_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once every call in progress is answered, the replies are written well before the writer's second has passed."""
    monkeypatch.setattr(store, "ON_DISK", ON_DISK)
    took: list[float] = []
    async with writing(LocalFolder(tmp_path)) as w:
        for call in (chat("a", f"{number}") for number in range(5)):
            await w.register([call])
            began = time.monotonic()
            w.add(call)
            await w.replies.wait_until(lambda: w.stream.outstanding == 0)
            took.append(time.monotonic() - began)
    assert min(took) < 0.7, took


async def test_what_cannot_be_written_leaves_its_neighbours_alone(tmp_path: Path) -> None:
    calls = [chat("a", f"question {n}") for n in range(21)]
    async with writing(LocalFolder(tmp_path)) as w:
        await w.register(calls)
        for n, call in enumerate(calls):
            w.add(call, output_tokens=10**30 if n == 7 else 5)
    found = stored(tmp_path, "a")
    failure = found.pop(calls[7].key)
    assert isinstance(failure, Failure) and "cannot be stored" in failure.message and failure.cost_nanousd == 40
    assert len(found) == 20 and all(isinstance(reply, Reply) for reply in found.values())
    assert (w.stream.outstanding, w.counters.finished[0], w.counters.failed[0]) == (0, 21, 1)


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
    folder, calls = (
        Timed(open_folder(Location.of(f"{bucket}/store"))),
        [chat("a", f"{number}") for number in range(101)],
    )
    assert not list(folder.list()), "the first request waits until the client is made"
    folder.put("first", b"the server makes its volumes at the first write, which takes it up to five seconds")
    began, answered_at = time.monotonic(), list[float]()
    async with writing(folder) as w:
        await w.register(calls)
        for call in calls[:-1]:  # the last one keeps the writer waiting for more
            w.add(call)
            answered_at.append(time.monotonic())
            await asyncio.sleep(0.05)
        written = list(folder.durable_at)
    waited = [next(at for at in folder.durable_at if at > answered) - answered for answered in answered_at]
    assert max(waited) < 4.5, max(waited)
    assert 2 <= len(written) <= (time.monotonic() - began) / 1.5
