"""A sweep with a likely budget, through the command line: killed between its waves, within its budget, and told so."""

import json
import re
from pathlib import Path

import pytest

from hab_ray.engine.ledger import Batch, Ledger
from hab_ray.storage.folder import LocalFolder
from tests.conftest import Desk, Vendors, until
from tests.sweep.crashing import sweep_file

TESTS = 450


def likely(folder: Path, url: str, budget: object) -> Path:
    """A sweep of so many tests by batch whose answers are far shorter than they might be."""
    path, tests = sweep_file(folder, "openai", url, "likely", budget=budget), folder / "tests.jsonl"
    first = json.loads(tests.read_text().splitlines()[0])
    rows = [{**first, "id": f"t{n}", "prompt": f"how do I solve task {n} myself?"} for n in range(TESTS)]
    tests.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def batches(folder: Path) -> list[Batch]:
    return list(Ledger(LocalFolder(folder / "store"), "openai").read())


@pytest.mark.parametrize("sent_before", [1, 2])
def test_killed_between_waves_it_completes_within_its_budget(desk: Desk, vendor: Vendors, sent_before: int) -> None:
    sim = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 1.5}})
    desk.environment["OPENAI_API_KEY"] = "a-key"
    path = likely(desk.folder, sim.url, {"usd": 1000, "reserve": "likely", "risk": 1e-6})
    plan = desk.hab("plan", path, "--long")
    assert "likely budget: the run costs more than its budget with a probability of at most 1e-06, if" in re.sub(
        r"\s+", " ", plan.stdout
    )
    most = [float(found.replace(",", "")) for found in re.findall(r"usually \$([\d.,]+\d)", plan.stdout)]
    assert most, plan.stdout
    usd = 3 * most[0]
    path = likely(desk.folder, sim.url, {"usd": usd, "reserve": "likely", "risk": 1e-6})
    process = desk.start("run", path, "--yes")
    until(lambda: sum(bool(b.submitted) for b in batches(desk.folder)) >= sent_before, process)
    process.kill()
    process.wait()
    assert any(batch.intent.most_nanousd is not None for batch in batches(desk.folder)), "nothing went out in a wave"
    assert list((desk.folder / "run" / "cells").rglob("*.json")), "the next process would have to begin a new sample"
    money = json.loads(desk.hab("budget", "show", "run", "--json").stdout)
    waiting = [batch for batch in batches(desk.folder) if not batch.harvested]
    assert money["by_bound"] == sum(batch.intent.nanousd for batch in waiting) > 0 == money["hard"]
    assert sum(nano for part, nano in money.items() if part != "budget") == money["budget"]
    desk.says("run", path, "--yes")
    assert not list((desk.folder / "run" / "cells").rglob("*.json"))
    sent = [batch.intent for batch in batches(desk.folder)]
    assert [one.rows for one in sent] == [450, 200, 250], "a first wave, of which nothing is known, went out again"
    assert sent[2].nanousd < sent[2].most
    paid = sum(batch.harvested.nanousd for batch in batches(desk.folder) if batch.harvested)
    ended = json.loads(desk.hab("budget", "show", "run", "--json").stdout)
    assert ended["paid"] == paid and 0 < paid / 1e9 <= usd
    told = re.sub(r"\s+", " ", desk.hab("status", desk.folder / "run").stdout)
    assert "likely budget: the run costs more than its budget" in told


def test_two_budgets_are_one_too_many(desk: Desk) -> None:
    for budget, said in (
        ({"usd": 5}, "name two limits"),
        ({"usd": 5, "reserve": "perhaps"}, "'hard' or 'likely'"),
        ({"usd": 5, "reserve": "likely", "risk": 0.5}, "more than one of twenty runs"),
        ({"usd": 5, "reserve": "likely", "risk": 1e-320}, "`reserve: hard` takes no risk at all"),
    ):
        path = likely(desk.folder, "http://127.0.0.1:9", budget)
        path.write_text(path.read_text() + "budget_usd: 3\n" * (budget == {"usd": 5}))
        assert said in re.sub(r"\s+", " ", desk.says("plan", path, status=2))
