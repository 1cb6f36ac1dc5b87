"""The primitives: whole files or none, and exactly one winner, whoever crashes."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest

from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.storage.folder import Folder, LocalFolder, open_folder
from tests.storage.conftest import full


@pytest.fixture
def disk(tmp_path: Path) -> LocalFolder:
    return LocalFolder(tmp_path / "store")


def test_what_is_put_is_listed_got_and_deleted(folder: Folder) -> None:
    assert folder.list() == []
    folder.put("b/2.json", b"two")
    folder.put("b/1.json", b"one")
    folder.put("bb/c/3.json", b"")
    assert folder.list() == ["b/1.json", "b/2.json", "bb/c/3.json"]
    assert folder.list("b") == ["b/1.json", "b/2.json"]
    assert folder.list("nothing/here") == []
    assert (folder.get("b/2.json"), folder.get("bb/c/3.json")) == (b"two", b"")
    folder.put("b/2.json", b"other")
    assert folder.get("b/2.json") == b"other"
    folder.delete("b/2.json")
    folder.delete("b/2.json")
    assert folder.list("b") == ["b/1.json"]
    with pytest.raises(FileNotFoundError):
        folder.get("b/2.json")


def test_what_is_there_can_be_measured_and_read_by_ranges(folder: Folder) -> None:
    folder.put("a/b", b"0123456789")
    assert (folder.exists("a/b"), folder.exists("a"), folder.exists("a/c")) == (True, False, False)
    assert folder.size("a/b") == 10
    ranges = [(0, 10), (3, 4), (8, 9), (10, 5), (2, 0)]
    assert [folder.get_range("a/b", *each) for each in ranges] == [b"0123456789", b"3456", b"89", b"", b""]
    with pytest.raises(FileNotFoundError):
        folder.size("a/c")
    with pytest.raises(FileNotFoundError):
        folder.get_range("a/c", 0, 1)


def test_an_address_that_is_no_place_for_runs_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"gs://bucket/hab: .*give a folder on this machine or s3://bucket/prefix"):
        open_folder(Location.of("gs://bucket/hab"))


def test_what_is_moved_replaces_whole_and_what_is_cleared_is_gone(folder: Folder) -> None:
    folder.put("pending/1/view.parquet", b"new")
    folder.put("view.parquet", b"old")
    folder.move("pending/1/view.parquet", "view.parquet")
    assert folder.list() == ["view.parquet"] and folder.get("view.parquet") == b"new"
    with pytest.raises(FileNotFoundError):
        folder.move("pending/1/view.parquet", "view.parquet")
    for n in range(3):
        folder.put(f"pending/{n}/x", b"")
    folder.clear("pending/1")
    folder.clear("pending/none")
    assert folder.list() == ["pending/0/x", "pending/2/x", "view.parquet"]
    folder.clear("pending")
    assert folder.list() == ["view.parquet"]


def test_what_the_claimant_does_is_seen_at_once(folder: Folder) -> None:
    folder.put("views/1.parquet", b"one")
    folder.put("log/x.json", b"1")
    folder.claim()
    assert folder.list("views") == ["views/1.parquet"] and folder.exists("log/x.json")
    folder.put_new("views/2.parquet", b"two")
    folder.put("views/1.parquet", b"other")
    assert (folder.get("views/1.parquet"), folder.size("views/1.parquet")) == (b"other", 5)
    assert folder.get_range("views/2.parquet", 1, 9) == b"wo"
    folder.move("views/2.parquet", "views/1.parquet")
    assert folder.list("views") == ["views/1.parquet"] and folder.get("views/1.parquet") == b"two"
    folder.delete("views/1.parquet")
    assert folder.list("views") == [] and not folder.exists("views/1.parquet")
    with pytest.raises(FileNotFoundError):
        folder.get("views/1.parquet")


def test_put_new_fails_where_the_name_exists_and_leaves_it_as_it_is(folder: Folder) -> None:
    folder.put_new("lease/1.json", b"first")
    with pytest.raises(FileExistsError):
        folder.put_new("lease/1.json", b"second")
    assert folder.get("lease/1.json") == b"first"
    assert folder.list() == ["lease/1.json"]


def test_of_many_writers_of_a_new_name_exactly_one_wins(folder: Folder) -> None:
    """SeaweedFS lets losers wait for a second each: few rounds there."""
    threads, rounds = (4, 5) if folder.is_remote else (8, 25)
    start = Barrier(threads)

    def write(number: int) -> list[int]:
        won = []
        for round_ in range(rounds):
            start.wait()
            try:
                folder.put_new(f"events/{round_}", b"%d" % number * 5000)
                won.append(round_)
            except FileExistsError:
                pass
        return won

    with ThreadPoolExecutor(threads) as pool:
        won = list(pool.map(write, range(threads)))
    assert sorted(round_ for own in won for round_ in own) == list(range(rounds))
    for number, own in enumerate(won):
        for round_ in own:
            assert folder.get(f"events/{round_}") == b"%d" % number * 5000


def test_a_reader_never_sees_a_part_of_a_replaced_file(folder: Folder) -> None:
    contents = {bytes([letter]) * (200_000 + letter) for letter in b"abc"}
    folder.put("view", next(iter(contents)))
    done, odd = Event(), []

    def read() -> None:
        while not done.is_set():
            found = folder.get("view")
            if found not in contents:
                odd.append(len(found))

    reader = Thread(target=read)
    reader.start()
    try:
        for _ in range(20):
            for content in contents:
                folder.put("view", content)
    finally:
        done.set()
        reader.join()
    assert odd == []
    assert folder.list() == ["view"]


CRASH = """
import os, sys
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
os.fsync = lambda handle: os._exit(9)
getattr(open_folder(Location(sys.argv[1])), sys.argv[2])("a/name", b"half")
"""


@pytest.mark.parametrize("verb", ["put", "put_new"])
def test_what_a_crashed_writer_left_aside_is_not_listed(verb: str, disk: LocalFolder) -> None:
    done = subprocess.run([sys.executable, "-c", CRASH, str(disk.root), verb], check=False)
    assert done.returncode == 9
    assert len(list((disk.root / "a").iterdir())) == 1
    assert disk.list() == []
    disk.put_new("a/name", b"whole")
    assert disk.list() == ["a/name"]


WRITE_ON = """
import itertools, os, sys
from hashlib import sha256
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
folder = open_folder(Location(sys.argv[1]))
for number in itertools.count():
    body = os.urandom(30_000)
    name = f"{number % 7}/{number}"
    (folder.put_new if number % 2 else folder.put)(name, sha256(body).digest() + body)
    folder.put("latest", sha256(body).digest() + body)
    print(name, flush=True)
"""


def test_a_process_killed_while_it_writes_leaves_whole_files_only(place: Location) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITE_ON, str(place)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        told = [writer.stdout.readline().strip() for _ in range(12)]
        writer.kill()
    folder = open_folder(place)
    names = folder.list()
    assert {*told, "latest"} <= set(names)
    for name in names:
        data = folder.get(name)
        assert sha256(data[32:]).digest() == data[:32]


def test_a_folder_is_opened_by_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = open_folder(Location("store"))
    folder.put("x", b"1")
    monkeypatch.chdir("/")
    assert folder.get("x") == b"1"


def test_a_failed_write_leaves_nothing_behind(disk: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.put("name", b"old")
    monkeypatch.setattr("os.fsync", full)
    for write in (disk.put, disk.put_new):
        with pytest.raises(OSError, match="No space left"):
            write("name", b"new")
    assert disk.get("name") == b"old"
    assert [path.name for path in disk.root.iterdir()] == ["name"]
