"""A folder in a bucket: what never changes is fetched once, and a claimed folder is asked for next to nothing."""

import subprocess
import sys
from hashlib import sha256
from typing import Any

import pytest

from hab_ray.storage.s3.requests import Requests
from tests.s3_proxy import S3Proxy
from tests.storage.s3.conftest import anew

DATA = b"0123456789"
PART = f"replies/m/part-000001.000000.{sha256(DATA).hexdigest()[:16]}.parquet"
WAL = "replies/m/wal-000001-w.000001.arrow"


def test_what_is_named_by_its_content_is_fetched_once_by_all_processes(bucket: str, proxy: S3Proxy) -> None:
    anew(bucket).put_new(PART, DATA)
    proxy.seen.clear()
    folder = anew(bucket)
    assert folder.get(PART) == DATA and folder.get_range(PART, 3, 4) == b"3456"
    assert proxy.counts() == {}


def test_what_is_written_once_is_fetched_once_while_its_etag_is_known(bucket: str, proxy: S3Proxy) -> None:
    anew(bucket).put_new(WAL, b"first")
    proxy.seen.clear()
    folder = anew(bucket)
    assert folder.list("replies") == [WAL]
    assert folder.get(WAL) == b"first" and folder.size(WAL) == 5
    assert proxy.counts() == {"LIST": 1}


def test_a_store_that_was_begun_anew_is_not_read_from_copies_of_the_old(bucket: str, proxy: S3Proxy) -> None:
    anew(bucket).put_new(WAL, b"first")
    code = "import sys; from hab_ray.location import Location; from hab_ray.storage.folder import open_folder; "
    code += f"f = open_folder(Location.of(sys.argv[1])); f.delete({WAL!r}); f.put_new({WAL!r}, b'other')"
    subprocess.run([sys.executable, "-c", code, bucket], check=True)
    folder = anew(bucket)
    assert folder.list("replies") == [WAL] and folder.get(WAL) == b"other"
    assert anew(bucket).get(WAL) == b"other"


def test_names_that_change_are_always_asked_for(bucket: str, proxy: S3Proxy) -> None:
    one, other = anew(bucket), anew(bucket)
    for name in ("log/progress.json", "tests/d.parquet", "fence-secret", "budget/000001.json", "lease/000001.json"):
        one.put(name, b"1")
        assert other.get(name) == b"1"
        one.put(name, b"2")
        assert other.get(name) == b"2"


def test_a_claimed_folder_answers_from_one_listing(bucket: str, proxy: S3Proxy) -> None:
    views = [f"verdicts/j/s{n}/d.parquet" for n in range(5)]
    writer = anew(bucket)
    writer.claim()
    for view in views:
        writer.put(f"pending/000001/{view}", view.encode())
        writer.move(f"pending/000001/{view}", view)
    assert proxy.counts() == {"PUT": 5, "COPY": 5, "DELETE": 5}
    proxy.seen.clear()
    folder = anew(bucket)
    folder.claim()
    for view in views:
        assert folder.exists(view) and folder.size(view) == len(view) and folder.get(view) == view.encode()
        assert folder.get_range(view, 0, 8) == b"verdicts"
    folder.clear("pending/000001/000007")
    assert not folder.exists("verdicts/none")
    assert proxy.counts() == {"LIST": 2}


def test_who_claims_again_sees_what_others_wrote_meanwhile(bucket: str, proxy: S3Proxy) -> None:
    folder, other = anew(bucket), anew(bucket)
    folder.claim()
    assert folder.list("replies") == []
    other.put_new(WAL, b"paid by another driver")
    folder.claim()
    assert folder.list("replies") == [WAL]


def test_leases_and_the_ledger_are_listed_anew_even_in_a_claimed_folder(bucket: str, proxy: S3Proxy) -> None:
    folder, other = anew(bucket), anew(bucket)
    folder.claim()
    for name in ("lease/000002.json", "ledger/lab/000001/002-intent.json"):
        assert folder.list(name.partition("/")[0]) == []
        other.put_new(name, b"another's")
        assert folder.list(name.partition("/")[0]) == [name] and folder.exists(name)


def test_pages_are_read_to_the_end(bucket: str, proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three names; S3's have a thousand."""
    folder, names, send = anew(bucket), [f"many/{n}" for n in range(7)], Requests.send
    for name in names:
        folder.put(name, b"")

    def paged(requests: Requests, verb: str, **given: Any) -> Any:
        return send(requests, verb, **given | ({"MaxKeys": 3} if verb == "list_objects_v2" else {}))

    monkeypatch.setattr(Requests, "send", paged)
    proxy.seen.clear()
    assert folder.list("many") == names
    assert proxy.counts() == {"LIST": 3}
