"""`hab` with a vendor of another distribution, added by files alone: the distribution's and a sweep file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Desk, Vendor
from tests.distributions import Distributions

DOCUMENT = Path(__file__).parents[2] / "docs/extending.md"
(DIALECT,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
SEEDS: dict[str, Any] = {"tests": "seeds", "generate": None, "validate": None, "select": None}


def plan(desk: Desk, distributions: Distributions, url: str, *options: object) -> tuple[int, str]:
    """A sweep at a provider of kind `acme`, planned in a new process that has the distribution on its path."""
    provider = {"kind": "acme", "url": url, "price": {"input": 1, "output": 1}}
    sweep = desk.sweep("s", url, dimensions=["encourage_learning"], providers={"sim": provider}, **SEEDS)
    desk.environment["PYTHONPATH"] = str(distributions.site)
    done = desk.hab("plan", sweep, *options)
    return done.returncode, done.stdout


@pytest.mark.integration
def test_its_calls_are_completed(desk: Desk, vendor: Callable[..., Vendor], distributions: Distributions) -> None:
    sim = vendor(accounts={"x/sim": {"models": {"*": {}}}}, keep_bodies=True)
    distributions.install("acme-hab", "0.3", "acme_hab", DIALECT, acme="acme_hab:VENDOR")
    status, output = plan(desk, distributions, f"{sim.url}/x/sim/v1", "--probe", 1, "--yes")
    assert status == 0, output
    bodies = [json.loads(call["body"]) for call in sim.calls()]
    assert {body["model"] for body in bodies} == {"alpha", "beta", "judge"}
    assert {body["user"] for body in bodies} == {"acme"}


@pytest.mark.integration
def test_a_broken_one_is_named_and_nothing_is_sent(desk: Desk, distributions: Distributions) -> None:
    distributions.install("acme-hab", "0.3", "acme_hab", "import no_such_sdk", acme="acme_hab:VENDOR")
    status, output = plan(desk, distributions, "http://127.0.0.1:9", "--probe", 1, "--yes")
    told = " ".join(output.split())
    assert status == 2 and "Traceback" not in output
    assert "providers.sim.kind" in told and "acme-hab 0.3" in told and "no_such_sdk" in told and "uninstall it" in told
