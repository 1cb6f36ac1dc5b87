"""The store's secret: one a store, for its owner alone, whoever comes first."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from stat import S_IMODE
from threading import Barrier

import pytest

from hab_ray.errors import ConfigError
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.secret import SECRET, SECRET_BYTES, fence_secret


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_a_store_gets_one_at_its_first_use_that_only_its_owner_can_read(tmp_path: Path, umask: int) -> None:
    folder = LocalFolder(tmp_path)
    folder.put("replies/m/part-000001.000000.parquet", b"of a version without secrets")
    before = os.umask(umask)
    try:
        secret = fence_secret(folder)
    finally:
        os.umask(before)
    assert len(secret) == SECRET_BYTES and secret == fence_secret(LocalFolder(tmp_path))
    assert S_IMODE((tmp_path / SECRET).stat().st_mode) == 0o600
    assert secret != fence_secret(LocalFolder(tmp_path / "another"))


def test_eight_at_once_get_the_same(tmp_path: Path) -> None:
    start = Barrier(8)

    def first(store: int) -> bytes:
        start.wait()
        return fence_secret(LocalFolder(tmp_path / str(store)))

    with ThreadPoolExecutor(8) as pool:
        for store in range(20):
            assert len(set(pool.map(first, [store] * 8))) == 1
    assert not list(tmp_path.rglob(".aside-*"))


def test_a_damaged_secret_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / SECRET).write_bytes(b"short")
    with pytest.raises(ConfigError, match=rf"{SECRET}: .*5 bytes and not 32; delete it .* no call is paid for again"):
        fence_secret(LocalFolder(tmp_path))
