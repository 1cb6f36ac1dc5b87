"""Reads the files of a checkout: Python, tables of seeds, the list of themes, canaries, the licence. Executes none."""

from __future__ import annotations

import ast
import io
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.scopes import CodeError, Module, Sources
from hab_ray.inputs.files import BadInput, text_of
from hab_ray.visible import one_line

MOST_FILES = 5_000
_LEFT_OUT = frozenset({"node_modules", "site-packages", "venv", "__pycache__"})
_READ = (".py", ".csv", ".txt", ".md")
_GUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_NEAR_CANARY = re.compile(r"(?s)canary.{0,200}", re.IGNORECASE)
_MENTIONS_DEDUCTIONS = re.compile("deduction|penalt", re.IGNORECASE)
_LICENCE = re.compile(r"(?i)(licen[cs]e|copying)(\.\w+)?$")


@dataclass(frozen=True)
class Checkout:
    """The files of a folder that an import may need, by their paths within it, sorted."""

    root: Path
    files: tuple[str, ...]

    @cached_property
    def sources(self) -> Sources:
        """The Python files.

        Raises:
            CodeError: one that speaks of deductions cannot be parsed; others that cannot are left out.
        """
        modules = tuple(module for name in self.named(".py") if (module := self._module(name)) is not None)
        return Sources(modules, {module.dotted: module for module in modules})

    def named(self, ending: str) -> list[str]:
        """The files with an ending."""
        return [name for name in self.files if name.lower().endswith(ending)]

    def text(self, name: str) -> str:
        """The text of a file.

        Raises:
            ConfigError: it cannot be read, or is too large.
        """
        try:
            return text_of(self.root / name)
        except BadInput as error:
            raise ConfigError(one_line(f"{self.root / name}: {error}")) from None

    def _module(self, name: str) -> Module | None:
        text = self.text(name)
        dotted = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        try:
            return Module(name, dotted, ast.parse(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if not _MENTIONS_DEDUCTIONS.search(text):
                return None
            line = getattr(error, "lineno", None) or 1
            cause = getattr(error, "msg", None) or str(error) or "it is nested too deeply"
            raise CodeError(name, line, f"not Python that this version can parse: {cause}; correct it there") from None

    @cached_property
    def theme_lines(self) -> tuple[str, ...] | None:
        """The lines of the themes file as Python's `readlines` gives them, with line breaks; None: there is no file.

        Raises:
            ConfigError: there are several such files, or it is empty.
        """
        found = [name for name in self.named(".txt") if re.search("theme|entropy", Path(name).name.lower())]
        if not found:
            return None
        if len(found) > 1:
            raise ConfigError(
                f"{self.root}: {', '.join(found)} may each be the file of themes; leave one of them in the checkout"
            )
        lines = tuple(io.StringIO(self.text(found[0]), newline=None).readlines())
        if not lines:
            raise ConfigError(
                f"{self.root / found[0]}: is empty, and themes are expected, one a line; check the checkout"
            )
        return lines

    @cached_property
    def canaries(self) -> tuple[str, ...]:
        """The GUIDs near the word canary in any file that is text of a reasonable size, sorted."""
        found: set[str] = set()
        for name in self.files:
            with suppress(BadInput):
                found |= set(canaries_in(text_of(self.root / name)))
        return tuple(sorted(found))

    @cached_property
    def licence_file(self) -> str | None:
        """The licence file at the top of the checkout."""
        return next((name for name in sorted(os.listdir(self.root)) if _LICENCE.match(name)), None)


def canaries_in(text: str) -> Iterator[str]:
    """The GUIDs of a text's canaries, in lower case."""
    for near in _NEAR_CANARY.finditer(text):
        yield from (guid.lower() for guid in _GUID.findall(near[0]))


def open_checkout(root: Path) -> Checkout:
    """The checkout in a folder. Hidden folders, environments and symbolic links are left out.

    Raises:
        ConfigError: there is no such folder, it holds no Python, or too many files.
    """
    if not root.is_dir():
        raise ConfigError(f"{root}: is no folder; name a checkout of the benchmark's published code")
    files: list[str] = []
    for folder, inside, names in os.walk(root):
        inside[:] = sorted(name for name in inside if name not in _LEFT_OUT and not name.startswith("."))
        paths = (Path(folder, name) for name in names if name.lower().endswith(_READ) and not name.startswith("."))
        files += [path.relative_to(root).as_posix() for path in paths if not path.is_symlink()]
        if len(files) > MOST_FILES:
            raise ConfigError(f"{root}: holds more than {MOST_FILES:,} files; name the checkout's own folder")
    checkout = Checkout(root, tuple(sorted(files)))
    if not checkout.named(".py"):
        raise ConfigError(f"{root}: holds no Python file; name a checkout of the benchmark's published code")
    return checkout
