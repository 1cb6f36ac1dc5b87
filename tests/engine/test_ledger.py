"""The ledger: events in order, written once, and what a batch's rows are read back as."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hab_ray.engine.ledger import (
    Batch,
    Ledger,
    Phase,
    body_hashes,
    keys_under_way,
)
from hab_ray.errors import DamagedFile, LeaseLost
from hab_ray.storage.folder import LocalFolder
from tests.engine.batch.fakes import ENDED, HARVESTED, KEYS, LINES, START, intent, submitted


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
        batch = ledger.add(batch, event)
        (read,) = Ledger(LocalFolder(tmp_path), ledger.provider).read()
        assert read == batch and read.phase is phase
    assert batch.intent.tag == "again" and batch.batch_id == "b-1" and batch.is_certain and batch.since == START
    assert ledger.lines(batch) == LINES
    assert body_hashes(ledger.rows(batch)) == dict.fromkeys(KEYS, "ef" * 32)


def test_an_event_that_another_driver_wrote_ends_this_one(ledger: Ledger) -> None:
    mine, theirs = Batch(ledger.provider, 1), Batch(ledger.provider, 1)
    theirs = ledger.add(theirs, intent("theirs", epoch=2))
    with pytest.raises(LeaseLost):
        ledger.add(mine, intent("mine"))
    ledger.add(theirs, submitted())
    behind = replace(mine, events=theirs.events[:1])
    with pytest.raises(LeaseLost):
        ledger.add(behind, intent("mine"))
    assert [e.kind for e in ledger.read()[0].events] == ["intent", "submitted"]


def test_a_batch_adopted_by_its_count_alone_is_not_certain(ledger: Ledger) -> None:
    batch = Batch(ledger.provider, 1)
    batch = ledger.add(ledger.add(batch, intent()), submitted(certain=False))
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
        batch = ledger.add(batch, event)
        assert keys_under_way(folder, ledger.provider) == set(KEYS)
    ledger.add(batch, HARVESTED)
    assert keys_under_way(folder, ledger.provider) == set()


def test_lines_without_an_intent_are_no_batch(ledger: Ledger) -> None:
    ledger.keep(1, LINES)
    assert ledger.read() == []
