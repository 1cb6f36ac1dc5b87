"""`hab plan --probe` as a user runs it, against the simulator; no Ray but where a run follows."""

import json
import signal
from pathlib import Path
from typing import Any

from tests.conftest import Desk, Vendor, Vendors, until

DIMENSIONS = ["defer_important_decisions", "encourage_learning"]
PRICE = {"input": 1, "output": 2}


def priced(desk: Desk, sim: Vendor, name: str, **changes: Any) -> Path:
    """A sweep of two dimensions whose calls cost what the simulator charges."""
    return desk.sweep(name, sim.url, {"price": PRICE}, dimensions=DIMENSIONS, **changes)


def charging(vendor: Vendors, **models: dict[str, Any]) -> Vendor:
    played = {name: {"price": PRICE, **model} for name, model in {**models, "*": {}}.items()}
    return vendor(accounts={"x/sim": {"models": played}})


def plan_of(output: str) -> dict[str, Any]:
    """The plan in what was printed, standard error first."""
    return dict(json.loads(output[output.index("{\n") :]))


def test_seed_queries_and_verdicts_on_them_are_measured_and_not_paid_for_again(desk: Desk, vendor: Vendors) -> None:
    sim = charging(vendor, alpha={"latency": {"kind": "fixed", "value_s": 0.4}})
    sweep = priced(desk, sim, "seeds", tests="seeds")
    before = plan_of(desk.hab("plan", sweep, "--json").stdout)
    assert all(line["assumed"] and not line["measured"] for line in before["lines"])
    done = desk.says("plan", sweep, "--json", "--probe", 2, "--yes")
    received = {m["model"]: m["received"] for m in sim.meter()["models"]}
    assert received == {"alpha": 4, "beta": 4, "judge": 4}  # 2 a subject or judge and dimension
    plan = plan_of(done)
    assert plan["total"]["reused"] == 12 and not any(line["assumed"] for line in plan["lines"])
    mine = [line for line in plan["lines"] if line["name"] == "sim/alpha"]
    meter = next(m for m in sim.meter()["models"] if m["model"] == "alpha")
    to_pay = sum(line["figures"]["calls"] - line["figures"]["reused"] for line in mine)
    output = sum(line["figures"]["output"] for line in mine)
    assert sum(line["measured"] for line in mine) == 4
    assert abs(output / to_pay - meter["output_tokens"] / 4) <= 1
    respond = next(time for time in plan["times"] if time["stage"] == "respond")
    assert respond["slowest"] == "sim/alpha" and 0.4 <= respond["a_call"] < 2
    assert "nothing to probe" in desk.says("plan", sweep, "--probe", 2)
    assert sim.meter()["received"] == 12
    desk.says("run", sweep, "--yes")
    meter, tests = sim.meter(), 2 * 12
    assert meter["billed_more_than_once"]["bodies"] == 0
    assert meter["received"] == 2 * 2 * tests  # two subjects, each answer judged once
    assert "the store has 9,999 replies, or all, of everything" in desk.says("plan", sweep, "--probe", 9999)


def test_answers_that_judges_read_again_later_are_not_read_again_by_a_probe(desk: Desk, vendor: Vendors) -> None:
    sim = charging(vendor)
    sweep = priced(desk, sim, "sentinels", tests="seeds", sentinels=8)
    assert "at most 12 calls" in desk.says("plan", sweep, "--probe", 2, "--yes")
    assert {m["model"]: m["received"] for m in sim.meter()["models"]} == {"alpha": 4, "beta": 4, "judge": 4}
    assert "nothing to probe" in desk.says("plan", sweep, "--probe", 2)


def test_without_tests_what_makes_them_is_measured_and_the_rest_named_as_guesses(desk: Desk, vendor: Vendors) -> None:
    sim = charging(vendor)
    sweep = priced(desk, sim, "made")
    done = desk.says("plan", sweep, "--probe", 1, "--yes")
    assert {m["model"]: m["received"] for m in sim.meter()["models"]} == {"gen": 2, "val": 2}
    measured = next(line for line in done.splitlines() if "the other rows are guesses" in line)
    assert "respond sim/alpha" not in measured and "judge sim/judge" not in measured
    assert measured.startswith("tokens are measured on 4 replies of generate sim/gen, validate sim/val;")
    assert "4 calls sent, $0.0" in done


def test_nothing_is_spent_unasked_and_nothing_beyond_the_budget(desk: Desk, vendor: Vendors) -> None:
    sim = charging(vendor)
    unasked = desk.says("plan", priced(desk, sim, "unasked", tests="seeds"), "--probe", 2, status=2)
    assert "--yes" in unasked and "at most 12 calls" in unasked
    assert sim.meter()["received"] == 0 and not (desk.folder / "store").exists()
    poor = priced(desk, sim, "poor", budget_usd=0.01, tests="seeds")
    assert "budget reached" in desk.says("plan", poor, "--probe", 12, "--yes", status=4)
    assert 0 < sim.meter()["nanousd"] <= 10_000_000


def test_a_key_that_is_refused_leaves_the_guess_and_says_so(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(accounts={"x/sim": {"keys": ["another"], "models": {"*": {"price": PRICE}}}})
    done = desk.says("plan", priced(desk, sim, "refused", tests="seeds"), "--probe", 1, "--yes", status=5)
    assert "unanswered: sim: " in done and "suffices" in done
    assert sim.meter()["billed"] == 0


def test_calls_that_fail_for_good_are_told_and_end_the_probe_with_a_status(desk: Desk, vendor: Vendors) -> None:
    sim = charging(vendor, alpha={"context_tokens": 5})
    done = desk.says("plan", priced(desk, sim, "failing", tests="seeds"), "--probe", 2, "--yes", status=5)
    assert "failed: sim/alpha: " in done and "failed: sim/beta" not in done and "--retry-failed" in done


def test_ctrl_c_keeps_what_was_paid_for(desk: Desk, vendor: Vendors) -> None:
    slow = {"latency": {"kind": "fixed", "value_s": 0.5}}
    sim = charging(vendor, alpha=slow, beta=slow)
    sweep = priced(desk, sim, "stopped", tests="seeds")
    process = desk.start("plan", sweep, "--probe", 12, "--yes")
    until(lambda: sim.received("alpha"), process)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    received = sim.meter()["received"]
    assert 0 < received < 48
    desk.says("plan", sweep, "--probe", 2, "--yes")
    assert sim.meter()["billed_more_than_once"]["bodies"] == 0
