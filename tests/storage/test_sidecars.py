"""What is known of the store without opening its parts."""

import pytest

from hab_ray.calls import Reply
from hab_ray.catalog.prices import Mode
from hab_ray.location import Location
from hab_ray.storage.folder import Folder, open_folder
from hab_ray.storage.replies.parts import part_metadata
from hab_ray.storage.replies.records import RecordKind, table_of, to_parquet
from hab_ray.storage.replies.sidecars import SIDECARS, complete_sidecars, sidecar_name
from hab_ray.storage.replies.store import Store, StoreWriter
from hab_ray.storage.spending import online_spending
from tests.folders import CountingFolder, Through
from tests.storage.conftest import failure, key_of, reply

MODEL, OTHER = "openai/gpt-4.1", "other"


@pytest.fixture
def folder(place: Location) -> CountingFolder:
    return CountingFolder(open_folder(place))


def fill(folder: Folder, replies: list[Reply], epoch: int = 1, model: str = MODEL, mode: Mode = Mode.ONLINE) -> None:
    """A file for every ten replies, compacted."""
    writer = StoreWriter(folder, epoch, "w", mode)
    for number, one in enumerate(replies, 1):
        writer.add(model, one)
        if number % 10 == 0:
            writer.flush()
    writer.flush()
    Store(folder).compact(model, epoch)


def old_part(folder: Folder, replies: list[Reply], epoch: int = 1) -> str:
    """A part as version 1 wrote it: no digest in its name, no sidecar, and without modes as version 0 did."""
    name = f"replies/gpt/part-{epoch:06d}.000000.parquet"
    folder.put_new(name, to_parquet(table_of(RecordKind.REPLIES, replies, epoch, Mode.ONLINE).drop_columns(["mode"])))
    return name


def test_keys_and_sums_come_from_sidecars_and_rows_from_parts(folder: CountingFolder) -> None:
    replies = [reply(f"{n}", cost_nanousd=n) for n in range(100)]
    fill(folder, replies)
    folder.fetched.clear()
    known = Store(folder).known([MODEL])
    assert all(one.key in known for one in replies) and key_of("none") not in known
    assert online_spending(folder, [1], 0).spent == sum(range(100))
    assert not folder.parts() and folder.fetched
    store = Store(folder)
    store.refresh(MODEL)
    assert store.read(MODEL, [key_of("7")]) == {key_of("7"): replies[7]}
    assert len(folder.parts()) == 1


def test_spending_is_by_epoch_and_leaves_batches_out(folder: CountingFolder) -> None:
    fill(folder, [reply(f"a{n}", cost_nanousd=10) for n in range(100)], epoch=1)
    fill(folder, [reply(f"b{n}", cost_nanousd=2**61) for n in range(100)], epoch=2, model=OTHER)
    fill(folder, [reply(f"c{n}") for n in range(100)], epoch=2, mode=Mode.BATCH)
    writer = StoreWriter(folder, 3, "w", Mode.ONLINE)
    writer.add(MODEL, failure("f"))
    writer.flush()
    assert online_spending(folder, [1], 0).spent == 1000
    assert online_spending(folder, [2], 0).spent == 100 * 2**61
    assert online_spending(folder, [1, 3], 0).spent == 1007
    assert online_spending(folder, [], 0).spent == 0


def test_a_call_that_two_epochs_paid_for_counts_in_both(folder: CountingFolder) -> None:
    for epoch in (1, 2):
        fill(folder, [reply(f"{n}", cost_nanousd=3) for n in range(100)], epoch=epoch)
    assert online_spending(folder, [1, 2], 0).spent == 600


def test_a_part_of_an_older_version_gets_its_sidecar_from_the_holder(folder: CountingFolder) -> None:
    replies = [reply(f"{n}") for n in range(50)]
    name = old_part(folder, replies)
    assert online_spending(folder, [1], 0).spent == 50 * replies[0].cost_nanousd
    assert len(set(Store(folder).known(["gpt"]))) == 50
    complete_sidecars(folder)
    assert folder.list(SIDECARS) == [sidecar_name(name)]
    folder.fetched.clear()
    assert online_spending(folder, [1], 0).spent == 50 * replies[0].cost_nanousd
    assert len(set(Store(folder).known(["gpt"]))) == 50
    complete_sidecars(folder)
    assert not folder.parts()


def test_a_sidecar_without_its_part_says_nothing_and_is_removed(folder: CountingFolder) -> None:
    fill(folder, [reply(f"{n}") for n in range(100)])
    (part,) = folder.list("replies")
    folder.delete(part)
    assert not set(Store(folder).known([MODEL])) and online_spending(folder, [1], 0).spent == 0
    complete_sidecars(folder)
    assert folder.list() == []


@pytest.mark.parametrize("damaged", [b"", b"\xff" * 200])
def test_a_damaged_sidecar_is_as_none(damaged: bytes, folder: CountingFolder) -> None:
    replies = [reply(f"{n}") for n in range(100)]
    fill(folder, replies)
    folder.put(folder.list(SIDECARS)[0], damaged)
    assert set(Store(folder).known([MODEL])) == {one.key for one in replies}
    assert online_spending(folder, [1], 0).spent == sum(one.cost_nanousd for one in replies)


def test_interleaved_shards_fetch_each_part_once(folder: CountingFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """24 shards of one model, whose replies came in turn: each shard's rows lie in every row group."""
    monkeypatch.setattr("hab_ray.storage.replies.store.PART_BYTES", 1 << 17)
    monkeypatch.setattr("hab_ray.storage.replies.parts.GROUP_BYTES", 1 << 14)
    replies = [reply(f"{n}", text=f"{n} " * 100) for n in range(24 * 40)]
    fill(folder, replies)
    folder.fetched.clear()
    store = Store(folder)
    for shard in range(24):
        store.refresh(MODEL)
        own = replies[shard::24]
        assert store.read(MODEL, [one.key for one in own]) == {one.key: one for one in own}
    parts = folder.parts()
    assert len(parts) == len(folder.list("replies")) >= 3
    assert part_metadata(folder, next(iter(parts))).num_row_groups >= 4
    assert max(parts.values()) <= 3  # its end, of which pyarrow may need two reads, and all row groups at once
    assert max(folder.fetched.values()) <= 3


def test_rows_of_one_shard_fetch_only_its_row_groups(folder: CountingFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hab_ray.storage.replies.parts.GROUP_BYTES", 1 << 16)
    replies = [reply(f"{n}", text="".join(key_of(f"{n}.{i}") for i in range(20))) for n in range(1000)]
    fill(folder, replies)
    (part,) = folder.list("replies")
    sizes: list[int] = []

    class Measured(Through):
        def get_range(self, name: str, start: int, length: int) -> bytes:
            sizes.append(length)
            return super().get_range(name, start, length)

    store = Store(Measured(folder))
    store.refresh(MODEL)
    assert len(store.read(MODEL, [one.key for one in replies[:10]])) == 10
    assert sum(sizes) < folder.size(part) // 3


def test_what_is_kept_is_bounded_and_read_first(folder: CountingFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only half of the files can be kept, each further shard fetches the other half alone."""
    replies = [reply(f"{n}", text="x" * 2000) for n in range(70)]
    writer = StoreWriter(folder, 1, "w", Mode.ONLINE)
    for number, one in enumerate(replies, 1):
        writer.add(MODEL, one)
        if number % 10 == 0:
            writer.flush()
    monkeypatch.setattr("hab_ray.storage.replies.parts.KEPT_BYTES", 100_000)
    store = Store(folder)
    store.refresh(MODEL)
    folder.fetched.clear()
    for shard in range(10):
        own = replies[shard::10]
        assert store.read(MODEL, [one.key for one in own]) == {one.key: one for one in own}
    assert 7 < folder.fetched.total() < 0.6 * 70
