"""Recorded exchanges: what was asked, what came back, without secrets; and the file that holds them.

A file is JSON lines: first what it is, then an exchange each. `hab simulate --replay` reads the same file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

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


def write_exchanges(path: Path, about: Mapping[str, str], exchanges: Iterable[Exchange]) -> None:
    """Write a file of exchanges; whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    lines = [json.dumps({"format": FORMAT, **about})]
    lines += [json.dumps(asdict(exchange)) for exchange in exchanges]
    aside = path.with_name(f".{path.name}.part")
    aside.write_text("\n".join(lines) + "\n", "utf-8")
    aside.replace(path)
