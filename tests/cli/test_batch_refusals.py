"""What a run does where a vendor takes no batch, or not with all its rows. Only the online half of `auto` needs Ray."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.conftest import Desk, Vendor, Vendors, until
from tests.sweep.crashing import TESTS, account_of, changed, sweep_file

SOON: dict[str, Any] = {"turnaround": {"kind": "fixed", "value_s": 0.3}}
DEAD = "grok-4.7"
NO_BATCHES = "is not supported for batch processing"


def dead_at(vendor: Vendors, by_batch: str, batch: Mapping[str, Any] = SOON) -> Vendor:
    return vendor(batch=batch, accounts={"xai": {"models": {DEAD: {"thinking": "always", "by_batch": by_batch}}}})


def asking(desk: Desk, sim: Vendor, **changes: Any) -> Path:
    """A sweep that says, wrongly, that a model takes batches."""
    sweep = sweep_file(desk.folder, "xai", sim.url, "dead")
    account = account_of(sweep) | {"models": {DEAD: {"batch": {"discount": 0.2}}}}
    return changed(sweep, **{"providers": {"xai": account}, "subjects": [DEAD], "judges": [DEAD], **changes})


def test_mode_batch_leaves_rows_open_and_says_what_to_change(desk: Desk, vendor: Vendors) -> None:
    sim = dead_at(vendor, "refused")
    done = desk.says("run", asking(desk, sim), "--yes", status=5)
    assert NO_BATCHES in done and "give it `mode: auto` or `mode: online`" in done
    assert f"unanswered: {TESTS} rows ({TESTS} in responses/)" in done and "the same command sends them again" in done
    meter = sim.meter()
    assert (meter["batch"]["created"], meter["batch"]["lines_billed"], meter["billed"]) == (0, 0, 0)


def test_a_cancelled_batch_is_collected_once_its_counters_are_still(desk: Desk, vendor: Vendors) -> None:
    faults = [{"kind": "stuck", "ordinal": 1, "done": 1.0}, {"kind": "reverted_cancel", "ordinal": 1}]
    sim = vendor(batch=SOON, batch_faults=faults)
    sweep = sweep_file(desk.folder, "xai", sim.url, "reverted")
    desk.says("run", sweep, "--yes", "--detach", status=3)
    assert "cancellation requested" in desk.hab("batches", "cancel", "run").stdout
    desk.says("run", sweep, "--yes")
    assert sim.meter()["batch"]["created"] == 2 and sim.billed_once(2 * TESTS)
    assert "there is nothing to cancel" in desk.says("batches", "cancel", "run")
    assert "not cancelled, since it is not open" in desk.says("batches", "cancel", "run", "xai/000001")


def test_an_open_batch_is_collected_though_its_model_has_no_batches_now(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 3}})
    sweep = sweep_file(desk.folder, "xai", sim.url, "before")
    account, price = account_of(sweep), {"input": 1, "output": 2}
    account.pop("batch")
    terms = {"batch": {"discount": 0.2}}
    with_batches = {"models": {"grok-4.3-b": {"price": price} | terms, "grok-4.3": terms}}
    subject = {"model": "xai/grok-4.3-b"}
    changed(sweep, providers={"xai": account | with_batches}, subjects=[subject])
    desk.says("run", sweep, "--yes", "--detach", status=3)
    without = {"models": {"grok-4.3-b": {"price": price}, "grok-4.3": terms}}
    changed(sweep, providers={"xai": account | without}, subjects=[subject | {"mode": "auto"}])
    desk.says("run", sweep, "--yes")
    assert sim.meter()["billed"] == 0 and sim.billed_once(2 * TESTS)


def test_a_detached_run_says_that_the_vendor_makes_no_batch(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(batch=SOON, batch_faults=[{"kind": "refused_create", "status": 429}])
    done = desk.hab("run", sweep_file(desk.folder, "google", sim.url, "busy"), "--yes", "--detach")
    assert done.returncode == 5 and "the vendor creates none (429), and is asked again for 15 minutes: " in done.stdout
    assert sim.meter()["batch"]["created"] == 0


def test_a_model_that_takes_no_batches_stays_refused_under_detach(desk: Desk, vendor: Vendors) -> None:
    """A run that leaves before the vendor has looked into the batch would else make the same one every other time."""
    sim = dead_at(vendor, "cancelled", {"turnaround": {"kind": "fixed", "value_s": 4}})
    sweep = asking(desk, sim)
    ends = [desk.hab("run", sweep, "--yes", "--detach")]
    until(lambda: all(batch["state"] == "cancelled" for batch in sim.get("/_batches")))
    ends += [desk.hab("run", sweep, "--yes", "--detach") for _ in range(3)]
    assert [end.returncode for end in ends] == [3, 5, 5, 5], ends[-1].stdout
    assert NO_BATCHES in ends[-1].stdout and "without --detach" in ends[-1].stdout
    assert sim.meter()["batch"]["created"] == 1
    assert "give it `mode: auto` or `mode: online`" in desk.says("run", sweep, "--yes", status=5)
    meter = sim.meter()
    assert (meter["batch"]["created"], meter["batch"]["lines_billed"], meter["billed"]) == (2, 0, 0)


def test_a_refused_key_does_not_say_that_rows_of_open_batches_are_sent_again(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 2}}, accounts={"openai": {"keys": ["good"]}})
    sweep = sweep_file(desk.folder, "openai", sim.url, "refused")
    changed(sweep, providers={"openai": account_of(sweep) | {"key_env": "HAB_TEST_OPENAI"}})
    with_key = {key: replace(desk, environment={"HAB_TEST_OPENAI": key}) for key in ("good", "revoked")}
    with_key["good"].says("run", sweep, "--yes", "--detach", status=3)
    done = with_key["revoked"].says("run", sweep, "--yes", status=5)
    assert f"unanswered: {TESTS} rows ({TESTS} in responses/)" in done and "sends them again" not in done
    assert "the same command collects those that are in a batch at a vendor, and sends the others again" in done
    with_key["good"].says("run", sweep, "--yes")
    assert sim.billed_once(2 * TESTS)
