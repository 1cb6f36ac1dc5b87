"""A budget holds while processes are killed repeatedly: calls in flight are never forgotten."""

import os
import random
import time
from pathlib import Path

from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.replies.store import Store
from tests.conftest import Vendors, ended
from tests.engine.budget.spending import CALLS, LIMITS, before
from tests.forking import ROOT, SHIPPED_PACE, Forked, Forks

KILLS = 4
PRICED = {"x/sim": {"models": {"*": {"price": {"input": 1, "output": 2}}}}}
DEAREST = 1_500_000


def test_kills(tmp_path: Path, vendor: Vendors, forks: Forks) -> None:
    """However often a run is killed, it never spends more than its budget."""
    sim = vendor(accounts=PRICED, latency={"kind": "fixed", "value_s": 0.4})
    draw = random.Random(7)
    budget = 100_000_000

    def spending(limit: int) -> Forked:
        arguments = [sim.url, str(tmp_path), str(limit)]
        return forks.start("tests.engine.budget.spending", arguments, ROOT, os.environ | {SHIPPED_PACE: "1"})

    for kill in range(KILLS):
        received = sim.meter()["received"]
        process = spending(budget)
        while process.poll() is None and sim.meter()["received"] < received + 21:
            time.sleep(0.02)
        time.sleep(draw.uniform(0, 0.5))
        process.kill()
        process.communicate()
        stood = before(tmp_path, kill + 2)
        assert sim.meter()["nanousd"] <= stood.spent <= budget
        assert stood.stranded <= (kill + 1) * 2 * LIMITS.concurrent * DEAREST
    assert before(tmp_path, KILLS + 1).stranded > 0
    enough = sim.meter()["nanousd"] + 300 * DEAREST // 4 + before(tmp_path, KILLS + 1).stranded
    last = ended(spending(enough))
    assert last.returncode == 0, last.stdout
    assert sim.meter()["nanousd"] <= before(tmp_path, KILLS + 2).spent <= enough
    assert len(set(Store(LocalFolder(tmp_path)).known(["a"]))) == len(CALLS)
