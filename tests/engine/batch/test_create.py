"""Making a batch once: what the vendor's list must say before anything is sent again, and whose batch is taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hab_ray.catalog import BatchPolicy
from hab_ray.engine.batch.create import Placer, Watch
from hab_ray.engine.ledger import Batch, Intent, Ledger, Phase
from hab_ray.errors import ConfigError, FailureKind, LeaseLost, ProviderError, RateLimited
from hab_ray.providers.base import Wire
from hab_ray.providers.batching import BatchJob, BatchSize, BatchStatus, InDoubt, Line, SeenBatch
from hab_ray.storage.folder import LocalFolder
from tests.engine.test_ledger import KEYS, LINES, intent

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
POLICY = BatchPolicy(poll_s=0.001, in_doubt_s=0.02)


@dataclass
class Vendor:
    """A vendor that can be told what its list shows; every submit is counted."""

    breaks: bool = False
    listed: list[SeenBatch] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)
    org: str = "org"
    submitted: list[BatchJob] = field(default_factory=list)
    listings: int = 0
    batch_size = BatchSize(rows=10, bytes=1000)

    def line(self, custom_id: str, wire: Wire) -> bytes:
        raise NotImplementedError

    async def owner(self) -> str:
        return self.org

    async def newest(self) -> str | None:
        return self.listed[0].id if self.listed else None

    async def submit(self, job: BatchJob) -> str:
        self.submitted.append(job)
        if self.breaks and len(self.submitted) == 1:
            raise InDoubt(FailureKind.CONNECTION, "the connection broke")
        return f"new-{len(self.submitted)}"

    async def since(self, newest: str | None) -> list[SeenBatch]:
        self.listings += 1
        return list(self.listed)

    async def poll(self, batch_id: str) -> BatchStatus:
        return BatchStatus(batch_id, "x", ended=batch_id in self.ended, results=(batch_id,))

    async def results(self, status: BatchStatus) -> AsyncIterator[Line]:
        yield Line(self.ended[status.id], body={})

    async def cancel(self, batch_id: str) -> None: ...

    async def clean_up(self, batch_id: str) -> None: ...

    async def close(self) -> None: ...


@dataclass
class Clock:
    """Wall time that goes on a little at every look."""

    now: datetime = START

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=2)
        return self.now


def place(tmp_path: Path, vendor: Vendor, batch: Batch, known: str | None = None) -> None:
    ledger = Ledger(LocalFolder(tmp_path), "acme")
    ledger.keep(batch.number, LINES)
    clock = Clock()
    placer = Placer(vendor, ledger, POLICY, Watch(clock, lambda: None, epoch=2), lambda _: None, lambda _: None)
    if known:
        placer.know(known)

    def fresh(owner: str, newest: str | None) -> Intent:
        return intent("tag", epoch=2).model_copy(update={"owner": owner, "newest": newest, "at": clock()})

    asyncio.run(placer.place(batch, LINES, fresh))


def doubtful(tmp_path: Path) -> Batch:
    """A batch whose process died between its intent and the vendor's answer."""
    batch = Batch("acme", 1)
    Ledger(LocalFolder(tmp_path), "acme").add(batch, intent("tag").model_copy(update={"at": START}))
    return batch


def seen(id: str, tag: str | None, rows: int | None = 2) -> SeenBatch:
    return SeenBatch(id, tag, rows, START)


def test_a_batch_is_sent_once_and_noted(tmp_path: Path) -> None:
    vendor, batch = Vendor(), Batch("acme", 1)
    place(tmp_path, vendor, batch)
    assert len(vendor.submitted) == 1 and batch.batch_id == "new-1" and batch.phase is Phase.AT_VENDOR
    assert vendor.submitted[0].lines == LINES.requests and vendor.listings == 0


def test_a_lost_answer_is_looked_for_by_tag_and_not_sent_again(tmp_path: Path) -> None:
    vendor, batch = Vendor(breaks=True), Batch("acme", 1)
    vendor.listed = [seen("other", ""), seen("ours", "tag")]
    place(tmp_path, vendor, batch)
    assert len(vendor.submitted) == 1 and batch.batch_id == "ours" and batch.is_certain


def test_only_two_empty_listings_after_the_whole_time_let_it_be_sent_again(tmp_path: Path) -> None:
    vendor, batch = Vendor(listed=[seen("other", "")]), doubtful(tmp_path)
    place(tmp_path, vendor, batch)
    assert [e.kind for e in batch.events] == ["intent", "intent", "submitted"]
    assert len(vendor.submitted) == 1 and vendor.listings >= 2
    assert batch.events[1].at - START >= timedelta(seconds=POLICY.in_doubt_s)


def test_an_untagged_batch_is_ours_if_its_results_are(tmp_path: Path) -> None:
    vendor = Vendor(listed=[seen("foreign", None), seen("ours", None)])
    vendor.ended = {"foreign": "somebody's", "ours": KEYS[1]}
    batch = doubtful(tmp_path)
    place(tmp_path, vendor, batch)
    assert batch.batch_id == "ours" and batch.is_certain and not vendor.submitted


def test_a_foreign_batch_of_as_many_rows_is_not_taken_once_its_results_show_it(tmp_path: Path) -> None:
    vendor = Vendor(listed=[seen("foreign", None)], ended={"foreign": "somebody's"})
    batch = doubtful(tmp_path)
    place(tmp_path, vendor, batch)
    assert batch.batch_id == "new-1" and len(vendor.submitted) == 1


def test_the_only_untagged_batch_is_taken_after_the_whole_time_but_is_not_certain(tmp_path: Path) -> None:
    vendor = Vendor(listed=[seen("maybe", None), seen("known", None), seen("longer", None, rows=3)])
    batch = doubtful(tmp_path)
    place(tmp_path, vendor, batch, known="known")
    assert batch.batch_id == "maybe" and not batch.is_certain and not vendor.submitted


def test_a_key_of_another_organisation_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    vendor, batch = Vendor(org="another"), doubtful(tmp_path)
    with pytest.raises(ConfigError, match="another"):
        place(tmp_path, vendor, batch)
    assert not vendor.submitted


def test_an_intent_that_another_driver_wrote_stops_before_the_vendor(tmp_path: Path) -> None:
    vendor = Vendor()
    doubtful(tmp_path)
    with pytest.raises(LeaseLost):
        place(tmp_path, vendor, Batch("acme", 1))
    assert not vendor.submitted


def test_a_full_queue_is_told_at_once(tmp_path: Path) -> None:
    class Full(Vendor):
        async def submit(self, job: BatchJob) -> str:
            self.submitted.append(job)
            raise RateLimited("too many batches", 60)

    vendor = Full()
    with pytest.raises(RateLimited):
        place(tmp_path, vendor, Batch("acme", 1))
    assert len(vendor.submitted) == 1


@dataclass
class Blind(Vendor):
    """A vendor that can be asked for its list no more."""

    async def since(self, newest: str | None) -> list[SeenBatch]:
        raise ProviderError(FailureKind.BAD_KEY, "no such key")


@pytest.mark.parametrize("sent", [True, False])
def test_a_look_that_fails_leaves_the_batch_in_doubt_and_sends_nothing_again(tmp_path: Path, sent: bool) -> None:
    vendor, batch = Blind(breaks=sent), Batch("acme", 1) if sent else doubtful(tmp_path)
    with pytest.raises(InDoubt, match="no such key"):
        place(tmp_path, vendor, batch)
    assert batch.phase is Phase.IN_DOUBT and len(vendor.submitted) == sent


@pytest.mark.parametrize(
    ("then", "now", "same"),
    [("org", "org/workspace", True), ("org/a", "org/b", False), ("org", "other/a", False), ("", "org", True)],
)
def test_an_owner_is_the_same_as_far_as_both_records_say(tmp_path: Path, then: str, now: str, same: bool) -> None:
    vendor, batch = Vendor(org=now), Batch("acme", 1)
    old = intent("tag").model_copy(update={"at": START, "owner": then})
    Ledger(LocalFolder(tmp_path), "acme").add(batch, old)
    if same:
        place(tmp_path, vendor, batch)
    else:
        with pytest.raises(ConfigError, match=then):
            place(tmp_path, vendor, batch)
    assert len(vendor.submitted) == same
