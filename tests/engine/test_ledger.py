"""The ledger: events are ordered and written once, and the rows of a batch are read back."""

from dataclasses import replace
from pathlib import Path

import pytest

from hab_ray.calls import Failure
from hab_ray.catalog.models import folder_name
from hab_ray.catalog.prices import Mode
from hab_ray.engine.books import batches_of, retried_since
from hab_ray.engine.ledger import Batch, Ledger, Phase, body_hashes, keys_in_flight
from hab_ray.errors import DamagedFile, FailureKind, LeaseLost
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.storage.replies.store import StoreWriter
from tests.engine.batch.fakes import ENDED, HARVESTED, KEYS, LINES, START, intent, submitted, written
from tests.folders import CountingFolder
from tests.storage.conftest import reply

WHOLE = (intent(), submitted(), ENDED, HARVESTED)
WORTH_KEEPING = 5


@pytest.fixture
def folder(place: Location, monkeypatch: pytest.MonkeyPatch) -> CountingFolder:
    monkeypatch.setattr("hab_ray.engine.ledger.WORTH_KEEPING", WORTH_KEEPING)
    return CountingFolder(open_folder(place))


@pytest.fixture
def ledger(folder: CountingFolder) -> Ledger:
    return Ledger(folder, "Acme & Sons")


def test_a_batch_is_its_events_and_another_process_reads_the_same(ledger: Ledger, place: Location) -> None:
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
        (read,) = Ledger(open_folder(place), ledger.provider).read()
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


def test_a_damaged_event_is_named(ledger: Ledger, folder: CountingFolder) -> None:
    ledger.add(Batch(ledger.provider, 1), intent())
    (name,) = folder.list()
    folder.put(name, b"{}")
    with pytest.raises(DamagedFile, match=r"001-intent\.json"):
        ledger.read()


@pytest.mark.parametrize("file", [LINES.rows_file, LINES.requests_file])
@pytest.mark.parametrize("cut", [0, 1, 7], ids=["changed", "shorter", "much shorter"])
def test_damaged_rows_or_lines_of_a_batch_are_named_until_restored(
    ledger: Ledger,
    folder: CountingFolder,
    file: str,
    cut: int,
    place: Location,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the results of rows that are lacking would be skipped, deleted at the vendor and paid for again."""
    ledger.keep(1, LINES)
    batch = ledger.add(Batch(ledger.provider, 1), intent())
    name = f"{ledger.folder_of(1)}/{file}"
    whole = folder.get(name)
    folder.put(name, whole[:-cut] if cut else whole[:-1] + bytes([whole[-1] ^ 1]))
    for _ in range(2):  # the second time from this node's copy, if it has one
        with pytest.raises(DamagedFile, match=rf"{file}: .*from a backup, or delete the folder {ledger.folder_of(1)}:"):
            ledger.lines(batch)
    monkeypatch.setenv("HAB_CACHE", str(tmp_path / "of another node"))
    open_folder(place).put(name, whole)
    assert ledger.lines(batch) == LINES


def test_missing_lines_of_a_batch_are_named(ledger: Ledger, folder: CountingFolder) -> None:
    ledger.keep(1, LINES)
    batch = ledger.add(Batch(ledger.provider, 1), intent())
    folder.delete(f"{ledger.folder_of(1)}/{LINES.requests_file}")
    with pytest.raises(DamagedFile, match=rf"{LINES.requests_file}: is missing; restore it from a backup"):
        ledger.lines(batch)


def test_the_calls_of_open_batches_are_known_until_they_are_harvested(ledger: Ledger, folder: CountingFolder) -> None:
    batch = Batch(ledger.provider, 1)
    ledger.keep(1, LINES)
    for event in (intent(), submitted(), ENDED):
        batch = ledger.add(batch, event)
        assert keys_in_flight(folder, ledger.provider) == set(KEYS)
    ledger.add(batch, HARVESTED)
    assert keys_in_flight(folder, ledger.provider) == set()


@pytest.mark.parametrize(("failed_in", "since"), [([], 0), ([1], 2), ([2], 0), ([1, 2], 0)])
def test_a_batch_that_sent_failed_calls_again_outdates_failures_and_replies_are_not_read_for_that(
    ledger: Ledger, folder: CountingFolder, failed_in: list[int], since: int
) -> None:
    """A large store has millions of replies, and a run may have hundreds of open batches."""
    for epoch in (1, 2):
        writer = StoreWriter(folder, epoch, "w", Mode.ONLINE)
        writer.add("m", reply("another call"))
        if epoch in failed_in:
            writer.add("m", Failure(KEYS[0], FailureKind.SERVER, attempts=1, message="overloaded"))
        writer.flush()
    batch = written(ledger, 1, intent(epoch=2), submitted())
    folder.fetched.clear()
    assert retried_since(folder, [batch]) == since
    assert not [name for name in folder.fetched if name.startswith("replies/")]


def test_lines_without_an_intent_are_no_batch(ledger: Ledger) -> None:
    ledger.keep(1, LINES)
    assert ledger.read() == []


def test_finished_batches_are_read_from_one_file(ledger: Ledger, folder: CountingFolder) -> None:
    for number in range(1, WORTH_KEEPING + 2):
        written(ledger, number, *WHOLE[: 3 if number == 5 else 4])
    whole = ledger.read()
    ledger.keep_closed()
    folder.fetched.clear()
    assert Ledger(folder, ledger.provider).read() == whole
    assert [replace(batch, provider=ledger.provider) for batch in batches_of(folder, {1})] == whole
    assert len([name for name in folder.fetched if name.startswith("ledger")]) == 3
    ledger.add(whole[4], HARVESTED)
    assert Ledger(folder, ledger.provider).read()[4].phase is Phase.DONE


def test_what_was_kept_of_finished_batches_gives_way_to_the_ledger(folder: CountingFolder) -> None:
    """The user followed the remedy for a damaged event: deleted it and the later ones."""
    ledger = Ledger(folder, "lab")
    for number in range(1, WORTH_KEEPING + 1):
        written(ledger, number, *WHOLE)
    ledger.keep_closed()
    whole = ledger.read()
    folder.delete("ledger/lab/000002/004-harvested.json")
    assert ledger.read()[1].phase is Phase.ENDED
    folder.put("closed/lab.zst", b"damaged")
    assert ledger.read()[0] == whole[0]
    folder.clear("ledger")
    assert ledger.read() == []


@pytest.mark.parametrize("stray", ["notes/001-intent.json", "notes.json", "\u00b2/001-intent.json"])
def test_a_file_that_is_no_batchs_is_named(ledger: Ledger, folder: CountingFolder, stray: str) -> None:
    folder.put(f"ledger/{folder_name(ledger.provider)}/{stray}", b"{}")
    with pytest.raises(DamagedFile, match=rf"{stray}: is not an event of a batch; move it out"):
        ledger.read()
