"""What is paid for is written, whatever the store is doing when the end comes."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from pathlib import Path

from hab_ray.calls import Call, Finish, Reply, Usage
from hab_ray.engine.jobs import Counters, Job
from hab_ray.engine.online.reply_writer import JobStream, ReplyWriter
from hab_ray.prices import Mode
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.known import KnownKeys
from hab_ray.storage.store import Store, StoreWriter
from tests.engine.bench import chat


class SlowFolder(LocalFolder):
    """A disk that takes as long as it is told to."""

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
    replies = ReplyWriter(StoreWriter(folder, 1, "w", Mode.ONLINE), KnownKeys(), counters)
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
    store = Store(LocalFolder(tmp_path))
    store.refresh("a")
    assert set(store.read("a", [call.key for call in calls])) == {call.key for call in calls}
    assert stream.outstanding == 0 and counters.finished[0] == 2
