"""Recorded requests and answers without secrets, and the file for them.

The file is JSON lines: a header, then one exchange per line. `hab simulate --replay` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from hab_ray.errors import ConfigError
from hab_ray.visible import one_line

FORMAT = "hab-doctor-1"


@dataclass(frozen=True)
class Exchange:
    """One HTTP exchange, redacted.

    `label` names its question, `account` the simulator's account that stands in for the provider. `path` is relative to
    the provider's URL. Without an answer `status` is None and `problem` says why.
    """

    label: str
    provider: str
    account: str
    method: str
    path: str
    request_headers: Mapping[str, str]
    request: str
    status: int | None
    headers: Mapping[str, str]
    body: str
    seconds: float
    problem: str = ""


def refuse_unwritable_file(path: Path) -> None:
    """Raise ConfigError if a file of exchanges cannot be written, before any request is sent."""
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path}: cannot write the exchanges, since this is not a file; name another by --out")
        _part(path).write_text("", "utf-8")
        _part(path).unlink()
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        problem = f"{path}: cannot write the exchanges ({cause}); nothing was sent"
        raise ConfigError(one_line(f"{problem}; name a file in a writable folder by --out")) from None


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def write_exchanges(path: Path, about: Mapping[str, str], exchanges: Iterable[Exchange]) -> None:
    """Write a file of exchanges atomically."""
    lines = [json.dumps({"format": FORMAT, **about})]
    lines += [json.dumps(asdict(exchange)) for exchange in exchanges]
    part = _part(path)
    part.write_text("\n".join(lines) + "\n", "utf-8")
    part.replace(path)
