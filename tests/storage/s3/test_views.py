"""Views in a claimed folder: what this process published is what it reads, whatever is read or listed meanwhile."""

from collections.abc import Callable, Iterator
from hashlib import md5, sha256
from pathlib import Path
from typing import cast

import pytest

from hab_ray.storage.s3.cache import DiskCache
from hab_ray.storage.s3.folder import S3Folder
from hab_ray.storage.s3.objects import ObjectEntry, Objects

VIEW = "responses/beta/calm.parquet"


class Bucket:
    """The objects of a bucket. `before_answer` runs after the next read or listing is taken, before it arrives."""

    address = "bucket/"

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.ranges = 0
        self.before_answer: Callable[[], None] | None = None

    def _entry(self, name: str) -> ObjectEntry:
        return ObjectEntry(md5(self.data[name]).hexdigest(), len(self.data[name]))

    def _arrive(self) -> None:
        meanwhile, self.before_answer = self.before_answer, None
        if meanwhile:
            meanwhile()

    def list(self, inside: str) -> Iterator[tuple[str, ObjectEntry]]:
        page = [(name, self._entry(name)) for name in sorted(self.data) if name.startswith(inside)]
        self._arrive()
        yield from page

    def get(self, name: str) -> tuple[bytes, ObjectEntry]:
        answer = self.data[name], self._entry(name)
        self._arrive()
        return answer

    def get_range(self, name: str, start: int, length: int) -> bytes:
        self.ranges += 1
        return self.data[name][start : start + length]

    def put(self, name: str, data: bytes) -> ObjectEntry:
        self.data[name] = data
        return self._entry(name)


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


@pytest.fixture
def folder(bucket: Bucket, tmp_path: Path) -> S3Folder:
    folder = S3Folder(cast("Objects", bucket), DiskCache(tmp_path, 1_000_000))
    folder.claim()
    return folder


def test_a_view_published_during_a_listing(bucket: Bucket, folder: S3Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what depends on it is settled with the rows of before, and the run ends complete without the rest."""
    folder.put(VIEW, b"no rows")
    assert folder.list("responses") == [VIEW] and folder.get(VIEW) == b"no rows"
    monkeypatch.setattr("hab_ray.storage.s3.known.LISTED_FOR_S", -1.0)
    bucket.before_answer = lambda: folder.put(VIEW, b"500 rows")
    assert folder.exists(VIEW) and folder.get(VIEW) == b"500 rows" and folder.size(VIEW) == len(b"500 rows")


def test_a_view_published_while_the_whole_run_is_listed_is_read_as_published(bucket: Bucket, folder: S3Folder) -> None:
    folder.put(VIEW, b"no rows")
    bucket.before_answer = lambda: folder.put(VIEW, b"500 rows")
    assert folder.list() == [VIEW] and folder.get(VIEW) == b"500 rows"


def test_a_view_published_while_it_is_read_is_read_as_published(bucket: Bucket, folder: S3Folder) -> None:
    """Nor is what was read kept under the name of what replaced it."""
    bucket.data[VIEW] = b"no rows"
    assert folder.exists(VIEW)
    bucket.before_answer = lambda: folder.put(VIEW, b"500 rows")
    assert folder.get(VIEW) == b"no rows"
    assert folder.get(VIEW) == b"500 rows"


def test_a_view_that_another_process_wrote_before_a_claim_is_read_anew(bucket: Bucket, folder: S3Folder) -> None:
    folder.put(VIEW, b"no rows")
    bucket.data[VIEW] = b"500 rows"
    folder.claim()
    assert folder.get(VIEW) == b"500 rows"


@pytest.mark.parametrize(("limit", "ranges"), [(0, 2), (15, 2), (20, 0)])
def test_a_range_is_fetched_alone_without_a_cache(limit: int, ranges: int, bucket: Bucket, tmp_path: Path) -> None:
    """Else each range would cost the transfer of the whole object again."""
    data = b"0123456789"
    part = f"replies/m/part-000001.000000.{sha256(data).hexdigest()[:16]}.parquet"
    bucket.data[part] = data
    folder = S3Folder(cast("Objects", bucket), DiskCache(tmp_path, limit))
    assert folder.list("replies") == [part]
    assert [folder.get_range(part, start, 2) for start in (0, 4)] == [b"01", b"45"] and bucket.ranges == ranges


def test_a_folder_that_is_released_shows_what_others_write(bucket: Bucket, folder: S3Folder) -> None:
    """As in a notebook, where a run has ended and another machine goes on with it."""
    folder.put(VIEW, b"no rows")
    assert folder.exists(VIEW) and folder.get(VIEW) == b"no rows"
    folder.release()
    bucket.data |= {VIEW: b"500 rows", "responses/beta/later.parquet": b"1 row"}
    assert folder.list("responses") == [VIEW, "responses/beta/later.parquet"] and folder.get(VIEW) == b"500 rows"
