"""Reads the files of a checkout that an import needs, and finds their published revisions by digest."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import yaml

from hab_ray.errors import ConfigError
from hab_ray.inputs.files import MAX_TEXT_BYTES, bytes_of, refusing
from hab_ray.visible import one_line

CODE = "src/prompts"
THEMES = "adding_entropy.txt"
EVERY = "every revision"
_GUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_NEAR_CANARY = re.compile(r"(?s)canary.{0,200}", re.IGNORECASE)
_LICENCE = re.compile(r"(?i)(licen[cs]e|copying)(\.\w+)?$")
_SKIPPED = frozenset({"node_modules", "site-packages", "venv", "__pycache__"})

Digests = Mapping[str, Mapping[str, Mapping[str, str]]]


@dataclass(frozen=True)
class File:
    """A file of a checkout: its path, its bytes, and its published revisions ("" if the digest is unknown)."""

    path: str
    data: bytes
    revisions: str

    @property
    def source(self) -> str:
        """Path, digest and revisions, for people."""
        return f"{self.path} (sha256 {_digest(self.data)}, {self.revisions or 'of no known revision'})"


@dataclass(frozen=True)
class Checkout:
    """The files that an import needs, by name. The bytes whose digests are checked are the bytes executed."""

    root: Path
    files: Mapping[str, File]
    licence_file: str | None

    @property
    def unknown(self) -> tuple[str, ...]:
        """Paths of files that differ from the published ones."""
        return tuple(file.path for file in self.files.values() if not file.revisions)

    @property
    def mixed(self) -> tuple[str, ...]:
        """Revisions of the code files, if they differ."""
        revisions = {file.revisions for name, file in self.files.items() if name.endswith(".py")} - {"", EVERY}
        return tuple(sorted(revisions)) if len(revisions) > 1 else ()

    @property
    def canaries(self) -> tuple[str, ...]:
        """Sorted GUIDs near the word canary in the files."""
        texts = (file.data.decode("utf-8", "replace") for file in self.files.values())
        return tuple(sorted({guid for text in texts for guid in canaries_in(text)}))


def canaries_in(text: str) -> Iterator[str]:
    """Yield the GUIDs of a text's canaries in lower case."""
    for near in _NEAR_CANARY.finditer(text):
        yield from (guid.lower() for guid in _GUID.findall(near[0]))


def known_digests() -> Digests:
    """Load the digests of the published files: kind (code or data) to file name to digest to revisions."""
    content: Digests = yaml.safe_load(files(__package__).joinpath("digests.yaml").read_text("utf-8"))
    return content


def open_checkout(root: Path, known: Digests) -> Checkout:
    """Read the files that an import needs, without executing any.

    Raises:
        ConfigError: `root` is not a folder, or a file is missing or cannot be read.
    """
    if not root.is_dir():
        raise ConfigError(f"{root}: is not a folder; name a checkout of the benchmark's published code")
    data = _data_folder(root, known["data"][THEMES])
    paths = {name: f"{CODE}/{name}" for name in known["code"]} | {name: f"{data}/{name}" for name in known["data"]}
    digests = {**known["code"], **known["data"]}
    licence = next((name for name in sorted(os.listdir(root)) if _LICENCE.match(name)), None)
    return Checkout(root, {name: _file(root, path, digests[name]) for name, path in paths.items()}, licence)


def _data_folder(root: Path, known: Mapping[str, str]) -> str:
    """Find the folder of seeds and themes, whose name differs between revisions."""
    folders = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in _SKIPPED and not name.startswith(".")]
        if THEMES in names:
            folders.append(Path(folder).relative_to(root).as_posix())
    if len(folders) > 1:
        folders = [folder for folder in folders if _file(root, f"{folder}/{THEMES}", known).revisions] or folders
    if len(folders) != 1:
        raise ConfigError(
            f"{root}: expected one folder with {THEMES} and the seeds; found: "
            f"{one_line(', '.join(sorted(folders))) or 'none'}; name the folder of the whole checkout"
        )
    return folders[0]


def _file(root: Path, path: str, known: Mapping[str, str]) -> File:
    with refusing(root / path):
        data = bytes_of(root / path, MAX_TEXT_BYTES)
    return File(path, data, known.get(_digest(data), ""))


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:16]
