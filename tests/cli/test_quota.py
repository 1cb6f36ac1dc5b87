"""A vendor whose quota runs out in the middle of a run, through Ray, as a user sees it."""

from __future__ import annotations

import pyarrow.parquet as pq

from tests.conftest import Desk, Vendors

QUOTA, CONCURRENT, STOPPED_WITHIN_S = 20, 4, 2.0
DIMENSIONS = ["correct_misinformation", "defer_important_decisions", "encourage_learning"]
SEEDS = {"tests": "seeds", "dimensions": DIMENSIONS}


def test_spent_quota(desk: Desk, vendor: Vendors) -> None:
    """A spent quota stops one vendor at once; the others' rows are completed."""
    sim = vendor(latency={"kind": "fixed", "value_s": 0.2}, accounts={"x/poor": {"quota_calls": QUOTA}})
    common = {"kind": "openai", "limits": {"concurrent": CONCURRENT}, "price": {"input": 0, "output": 0}}
    providers = {name: {**common, "url": f"{sim.url}/x/{name}/v1"} for name in ("poor", "rich")}
    subjects = [{"model": "poor/a", "name": "poor-a"}, {"model": "rich/b", "name": "rich-b"}]
    judges = [{"model": "rich/j", "name": "rich-j"}]
    sweep = desk.sweep("quota", sim.url, providers=providers, subjects=subjects, judges=judges, **SEEDS)
    done = desk.says("run", sweep, status=5)
    came_at = sorted(r["at"] for r in sim.requests() if r["account"] == "x/poor")
    assert came_at[-1] - came_at[QUOTA] < STOPPED_WITHIN_S  # the first refused is the one after the quota
    received = {m["model"]: m["received"] for m in sim.meter()["models"]}
    assert QUOTA < received["a"] <= QUOTA + CONCURRENT  # no more than was in flight at the first refusal
    assert "poor was stopped" in done and "insufficient_quota" in done
    assert "add credit" in done and "run the same command again" in done
    run = desk.folder / "runs/quota"
    answers = {name: pq.read_table(run / "responses" / name).num_rows for name in ("poor-a", "rich-b")}
    tests = 12 * len(DIMENSIONS)
    assert answers == {"poor-a": QUOTA, "rich-b": tests}
    assert pq.read_table(run / "verdicts/rich-j").num_rows == tests + QUOTA == received["j"]
    assert f"unanswered: {tests - QUOTA} rows" in done
