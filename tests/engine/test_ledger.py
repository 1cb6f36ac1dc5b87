"""The ledger: events in order, written once, and what a batch's rows are read back as."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from hab_ray.engine.ledger import (
    Batch,
    Ended,
    Harvested,
    Intent,
    Ledger,
    Lines,
    Phase,
    Submitted,
    body_hashes,
    keys_under_way,
)
from hab_ray.errors import DamagedFile, LeaseLost
from hab_ray.storage.folder import LocalFolder

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
KEYS = ["ab" * 32, "cd" * 32]
LINES = Lines(b'{"a":"\xe2\x80\xa8"}\n{"b":1}\n', b"".join(bytes.fromhex(key + "ef" * 32) for key in KEYS))


def intent(tag: str = "t", epoch: int = 1) -> Intent:
    return Intent(
        epoch=epoch,
        at=NOW,
        tag=tag,
        run="/runs/x",
        model="m",
        wire="m-1",
        path="/chat/completions",
        version=None,
        embeds=False,
        rows=2,
        bytes=len(LINES.requests),
        tokens=10,
        nanousd=100,
        rows_file=LINES.rows_file,
        requests_file=LINES.requests_file,
        owner="org",
        newest=None,
    )


def submitted(certain: bool = True) -> Submitted:
    return Submitted(epoch=1, at=NOW, batch_id="b-1", adopted=not certain, certain=certain)


ENDED = Ended(epoch=1, at=NOW, word="completed", problem=None)
HARVESTED = Harvested(epoch=1, at=NOW, replies=2, failures=0, unanswered=0, strangers=0, doubled=0, nanousd=7)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(LocalFolder(tmp_path), "Acme & Sons")


def test_a_batch_is_its_events_and_another_process_reads_the_same(ledger: Ledger, tmp_path: Path) -> None:
    batch = Batch(ledger.provider, 1)
    ledger.keep(1, LINES)
    for event, phase in (
        (intent(), Phase.IN_DOUBT),
        (intent("again"), Phase.IN_DOUBT),
        (submitted(), Phase.AT_VENDOR),
        (ENDED, Phase.ENDED),
        (HARVESTED, Phase.DONE),
    ):
        ledger.add(batch, event)
        (read,) = Ledger(LocalFolder(tmp_path), ledger.provider).read()
        assert read == batch and read.phase is phase
    assert batch.intent.tag == "again" and batch.batch_id == "b-1" and batch.is_certain and batch.since == NOW
    assert ledger.lines(batch) == LINES
    assert body_hashes(ledger.rows(batch)) == dict.fromkeys(KEYS, "ef" * 32)


def test_an_event_that_another_driver_wrote_ends_this_one(ledger: Ledger) -> None:
    mine, theirs = Batch(ledger.provider, 1), Batch(ledger.provider, 1)
    ledger.add(theirs, intent("theirs", epoch=2))
    with pytest.raises(LeaseLost):
        ledger.add(mine, intent("mine"))
    ledger.add(theirs, submitted())
    mine.events = theirs.events[:1]
    with pytest.raises(LeaseLost):
        ledger.add(mine, intent("mine"))
    assert [e.kind for e in ledger.read()[0].events] == ["intent", "submitted"]


def test_a_batch_adopted_by_its_count_alone_is_not_certain(ledger: Ledger) -> None:
    batch = Batch(ledger.provider, 1)
    ledger.add(batch, intent())
    ledger.add(batch, submitted(certain=False))
    assert not batch.is_certain


def test_a_damaged_event_is_named(ledger: Ledger, tmp_path: Path) -> None:
    batch = Batch(ledger.provider, 1)
    ledger.add(batch, intent())
    (file,) = tmp_path.rglob("*.json")
    file.write_text("{}")
    with pytest.raises(DamagedFile, match=r"001-intent\.json"):
        ledger.read()


def test_the_calls_of_open_batches_are_known_until_they_are_harvested(ledger: Ledger, tmp_path: Path) -> None:
    batch, folder = Batch(ledger.provider, 1), LocalFolder(tmp_path)
    ledger.keep(1, LINES)
    for event in (intent(), submitted(), ENDED):
        ledger.add(batch, event)
        assert keys_under_way(folder, ledger.provider) == set(KEYS)
    ledger.add(batch, HARVESTED)
    assert keys_under_way(folder, ledger.provider) == set()


def test_lines_without_an_intent_are_no_batch(ledger: Ledger) -> None:
    ledger.keep(1, LINES)
    assert ledger.read() == []
