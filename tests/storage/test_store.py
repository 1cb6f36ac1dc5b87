"""What was paid for is found again: by key, whole, whoever crashed or tidied up in between."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hab_ray.calls import Failure, Finish, Outcome, Reply, Usage, clean_text
from hab_ray.catalog.prices import Mode
from hab_ray.errors import DamagedFile, FailureKind
from hab_ray.storage.folder import Folder, LocalFolder
from hab_ray.storage.replies import store as stores
from hab_ray.storage.replies.records import RecordKind, read_table
from hab_ray.storage.replies.sidecars import SIDECARS, complete_sidecars
from hab_ray.storage.replies.store import COMPACT_FROM_FILES, Store, StoreWriter
from hab_ray.storage.spending import online_spending
from tests.folders import Dying, Killed, Through
from tests.forking import ON_DISK
from tests.storage.conftest import failure, key_of, reply

MODEL = "openai/gpt-4.1"
COUNT = st.integers(0, 2**62)
TEXT = (
    st.text()
    | st.text(alphabet=st.characters(categories=["Cs"]))
    | st.sampled_from(["", "a\u2028b\r\n\x00", "é" * 5000])
)
REPLIES = st.builds(
    Reply,
    key=st.text("0123456789abcdef", min_size=64, max_size=64),
    finish=st.sampled_from(Finish),
    usage=st.builds(Usage, COUNT, COUNT, COUNT, COUNT, COUNT),
    cost_nanousd=COUNT,
    model_reported=TEXT,
    served_by=TEXT,
    body_sha256=st.text("0123456789abcdef"),
    at=st.datetimes(datetime(1970, 1, 1), datetime(2260, 1, 1), timezones=st.just(UTC)),
    text=TEXT,
    vector=st.binary(max_size=64),
)
FAILURES = st.builds(
    Failure,
    key=st.text("0123456789abcdef", min_size=64, max_size=64),
    kind=st.sampled_from(FailureKind),
    attempts=st.integers(1, 99),
    message=TEXT,
    cost_nanousd=COUNT,
)


def write(folder: Folder, *outcomes: Outcome, epoch: int = 1, writer: str = "w", model: str = MODEL) -> None:
    """One file a shelf, as a lane writes."""
    store_writer = StoreWriter(folder, epoch, writer, Mode.ONLINE)
    for outcome in outcomes:
        store_writer.add(model, outcome)
    store_writer.flush()


def write_files(folder: Folder, replies: Sequence[Reply], writer: str = "w") -> None:
    """One file a reply."""
    store_writer = StoreWriter(folder, 1, writer, Mode.ONLINE)
    for one in replies:
        store_writer.add(MODEL, one)
        store_writer.flush()


def refreshed(folder: Folder, failures_since: int = 0) -> Store:
    store = Store(folder, failures_since)
    store.refresh(MODEL)
    return store


def known(folder: Folder, failures_since: int = 0) -> set[str]:
    return set(Store(folder, failures_since).known([MODEL]))


def by_key(*outcomes: Outcome) -> dict[str, Outcome]:
    return {outcome.key: outcome for outcome in outcomes}


def keys(*names: str) -> list[str]:
    return [key_of(name) for name in names]


def everything(store: Store) -> dict[str, Outcome]:
    return store.read(MODEL, sorted(store.known([MODEL])))


@settings(max_examples=60, deadline=None)
@given(st.lists(REPLIES | FAILURES, unique_by=lambda outcome: outcome.key, max_size=8))
def test_every_field_comes_back_as_it_went_in(outcomes: list[Outcome]) -> None:
    with tempfile.TemporaryDirectory() as path:
        write(LocalFolder(Path(path)), *outcomes)
        found = everything(refreshed(LocalFolder(Path(path))))
    assert found == by_key(*map(cleaned, outcomes))


def cleaned(outcome: Outcome) -> Outcome:
    """Lone surrogates, which UTF-8 has no bytes for, are the one thing that changes."""
    if isinstance(outcome, Failure):
        return replace(outcome, message=clean_text(outcome.message))
    return replace(
        outcome,
        text=clean_text(outcome.text),
        model_reported=clean_text(outcome.model_reported),
        served_by=clean_text(outcome.served_by),
    )


def test_each_kind_has_its_shelf_and_each_model_its_folder(folder: Folder) -> None:
    writer = StoreWriter(folder, 7, "openai-123", Mode.ONLINE)
    writer.add(MODEL, reply("a"))
    writer.add(MODEL, reply("b", vector=b"\0" * 8, text=""))
    writer.add(MODEL, failure("c"))
    writer.add("gpt-4o", reply("d"))
    assert (writer.waiting, folder.list()) == (4, [])
    writer.flush()
    assert writer.waiting == 0
    parents = [name.rpartition("/")[0] for name in folder.list()]
    assert [parent.partition("/")[0] for parent in parents] == ["embeddings", "failures", "replies", "replies"]
    assert "replies/gpt-4o" in parents
    assert len(set(parents)) == 4
    assert all(name.rpartition("/")[2].startswith("wal-000007-openai-123.") for name in folder.list())
    writer.flush()
    assert len(folder.list()) == 4
    assert known(folder) == set(keys("a", "b", "c"))


def test_only_the_keys_asked_for_come_and_unknown_ones_do_not(folder: Folder) -> None:
    write(folder, *(reply(key) for key in "abcdef"))
    store = refreshed(folder)
    assert store.read(MODEL, keys("e", "x", "b", "e")) == by_key(reply("e"), reply("b"))
    assert store.read("another", keys("a")) == {}


def test_where_requests_cost_more_outcomes_share_a_file(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "ON_DISK", ON_DISK)
    pace = StoreWriter(folder, 1, "w", Mode.ONLINE).pace
    assert (pace.every_s, pace.at) == ((1.5, 4096) if folder.is_remote else (1.0, 64))


def test_a_refresh_takes_in_what_came_since(folder: Folder) -> None:
    store = refreshed(folder)
    assert store.read(MODEL, keys("a")) == {}
    write(folder, reply("a"))
    assert store.read(MODEL, keys("a")) == {}
    store.refresh(MODEL)
    assert store.read(MODEL, keys("a")) == by_key(reply("a"))


def test_a_reply_goes_before_a_failure(folder: Folder) -> None:
    write(folder, failure("a"), failure("b"), epoch=1)
    write(folder, reply("a"), reply("v", vector=b"\0" * 4), epoch=2)
    write(folder, failure("a"), failure("v"), epoch=3)
    found = everything(refreshed(folder))
    assert (found[key_of("a")], found[key_of("b")], found[key_of("v")].key) == (reply("a"), failure("b"), key_of("v"))
    assert isinstance(found[key_of("v")], Reply)


def test_failures_of_earlier_epochs_can_be_hidden(folder: Folder) -> None:
    write(folder, failure("old"), reply("paid"), epoch=9)
    write(folder, failure("new"), epoch=10)
    assert known(folder, failures_since=10) == set(keys("new", "paid"))
    assert known(folder, failures_since=9) == set(keys("old", "new", "paid"))
    assert known(folder) == set(keys("old", "new", "paid"))


def test_compaction_makes_one_file_of_many_and_keeps_every_reply(folder: Folder) -> None:
    replies = [reply(f"{n:02d}") for n in range(COMPACT_FROM_FILES)]
    write_files(folder, replies)
    write(folder, failure("f"))
    store = refreshed(folder)
    store.compact(MODEL, 1)
    (part, *_) = folder.list("replies")
    assert [name.rpartition(".")[2] for name in folder.list("replies")] == ["parquet"]
    for reader in (store, refreshed(folder)):
        assert everything(reader) == by_key(*replies, failure("f"))
    more = [reply(f"x{n:02d}", vector=b"\0" * 4 * (n % 2)) for n in range(2 * COMPACT_FROM_FILES)]
    write_files(folder, more, writer="later")
    refreshed(folder).compact(MODEL, 2)
    assert part in folder.list()
    assert [len(folder.list(shelf)) for shelf in ("replies", "embeddings", "failures")] == [2, 1, 1]
    assert everything(refreshed(folder)) == by_key(*replies, *more, failure("f"))


def test_a_compaction_holds_no_more_in_memory_than_a_part(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hab_ray.storage.replies.store.PART_BYTES", 3000)
    replies = [reply(f"{n:02d}", text="x" * 1000) for n in range(20)]
    write_files(folder, replies)
    refreshed(folder).compact(MODEL, 1)
    parts = folder.list("replies")
    assert [name.rpartition("/")[2].split(".")[1] for name in parts] == [f"{n:06d}" for n in range(len(parts))]
    rows = [read_table(name, folder.get(name)).num_rows for name in parts]
    assert sum(rows) == 20 and max(rows) <= 3
    assert everything(refreshed(folder)) == by_key(*replies)


def test_few_files_stay_as_they_are(folder: Folder) -> None:
    write_files(folder, [reply(f"{n}") for n in range(COMPACT_FROM_FILES - 1)])
    before = folder.list()
    refreshed(folder).compact(MODEL, 1)
    assert folder.list() == before


def test_a_store_that_compacts_before_it_ever_looked_reads_all_the_same(folder: Folder) -> None:
    replies = [reply(f"{n:02d}") for n in range(20)]
    write_files(folder, replies)
    store = Store(folder)
    store.compact(MODEL, 1)
    store.refresh(MODEL)
    assert everything(store) == by_key(*replies)


@pytest.mark.parametrize("changes", [0, 1, 2, 3, 7, 21])
def test_a_compaction_that_is_interrupted_loses_nothing_and_counts_nothing_twice(changes: int, tmp_path: Path) -> None:
    """The sidecar is written first, then the part; 20 deletions follow."""
    folder = LocalFolder(tmp_path)
    replies = [reply(f"{n:02d}") for n in range(20)]
    write_files(folder, replies)
    old = refreshed(folder)
    with pytest.raises(Killed):
        refreshed(Dying(folder, changes)).compact(MODEL, 1)
    assert [len(folder.list(SIDECARS)), len(folder.list(RecordKind.REPLIES))] == [
        changes > 0,
        20 + (changes > 1) - max(0, changes - 2),
    ]
    expected, cost = by_key(*replies), sum(one.cost_nanousd for one in replies)
    for _ in range(2):
        assert everything(old) == everything(refreshed(folder)) == expected
        assert online_spending(folder, [1], 0).spent == cost
        complete_sidecars(folder)
    assert len(folder.list(SIDECARS)) == (changes > 1)
    write_files(folder, replies[:3], writer="again")
    refreshed(folder).compact(MODEL, 2)
    assert everything(refreshed(folder)) == expected
    assert online_spending(folder, [1], 0).spent == cost


def test_a_reader_that_looked_before_a_compaction_finds_its_rows_in_the_part(folder: Folder) -> None:
    replies = [reply(f"{n:02d}") for n in range(20)]
    write_files(folder, replies)
    early, late = refreshed(folder), refreshed(folder)
    late.compact(MODEL, 1)
    assert early.read(MODEL, keys("03", "17", "none")) == by_key(reply("03"), reply("17"))
    assert everything(early) == by_key(*replies)


class Overtaken(Through):
    """A folder that another process compacts right after the first listing."""

    overtaken = False

    def list(self, prefix: str = "") -> Sequence[str]:
        names = super().list(prefix)
        if names and not self.overtaken:
            self.overtaken = True
            refreshed(self.inner).compact(MODEL, 1)
        return names


def test_a_refresh_that_is_overtaken_by_a_compaction_misses_nothing(folder: Folder) -> None:
    replies = [reply(f"{n:02d}") for n in range(20)]
    write_files(folder, replies)
    store = refreshed(Overtaken(folder))
    assert everything(store) == by_key(*replies)


def test_spending_is_counted_while_another_process_compacts(folder: Folder) -> None:
    """As in `hab plan`, which holds no lease."""
    replies = [reply(f"{n:02d}") for n in range(20)]
    write_files(folder, replies)
    assert online_spending(Overtaken(folder), [1], 0).spent == sum(one.cost_nanousd for one in replies)


def test_a_file_removed_by_hand_leaves_its_calls_open(folder: Folder) -> None:
    write_files(folder, [reply("a"), reply("b")])
    store = refreshed(folder)
    folder.delete(folder.list()[0])
    assert store.read(MODEL, keys("a", "b")) == by_key(reply("b"))


def test_a_link_to_nowhere_is_an_error_that_names_it(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    write_files(folder, [reply("a")])
    link = (tmp_path / folder.list()[0]).with_name("wal-000001-w.000099.arrow")
    link.symlink_to(tmp_path / "nowhere")
    for read in (lambda: refreshed(folder), lambda: online_spending(folder, {1}, 0)):
        with pytest.raises(DamagedFile, match=rf"{link.name}.*delete it"):
            read()


def test_what_is_written_during_a_compaction_stays(folder: Folder) -> None:
    write_files(folder, [reply(f"{n:02d}") for n in range(10)])
    late = reply("late")

    class Busy(Through):
        def put_new(self, name: str, data: bytes) -> None:
            if name.endswith(".parquet"):
                write(folder, late, writer="another")
            super().put_new(name, data)

    refreshed(Busy(folder)).compact(MODEL, 1)
    assert refreshed(folder).read(MODEL, keys("late", "03")) == by_key(late, reply("03"))


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_a_damaged_file_is_named(ending: str, folder: Folder) -> None:
    """A part is opened when its rows are read, any other file for its keys."""
    write_files(folder, [reply(f"{n:02d}") for n in range(10)])
    if ending == "parquet":
        refreshed(folder).compact(MODEL, 1)
    name = folder.list(RecordKind.REPLIES)[-1]
    whole = folder.get(name)
    swapped = b"\xff" * 4 + whole[4:-8] + whole[:8]
    cuts = [*range(0, len(whole), 970 if folder.is_remote else 97), len(whole) - 8, len(whole) - 1]
    for damaged in [*(whole[:cut] for cut in cuts), swapped]:
        folder.put(name, damaged)
        with pytest.raises(DamagedFile, match=f"the store's {name}: .*Copy it again .* paid for again"):
            refreshed(folder).read(MODEL, keys("09"))


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), OSError(13, "Permission denied")], ids=str)
def test_a_part_that_this_process_cannot_open_is_not_called_damaged(error: OSError, folder: Folder) -> None:
    """The message for a damaged file says to delete it, and its replies are paid for."""
    write_files(folder, [reply(f"{n:02d}") for n in range(10)])
    refreshed(folder).compact(MODEL, 1)

    class Exhausted(Through):
        def get_range(self, name: str, start: int, length: int) -> bytes:
            raise error

    with pytest.raises(OSError, match=error.strerror):
        refreshed(Exhausted(folder)).read(MODEL, keys("09"))


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_too_little_memory_is_no_damaged_file(ending: str, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's error of memory is one of its exceptions, and its remedy is not to delete paid replies."""
    write_files(folder, [reply(f"{n:02d}") for n in range(10)])
    if ending == "parquet":
        refreshed(folder).compact(MODEL, 1)

    def exhausted(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 640 failed")

    monkeypatch.setattr(pq, "ParquetFile", exhausted)
    monkeypatch.setattr(pa.ipc, "open_stream", exhausted)
    with pytest.raises(MemoryError, match="malloc of size 640 failed"):
        refreshed(folder).read(MODEL, keys("09"))


def test_too_little_memory_for_an_answer_is_no_failed_row(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 640 failed")

    monkeypatch.setattr(stores, "table_of", exhausted)
    with pytest.raises(MemoryError):
        write(folder, reply("09"))
    assert folder.list() == []


def test_bytes_that_would_lead_arrow_out_of_bounds_are_damage_too(folder: Folder) -> None:
    """Reading such a file without a check ended the process with a segmentation fault."""
    write(folder, *(reply(f"{n:02d}") for n in range(10)))
    name = folder.list()[0]
    whole = folder.get(name)
    key_offsets = b"".join((64 * n).to_bytes(4, "little") for n in range(11))
    assert key_offsets in whole
    folder.put(name, whole.replace(key_offsets, key_offsets[:-4] + b"\xff\xff\xff\x7f", 1))
    with pytest.raises(DamagedFile, match=name):
        refreshed(folder)
