"""Recorded exchanges: what was asked, what came back, without secrets; and the file that holds them.

A file is JSON lines: first what it is, then an exchange each. `hab simulate --replay` reads the same file.
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

    `label` names the question that it belongs to, `account` the account at the simulator that plays the provider.
    `path` is below the provider's URL. `status` is None where no answer came; `problem` then says why.
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
    """Try whether a file of exchanges can be written, before anything is asked.

    Raises:
        ConfigError: it cannot.
    """
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path}: the exchanges cannot be written there, it is no file; name another by --out")
        _aside(path).write_text("", "utf-8")
        _aside(path).unlink()
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        told = f"{path}: the exchanges cannot be written there ({cause}), and nothing was asked"
        raise ConfigError(one_line(f"{told}; name a file in a folder that you may write to by --out")) from None


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def write_exchanges(path: Path, about: Mapping[str, str], exchanges: Iterable[Exchange]) -> None:
    """Write a file of exchanges; whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    lines = [json.dumps({"format": FORMAT, **about})]
    lines += [json.dumps(asdict(exchange)) for exchange in exchanges]
    aside = _aside(path)
    aside.write_text("\n".join(lines) + "\n", "utf-8")
    aside.replace(path)
