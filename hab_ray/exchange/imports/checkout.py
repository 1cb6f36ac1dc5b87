"""The files of a checkout that are executed or read, each with the revisions that its digest is known of."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import yaml

from hab_ray.errors import ConfigError
from hab_ray.inputs.files import MAX_TEXT_BYTES, BadInput, bytes_of
from hab_ray.visible import one_line

CODE = "src/prompts"
THEMES = "adding_entropy.txt"
EVERY = "every revision"
_GUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_NEAR_CANARY = re.compile(r"(?s)canary.{0,200}", re.IGNORECASE)
_LICENCE = re.compile(r"(?i)(licen[cs]e|copying)(\.\w+)?$")
_LEFT_OUT = frozenset({"node_modules", "site-packages", "venv", "__pycache__"})

Digests = Mapping[str, Mapping[str, Mapping[str, str]]]


@dataclass(frozen=True)
class File:
    """A file as it was read: its path in the checkout, its bytes and its revisions, "" = of none that is known."""

    path: str
    data: bytes
    revisions: str

    @property
    def source(self) -> str:
        """Where it comes from, for people."""
        digest = sha256(self.data).hexdigest()[:16]
        return f"{self.path} (sha256 {digest}, {self.revisions or 'of no known revision'})"


@dataclass(frozen=True)
class Checkout:
    """What an import needs of a checkout, by the names of files; the bytes checked are the bytes executed."""

    root: Path
    files: Mapping[str, File]
    licence_file: str | None

    @property
    def unknown(self) -> tuple[str, ...]:
        """The paths of files that are not the published ones."""
        return tuple(file.path for file in self.files.values() if not file.revisions)

    @property
    def mixed(self) -> tuple[str, ...]:
        """The revisions of its code, where its files are of different ones."""
        of = {file.revisions for name, file in self.files.items() if name.endswith(".py")} - {"", EVERY}
        return tuple(sorted(of)) if len(of) > 1 else ()

    @property
    def canaries(self) -> tuple[str, ...]:
        """The GUIDs near the word canary in the files, sorted."""
        texts = (file.data.decode("utf-8", "replace") for file in self.files.values())
        return tuple(sorted({guid for text in texts for guid in canaries_in(text)}))


def canaries_in(text: str) -> Iterator[str]:
    """The GUIDs of a text's canaries, in lower case."""
    for near in _NEAR_CANARY.finditer(text):
        yield from (guid.lower() for guid in _GUID.findall(near[0]))


def known_digests() -> Digests:
    """The digests of the published files: of code and data, by name, the revisions of each digest."""
    content: Digests = yaml.safe_load(files(__package__).joinpath("digests.yaml").read_text("utf-8"))
    return content


def open_checkout(root: Path, known: Digests) -> Checkout:
    """Read the files that an import needs; nothing is executed.

    Raises:
        ConfigError: there is no such folder, or one of the files is not there or cannot be read.
    """
    if not root.is_dir():
        raise ConfigError(f"{root}: is no folder; name a checkout of the benchmark's published code")
    data = _data_folder(root, known["data"][THEMES])
    paths = {name: f"{CODE}/{name}" for name in known["code"]} | {name: f"{data}/{name}" for name in known["data"]}
    found = {name: _file(root, path, {**known["code"], **known["data"]}[name]) for name, path in paths.items()}
    licence = next((name for name in sorted(os.listdir(root)) if _LICENCE.match(name)), None)
    return Checkout(root, found, licence)


def _data_folder(root: Path, known: Mapping[str, str]) -> str:
    """The folder of seeds and themes: its name is another one in the first revisions."""
    found = []
    for folder, inside, names in os.walk(root):
        inside[:] = [name for name in inside if name not in _LEFT_OUT and not name.startswith(".")]
        if THEMES in names:
            found.append(Path(folder).relative_to(root).as_posix())
    if len(found) > 1:
        found = [each for each in found if _file(root, f"{each}/{THEMES}", known).revisions] or found
    if len(found) != 1:
        raise ConfigError(
            f"{root}: one folder with {THEMES} is expected, beside the seeds; found: "
            f"{one_line(', '.join(sorted(found))) or 'none'}; name the folder of the whole checkout"
        )
    return found[0]


def _file(root: Path, path: str, known: Mapping[str, str]) -> File:
    try:
        data = bytes_of(root / path, MAX_TEXT_BYTES)
    except BadInput as error:
        raise ConfigError(one_line(f"{root / path}: {error}")) from None
    return File(path, data, known.get(sha256(data).hexdigest()[:16], ""))
