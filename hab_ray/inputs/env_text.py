"""Reads files of environment variables (`.env`): one NAME=VALUE per line, as in shells and docker."""

import re
from pathlib import Path

from hab_ray.inputs.files import BadInput, text_of

_VALUE = r'"([^"]*)"|\'([^\']*)\'|([^\s"\'#][^\s"\']*)?'
_LINE = re.compile(rf"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?:{_VALUE})(?:\s+#.*)?")
_KEY_LINE = re.compile(r"(?:export\s+)?[A-Za-z_][A-Za-z0-9_]*_KEY\s*=")


def env_file(path: Path) -> dict[str, str]:
    """Read the variables of a file. Quotes are removed, `#` after a space begins a comment, nothing is expanded.

    Raises:
        BadInput: the file cannot be read, or a line is not NAME=VALUE. The message omits the line: it may hold a key.
    """
    return dict(_variable(number, line) for number, line in _lines(text_of(path)))


def env_keys(path: Path) -> dict[str, str]:
    """Read the variables whose names end in `_KEY`, as `env_file` does, and ignore all other lines.

    Raises:
        BadInput: the file cannot be read, or the line of a key is not NAME=VALUE.
    """
    lines = _lines(text_of(path))
    return dict(_variable(number, line) for number, line in lines if _KEY_LINE.match(line))


def _lines(text: str) -> list[tuple[int, str]]:
    numbered = enumerate((line.strip() for line in text.splitlines()), 1)
    return [(number, line) for number, line in numbered if line and not line.startswith("#")]


def _variable(number: int, line: str) -> tuple[str, str]:
    found = _LINE.fullmatch(line)
    if found is None:
        raise BadInput(f"line {number} is not NAME=VALUE", "correct it; quote values with spaces")
    if "\0" in line:
        raise BadInput(f"line {number} holds a NUL, which no variable can", "write the line again")
    return found[1], next((value for value in found.groups()[1:] if value), "")
