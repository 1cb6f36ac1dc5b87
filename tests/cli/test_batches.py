"""Runs by batch from end to end, as a user starts, leaves, watches, cancels and collects them. No Ray is needed."""

import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from hab_ray.cli.commands.running.batches import batches_of
from hab_ray.engine.ledger import Batch, Ledger
from hab_ray.storage.folder import open_folder
from tests.conftest import Desk, Vendor, Vendors, until
from tests.engine.batch.fakes import intent
from tests.instant import work_of
from tests.sweep.crashing import MODELS, TESTS, account_of, changed, sweep_file

STOPPED_S = float(os.environ.get("HAB_STOPPED_S", "0"))  # `make bench` stops a driver for two minutes
SEEDS = 12
OPEN_AT_KILL = 3  # one call at a time: what was not flushed, and what is sent before the end of a driver is noticed
SUBJECTS = [
    "gpt-6-luna",
    "gpt-4.1",
    "claude-haiku-5-5",
    "claude-opus-5-5",
    "gemini-3.8-flash",
    "gemini-3.5-flash-lite",
    "grok-4.3",
]
NIGHTMARE = {
    "batches": [
        {"kind": "invalid", "account": "openai", "ordinal": 1},
        *({"kind": "expired", "account": "openai", "ordinal": n, "done": 0.5} for n in range(2, 6)),
        {"kind": "cancelled", "account": "google", "ordinal": 2, "done": 0.5},
        {"kind": "stuck", "account": "anthropic", "ordinal": 2, "done": 0.5},
        {"kind": "lost_create", "account": "anthropic", "ordinal": 1, "hidden_s": 0.3},
        {"kind": "foreign", "account": "anthropic", "ordinal": 1},
        {"kind": "lost_create", "account": "openai", "ordinal": 2, "hidden_s": 0.3},
        {"kind": "poll_error", "account": "google", "ordinal": 1, "polls": 2, "status": 503},
        {"kind": "odd_state", "account": "google", "ordinal": 3, "polls": 2},
        {"kind": "cut_results", "account": "anthropic", "ordinal": 3},
        {"kind": "lost_create", "account": "xai", "ordinal": 1, "hidden_s": 0.3},
        {"kind": "expired", "account": "xai", "ordinal": 1, "done": 0.5},
        {"kind": "cut_results", "account": "xai", "ordinal": 1},
    ],
    "lines": {"failed": 0.03, "missing": 0.02, "doubled": 0.02, "foreign": 0.02},
    "queue_tokens": {"gpt-4.1": 1500},
}


@pytest.mark.long
def test_nightmare(desk: Desk) -> None:
    """Whatever goes wrong with batches, no score changes and nothing is paid for twice."""
    dimensions = ["ask_clarifying_questions", "avoid_value_manipulation"]
    sweep = desk.write(
        "dream",
        mode="batch",
        tests=desk.seeds(dimensions, each=4),
        dimensions=dimensions,
        subjects=SUBJECTS,
        judges=["claude-haiku-5-5"],
    )
    trouble = desk.folder / "nightmare.yaml"
    trouble.write_text(yaml.safe_dump(NIGHTMARE))
    done = desk.says("rehearse", sweep, "--turnaround", 1, "--faults", trouble)
    cells = len(SUBJECTS) * len(dimensions) * 2
    assert f"{cells} of {cells} scores by dimension" in done and "the bills agree" in done
    assert "no call was billed twice" in done
    assert re.search(r"simulated bill: \$[0-9.]*[1-9]", done)
    assert re.search(r"\d+ failed, \d+ expired, \d+ cancelled with ", done), done


@pytest.fixture
def slow(vendor: Vendors) -> Vendor:
    """A vendor whose batches take a while."""
    return vendor(batch={"turnaround": {"kind": "fixed", "value_s": 2}})


def test_detached(desk: Desk, slow: Vendor) -> None:
    """A detached run is collected by another process, though its folder has moved."""
    vendor_name = "anthropic"
    sweep = sweep_file(desk.folder, vendor_name, slow.url, "detached")
    changed(sweep, run="run", store="store", tests="tests.jsonl", budget_usd=1.0)
    left = desk.says("run", sweep, "--yes", "--detach", status=3)
    assert f"still at the vendors, which complete and charge them: 1 batch with {TESTS} rows" in left
    listed = desk.hab("batches", "list", "run").stdout
    assert re.search(rf"{vendor_name}/000001 .*at the vendor", listed) and f"1 open: {TESTS} rows" in listed
    shown = desk.hab("batches", "show", "run", f"{vendor_name}/000001").stdout
    assert "intent" in shown and "submitted" in shown and "harvested" not in shown
    status = desk.hab("status", "run").stdout
    assert f"batches at the vendors: 1 with {TESTS} rows, $" in status
    assert "are in open batches at the vendors already" in desk.hab("plan", sweep).stdout
    there = desk.folder.rename(desk.folder.with_name("elsewhere"))
    desk, sweep = replace(desk, folder=there), there / sweep.name
    assert f"1 open: {TESTS} rows" in desk.hab("batches", "list", "run").stdout
    desk.says("run", sweep, "--yes")
    assert slow.billed_once(2 * TESTS)
    listed = desk.hab("batches", "list", "run").stdout
    assert len(re.findall(rf"{TESTS}/{TESTS}", listed)) == 2 and "0 open" in listed
    assert "in open batches" not in desk.hab("plan", sweep).stdout


def test_a_plan_sets_apart_what_open_batches_hold_of_a_subject_that_was_taken_out(desk: Desk, vendor: Vendors) -> None:
    """The run pays for it, on top of the plan's figures, unless the user cancels it."""
    sim = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 300.0}})
    model = MODELS["openai"]
    two = [model, {"model": model, "name": "other", "system": "Be kind."}]
    sweep = sweep_file(desk.folder, "openai", sim.url, "out", run="run", store="store", subjects=two)
    desk.says("run", sweep, "--yes", "--detach", status=3)
    asked = desk.says("plan", sweep)
    (whole,) = re.findall(r"of these, calls for at most \$([0-9.]+) are in open batches", asked)
    assert "longer asks" not in asked
    said = desk.says("plan", changed(sweep, subjects=two[:1]))
    (rest,) = re.findall(r"of these, calls for at most \$([0-9.]+) are in open batches", said)
    on_top = (
        r"on top of that, (\d+) calls for at most \$([0-9.]+) that this sweep no longer asks for are in open batches"
    )
    ((calls, dollars),) = re.findall(on_top, said)
    assert int(calls) == TESTS and float(rest) + float(dollars) == pytest.approx(float(whole), abs=2e-4)
    assert "`hab batches cancel run` cancels" in said


def test_a_plan_says_that_the_run_waits_for_open_batches_even_if_it_sends_none(desk: Desk, vendor: Vendors) -> None:
    """Also for those of another run of the store, which pays for them."""
    sim = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 300.0}})
    sweep = sweep_file(desk.folder, "openai", sim.url, "wait", run="run", store="store")
    desk.says("run", sweep, "--yes", "--detach", status=3)
    waits = r"time: about .* online.*; for the open batches usually about 1 hour, at most 1 day"
    said = desk.says("plan", changed(sweep, mode="online"))
    assert re.search(waits, said) and "other runs" not in said
    said = desk.says("plan", changed(sweep, run="another"))
    assert re.search(waits, said) and f"of these, {TESTS} calls are in open batches of other runs of the store" in said


@pytest.mark.timeout(STOPPED_S + 900)
def test_stopped_holder(desk: Desk, slow: Vendor) -> None:
    """A driver that is stopped (SIGSTOP) keeps its store, and nothing is sent twice once it continues."""
    sweep = sweep_file(desk.folder, "google", slow.url, "stopped")
    holder = desk.start("run", sweep, "--yes")
    until(lambda: slow.meter()["batch"]["created"], holder)
    holder.send_signal(signal.SIGSTOP)
    continues = time.monotonic() + STOPPED_S
    while True:
        assert f"process {holder.pid}" in desk.says("run", sweep, "--yes", status=6)
        if time.monotonic() >= continues:
            break
    holder.send_signal(signal.SIGCONT)
    output, _ = holder.communicate(timeout=120)
    assert holder.returncode == 0, output
    assert slow.meter()["batch"]["created"] == 2 and slow.billed_once(2 * TESTS)


def test_budget_of_batches(desk: Desk, vendor: Vendors) -> None:
    """A budget holds batches back, a higher one lets them go."""
    priced = {"openai": {"models": {"gpt-4.1-mini": {"price": {"input": 0.4, "output": 1.6}}}}}
    sim = vendor(accounts=priced, batch={"turnaround": {"kind": "fixed", "value_s": 0.5}})
    sweep = sweep_file(desk.folder, "openai", sim.url, "poor", budget_usd=0.001)
    poor = desk.says("run", sweep, "--yes", status=4)
    last = poor.splitlines()[-1]
    assert re.fullmatch(
        rf"budget reached: \$0\.00\d\d of \$0\.0010 spent; raise `budget_usd` "
        rf"in the sweep file \(`hab plan {sweep}` with the same options says to how much\), "
        r"then repeat the same command",
        last,
    )
    assert "sends them again" not in poor and poor.count("raise") == 1
    assert poor.count("budget reached: up to $") == 1 and "overall" not in poor
    assert 0 < sim.meter()["batch"]["nanousd"] <= 1_000_000
    changed(sweep, budget_usd=1.0)
    desk.says("run", sweep, "--yes")
    assert sim.billed_once(2 * TESTS)


def test_every_stage_by_batch(desk: Desk) -> None:
    """Every stage can go by batch, embeddings too, and Ray is not started."""
    desk.environment["RAY_ADDRESS"] = "127.0.0.1:1"  # whoever starts Ray fails here
    sweep = desk.write(
        "whole",
        mode="batch",
        budget_usd=5.0,
        dimensions=["correct_misinformation", "encourage_learning"],
        generate={"model": "gpt-4.1", "candidates": 12},
        validate={"model": "claude-haiku-4-5", "keep": 8},
        select={"embedding": "text-embedding-3-small", "tests": 2},
        subjects=["gemini-3.8-flash", "gpt-6-luna"],
        judges=["gpt-6.1-terra"],
    )
    assert "online calls are made" not in desk.hab("plan", sweep, "--long").stdout
    done = desk.says("rehearse", sweep, "--turnaround", 0.5)
    assert "8 of 8 scores by dimension" in done and "the bills agree" in done
    assert "received" not in done and re.search(r"(\d+) batch(?:es)? with (\d+) calls, \2 billed", done)


def test_a_mixed_run_on_ray_is_killed(cluster_desk: Desk, vendor: Vendors) -> None:
    """A run on Ray by batch and online whose driver is killed while lanes call goes on and pays once."""
    sim = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 2}}, latency={"kind": "fixed", "value_s": 0.5})
    sweep = sweep_file(cluster_desk.folder, "anthropic", sim.url, "mixed")
    account = account_of(sweep) | {"limits": {"concurrent": 1}}
    judges = [{"model": MODELS["anthropic"], "mode": "online"}]
    changed(sweep, judges=judges, tests="seeds", providers={"anthropic": account})

    killed = cluster_desk.start("run", sweep, "--yes")
    until(lambda: sim.meter()["received"] >= 2, killed)
    killed.kill()
    killed.communicate()
    cluster_desk.says("run", sweep, "--yes")
    meter = sim.meter()
    assert meter["batch"]["lines_billed"] == SEEDS
    assert meter["billed"] - SEEDS == meter["billed_more_than_once"]["bodies"] <= OPEN_AT_KILL


def test_deadline_sends_online(desk: Desk, vendor: Vendors) -> None:
    """With `mode: auto` the deadline cancels open batches and sends their rows online."""
    sim = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 60_000}})
    sweep = sweep_file(desk.folder, "anthropic", sim.url, "urgent")
    subjects = [{"model": MODELS["anthropic"], "name": f"s{n}", "system": f"You are number {n}."} for n in range(3)]
    changed(sweep, mode="auto", deadline="0.15m", tests="seeds", dimensions="all", subjects=subjects)
    assert "was not done by the deadline" in desk.says("run", sweep, "--yes")
    meter = sim.meter()
    assert meter["batch"]["cancelled"] == 1 and meter["batch"]["lines_billed"] == 0
    assert meter["billed"] == 2 * 3 * 6 * 12 and meter["billed_more_than_once"]["bodies"] == 0


def test_a_batch_collected_while_its_calls_wait_to_be_sent_is_not_paid_for_again(desk: Desk, vendor: Vendors) -> None:
    """The calls of a judge wait for a new subject's; meanwhile the batch that has them ends, and online calls begin."""
    sim = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 2.0}}, latency={"kind": "fixed", "value_s": 0.7})
    sweep = sweep_file(desk.folder, "openai", sim.url, "late")
    model = MODELS["openai"]
    subjects = [{"model": model, "mode": "online"}, {"model": model, "mode": "online", "name": "new", "system": "Hi."}]
    desk.says("run", changed(sweep, subjects=subjects[:1]), "--yes", "--detach", status=3)
    account = account_of(sweep) | {"limits": {"concurrent": 1}}
    desk.says("run", changed(sweep, mode="online", subjects=subjects, providers={"openai": account}), "--yes")
    assert sim.billed_once(TESTS) and sim.meter()["billed"] == 3 * TESTS


def test_batches_are_found_whatever_their_provider_is_called(tmp_path: Path) -> None:
    """Nobody could cancel those that are not. A damaged record of a provider that the run does not use is not read."""
    gateway = {"kind": "openai", "url": "http://localhost:1/v1", "price": {"input": 1, "output": 4}}
    providers = {"My-GW": {**gateway, "batch": {"discount": 0.5}}}
    work = replace(work_of(tmp_path, providers=providers, subjects=["My-GW/a"], judges=["My-GW/j"]), run_id="r")
    store = open_folder(work.sweep.store)
    store.put("runs/r/000001.json", b"{}")
    store.put("ledger/mistral/000001/001-intent.json", b"{")
    Ledger(store, "My-GW").add(Batch("My-GW", 1), intent())
    assert [batch.name for batch in batches_of(work)] == ["My-GW/000001"]
