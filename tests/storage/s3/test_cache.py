"""Copies on a node's disk: whole or none, bounded, and of no consequence when they fail."""

import os
import subprocess
import sys
import tracemalloc
from hashlib import sha256
from pathlib import Path

import pytest

from hab_ray.errors import ConfigError
from hab_ray.storage.s3.cache import DiskCache, node_cache
from hab_ray.storage.s3.known import Copies, Listings
from hab_ray.storage.s3.objects import ObjectEntry
from tests.storage.conftest import full

LIMIT = 1_000_000


def test_what_is_put_is_got_whole_and_by_ranges_by_every_process(tmp_path: Path) -> None:
    DiskCache(tmp_path / "c", LIMIT).put("a/b", b"0123456789")
    cache = DiskCache(tmp_path / "c", LIMIT)
    assert cache.get("a/b") == b"0123456789" and cache.get("a") is None
    assert [cache.get_range("a/b", *each) for each in [(0, 3), (8, 9), (12, 3)]] == [b"012", b"89", b""]
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", [b"", b"x" * 16, b"y" * 40])
def test_a_damaged_copy_is_none_and_goes(damage: bytes, tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, LIMIT)
    cache.put("a", b"content")
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage)
    assert cache.get("a") is None and not list(tmp_path.iterdir())
    cache.put("a", b"content")
    assert cache.get("a") == b"content"


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, LIMIT)
    for n in range(30):
        cache.put(f"{n}", bytes(100_000))
        os.utime(max(tmp_path.iterdir(), key=lambda file: file.stat().st_mtime_ns), (n, n))
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 1.1 * LIMIT
    assert cache.get("29") and cache.get("0") is None
    assert cache.get("22") is not None
    for n in range(30, 36):
        cache.put(f"{n}", bytes(100_000))
    assert cache.get("22") is not None and cache.get("23") is None


def test_a_full_or_forbidden_disk_costs_the_copy_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    DiskCache(tmp_path / "file" / "c", LIMIT).put("a", b"1")
    DiskCache(tmp_path / "none", 0).put("a", b"1")
    DiskCache(tmp_path / "small", 10).put("a", b"larger than half of it")
    assert not (tmp_path / "none").exists() and not (tmp_path / "small").exists()

    cache = DiskCache(tmp_path / "c", LIMIT)
    monkeypatch.setattr(Path, "replace", full)
    cache.put("a", b"1")
    assert cache.get("a") is None and not list((tmp_path / "c").iterdir())


KILLED = """
import itertools, os, sys
from pathlib import Path
from hab_ray.storage.s3.cache import DiskCache
cache = DiskCache(Path(sys.argv[1]), 50_000_000)
for n in itertools.count():
    cache.put(str(n % 5), bytes([n % 251]) * 2_000_000)
    print(n, flush=True)
"""


def test_a_process_killed_while_it_keeps_leaves_whole_copies_only(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        for _ in range(12):
            writer.stdout.readline()
        writer.kill()
    cache = DiskCache(tmp_path, 50_000_000)
    for n in range(5):
        data = cache.get(str(n))
        assert data is not None and len(data) == 2_000_000 and len(set(data)) == 1


def test_the_environment_says_where_and_how_much(tmp_path: Path) -> None:
    node_cache({"HAB_CACHE": str(tmp_path), "HAB_CACHE_GB": "0.001"}).put("a", b"1")
    assert [file.parent.name for file in tmp_path.rglob("*") if file.is_file()] == ["s3"]
    node_cache({"HAB_CACHE": str(tmp_path / "off"), "HAB_CACHE_GB": "0"}).put("a", b"1")
    assert not (tmp_path / "off").exists()


@pytest.mark.parametrize(("outer", "inner"), [(0o777, 0o700), (0o700, 0o777), (0o700, 0o770), (0o1777, 0o722)])
def test_a_cache_that_others_can_write_is_refused(outer: int, inner: int, tmp_path: Path) -> None:
    """What is read from it is taken for replies that were paid for."""
    cache = tmp_path / "shared/cache"
    cache.mkdir(parents=True)
    cache.chmod(inner)
    cache.parent.chmod(outer)
    with pytest.raises(ConfigError, match="HAB_CACHE"):
        node_cache({"HAB_CACHE": str(cache)})
    node_cache({"HAB_CACHE": str(cache), "HAB_CACHE_GB": "0"})
    cache.chmod(0o700)
    cache.parent.chmod(0o1777)
    node_cache({"HAB_CACHE": str(cache)}).put("a", b"1")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_a_cache_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    os.chown(tmp_path / "cache", 65534, 65534)
    with pytest.raises(ConfigError, match=r"another user .*HAB_CACHE"):
        node_cache({"HAB_CACHE": str(tmp_path / "cache")})


def test_a_copy_of_a_part_is_what_its_name_says(tmp_path: Path) -> None:
    """Somebody who can write the cache can write its checksums, too."""
    data = b"rows that were paid for"
    name = f"replies/m/part-000001.000000.{sha256(data).hexdigest()[:16]}.parquet"
    cache, entry = DiskCache(tmp_path, LIMIT), ObjectEntry("etag", len(data))
    copies = Copies(cache, "bucket/", lambda _: False)
    copies.keep(name, entry, data)
    assert copies.get(name) == data
    cache.put(f"bucket/{name}", b"rows that somebody made up")
    again = Copies(DiskCache(tmp_path, LIMIT), "bucket/", lambda _: False)
    assert again.get_range(name, 0, 4) is None and again.get(name) is None
    again.keep(name, entry, data)
    assert again.get_range(name, 0, 4) == b"rows" and again.get(name) == data


def test_a_lookup_does_not_copy_a_listing(tmp_path: Path) -> None:
    copies = Copies(DiskCache(tmp_path, LIMIT), "bucket/", lambda _: False)
    many = ((f"replies/{n}", ObjectEntry("etag", n)) for n in range(20_000))
    listings = Listings(lambda _: many, copies.note)
    assert listings.find("replies/7") == ObjectEntry("etag", 7)
    tracemalloc.start()
    try:
        assert listings.find("replies/8") and listings.find("replies/none") is None
        assert tracemalloc.get_traced_memory()[1] < 50_000
    finally:
        tracemalloc.stop()
