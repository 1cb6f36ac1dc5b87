"""What is paid for is written, whatever the store is doing when the end comes."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from pathlib import Path

from hab_ray.calls import Call, Finish, Reply, Usage
from hab_ray.engine.filing import Filing, Stream
from hab_ray.engine.jobs import Job, Tally
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


async def test_what_is_filed_during_a_write_is_written_when_the_end_comes(tmp_path: Path) -> None:
    folder, tally, stream = SlowFolder(tmp_path), Tally(), Stream()
    filing = Filing(StoreWriter(folder, 1, "w", Mode.ONLINE), KnownKeys(), tally)
    calls = [chat("a", "first"), chat("a", "second")]
    for call in calls:
        assert await filing.take_in(Job(0, call.key, call), stream)
    writing = asyncio.create_task(filing.flush_regularly())
    filing.file(calls[0], reply(calls[0]))
    assert await asyncio.to_thread(folder.writing.wait, 10)
    filing.file(calls[1], reply(calls[1]))
    filing.end()
    folder.may_go_on.set()
    await asyncio.wait_for(writing, 10)
    store = Store(LocalFolder(tmp_path))
    store.refresh("a")
    assert set(store.read("a", [call.key for call in calls])) == {call.key for call in calls}
    assert stream.outstanding == 0 and tally.finished[0] == 2
