"""Every decision of the driver, among fakes: no network, process or sleep."""

from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from hab_ray.catalog.prices import Mode
from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.jobs import Counters, OpenKind
from hab_ray.errors import ConfigError, EngineBroke
from hab_ray.executors.protocol import (
    CallsSpooled,
    Channel,
    CountersRead,
    ExecutorDied,
    ShardSettled,
    Spool,
    WorkerReplaced,
)
from hab_ray.stages import wiring
from hab_ray.sweep import dispatching
from hab_ray.sweep.dispatching import GATHER_BATCH_S, GATHER_S, MIN_BATCH
from hab_ray.sweep.driver import MAX_DEATHS, MAX_REPEATS, POLL_S
from hab_ray.sweep.monitoring.counters import RunCounters
from hab_ray.sweep.monitoring.reporting import being_computed
from hab_ray.sweep.routing import MAX_EMPTY_ROUNDS
from hab_ray.sweep.shards import Shards, ShardStatus
from hab_ray.work import Work
from tests.sweep.conftest import MADE, ONE, TWO, MakeBench, work_of

BATCHES: dict[str, Any] = {
    "providers": {"lab": {"kind": "openai", "url": "http://lab/v1", "price": {"input": 0}, "batch": {"discount": 0.5}}}
}


def test_the_order_of_work_is_that_of_the_method(bench: MakeBench) -> None:
    b = bench(**MADE)
    b.driver.reconcile(detach=False)
    stages = [line.split()[1] for line in b.logged("online")]
    assert stages == ["generate", "validate", "select", "respond", "judge"]
    tests = f"tests/{ONE}.parquet"
    computed, chosen = b.log.index(f"compute {tests}"), b.log.index(f"chosen {tests}")
    assert computed < b.log.index(f"publish {tests}", computed) < chosen < b.log.index("online respond lab/a: 3")
    assert len(b.logged("chosen")) == len(b.logged("compute"))
    assert {state.status for state in b.shards.all} == {ShardStatus.COMPLETE}
    assert b.counters.notes == [f"{ONE}: a note"]


def test_rows_of_a_package_are_not_called_a_choice_of_tests(bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(**MADE)
    b.state("choose", "").status = ShardStatus.COMPUTING
    assert being_computed(b.shards) == (1, ())
    monkeypatch.setattr(wiring, "packages", lambda: {"choose": "acme-hab 0.3"})
    assert being_computed(b.shards) == (0, ("'choose' of the package acme-hab 0.3",))


def test_a_dimension_without_tests_keeps_the_run_incomplete_and_says_why(bench: MakeBench) -> None:
    b = bench(total=0, **MADE)
    b.driver.reconcile(detach=False)
    statuses = {state.shard.stage: state.status for state in b.shards.all}
    assert statuses["choose"] is ShardStatus.STALLED and statuses["respond"] is ShardStatus.WAITING
    assert b.counters.notes == [f"{ONE}: a note"] and not b.logged("chosen", "online")


def test_a_shard_is_settled_once_before_its_calls_are_sent_and_once_after(bench: MakeBench) -> None:
    b = bench()
    b.driver.reconcile(detach=False)
    assert set(Counter(b.logged("settle")).values()) == {2}
    assert Counter(b.logged("publish")) == Counter(
        {line.replace("settle", "publish"): 2 for line in set(b.logged("settle"))}
    )


def test_shards_of_one_stage_and_provider_go_out_together(bench: MakeBench) -> None:
    b = bench()
    b.driver.reconcile(detach=False)
    assert b.logged("online") == ["online respond lab/a: 12", "online judge lab/j: 12"]


def test_a_dispatch_waits_for_shards_to_come_but_not_for_long(bench: MakeBench) -> None:
    b = bench()
    b.workers.slow = lambda shard: shard.dimension == TWO
    b.clock.steps[100] = b.workers.release
    b.driver.reconcile(detach=False)
    started = b.log.index("online respond lab/a: 6")
    assert b.clock.waits >= 100 and b.log[started:].count("online respond lab/a: 6") == 2
    assert GATHER_S < 100 * 0.25


@pytest.mark.parametrize(("waits", "dispatches"), [(GATHER_BATCH_S / 2, [12]), (2 * GATHER_BATCH_S, [6, 6])])
def test_batches_wait_longer_for_shards_being_settled(bench: MakeBench, waits: float, dispatches: list[int]) -> None:
    """Calls that are dispatched together are one sample, and one that is cut in parts takes more rounds."""
    b = bench(mode="batch", subjects=["lab/a", "lab/b"], **BATCHES)
    b.workers.slow = lambda shard: shard.dimension == TWO and shard.stage == "respond"
    b.clock.steps[int(waits / POLL_S)] = b.workers.release
    b.driver.reconcile(detach=False)
    by_batch = [line for line in b.logged("batch") if "respond lab/a" in line]
    assert [int(line.split()[-1]) for line in by_batch] == [count // 2 for count in dispatches]


def test_while_a_dispatch_is_open_no_other_of_its_stage_and_provider_starts(bench: MakeBench) -> None:
    b = bench()
    b.online.answers = False
    b.workers.slow = lambda shard: shard.dimension == TWO
    b.clock.steps[40] = b.workers.release
    b.clock.steps[80] = lambda: setattr(b.online, "answers", True)
    b.clock.steps[79] = lambda: b.log.append("still one") if len(b.logged("online")) == 1 else None
    b.driver.reconcile(detach=False)
    assert "still one" in b.log and len(b.logged("online respond")) == 2


def test_an_added_stage_that_always_asks_anew_ends_the_run(bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(dimensions=[ONE], subjects=["lab/a"])
    monkeypatch.setattr(wiring, "packages", lambda: {"respond": "acme-hab 0.3"})
    monkeypatch.setattr(b.rows, "answer", lambda *_: None)
    with pytest.raises(ConfigError, match=r"acme-hab 0\.3, which adds the stage 'respond', .* `requests` .* 3 times"):
        b.driver.reconcile(detach=False)
    assert b.logged("online") == ["online respond lab/a: 3"] * (MAX_REPEATS + 1)


@pytest.mark.parametrize("packages", [{}, {"respond": "acme-hab 0.3"}])
def test_lost_answers_end_no_run(packages: dict[str, str], bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round answers less than was asked for: the rest is asked again as often as it takes.

    An unreadable verdict, or an answer that a batch did not bring, is open after settling.
    """
    b = bench(total=8, dimensions=[ONE], subjects=["lab/a"])
    monkeypatch.setattr(wiring, "packages", lambda: packages)
    b.online.slowly = True
    b.driver.reconcile(detach=False)
    assert b.logged("online respond") == [f"online respond lab/a: {n}" for n in range(8, 0, -1)]
    assert {state.status for state in b.shards.all} == {ShardStatus.COMPLETE}


def test_rows_given_up_stall_a_shard_and_a_judge_reads_what_there_is(bench: MakeBench) -> None:
    b = bench(dimensions=[ONE], subjects=["lab/a"])
    b.online.refused = {"1": OpenKind.UNANSWERED}
    b.driver.reconcile(detach=False)
    assert b.state("respond", "lab/a").status is ShardStatus.STALLED
    assert b.state("respond", "lab/a").given_up == {"1": "no answer"}
    assert b.logged("online judge") == ["online judge lab/j: 2"]
    assert not b.counters.budget_reached


def test_a_reached_budget_is_noted_and_nothing_is_asked_twice(bench: MakeBench) -> None:
    b = bench(**MADE)
    b.online.refused = {"0": OpenKind.BUDGET, "2": OpenKind.BUDGET}
    b.driver.reconcile(detach=False)
    assert b.counters.budget_reached and b.logged("online") == ["online generate lab/w: 3"]
    assert b.state("validate", "lab/v").status is ShardStatus.WAITING


def test_rows_that_a_stop_left_are_not_given_up(bench: MakeBench) -> None:
    b = bench(dimensions=[ONE], subjects=["lab/a"])
    b.online.refused = {"0": OpenKind.STOPPED}
    b.clock.steps[6] = lambda: b.online.refused.clear()
    b.driver.reconcile(detach=False)
    assert not b.state("respond", "lab/a").given_up


def test_an_interrupt_ends_the_loop_and_starts_nothing(bench: MakeBench) -> None:
    b = bench()
    b.reconcile_until(1)
    assert not b.logged("online", "batch")


def test_detached_the_loop_ends_once_all_is_with_the_vendors(bench: MakeBench) -> None:
    b = bench(**BATCHES, mode="batch")
    b.batches.answers = False
    b.batches.is_parked = False
    b.clock.steps[20] = lambda: setattr(b.batches, "is_parked", True)
    b.driver.reconcile(detach=True)
    assert b.clock.waits >= 20 and len(b.logged("batch respond")) == 2
    assert b.state("respond", "lab/a").status is ShardStatus.RUNNING


def test_a_run_with_nothing_else_to_do_ends_only_once_an_ended_batch_is_collected(bench: MakeBench) -> None:
    """The batch is of a subject that the sweep no longer names, so no shard waits for its rows."""
    b = bench(dimensions=[ONE], subjects=["lab/a"])
    channel = Channel("lab", Mode.BATCH)
    b.batches.events = [CountersRead(channel, BatchCounters(ending=1))]
    b.clock.steps[100] = lambda: b.batches.events.append(CountersRead(channel, BatchCounters()))
    b.driver.reconcile(detach=False)
    assert b.clock.waits == 100
    assert {state.status for state in b.shards.all} == {ShardStatus.COMPLETE}


def test_what_runs_at_the_end_is_settled_once_more(bench: MakeBench) -> None:
    b = bench(**BATCHES, mode="batch", dimensions=[ONE], subjects=["lab/a"])
    b.batches.answers = False
    b.driver.reconcile(detach=True)
    b.rows.answer(b.state("respond", "lab/a").shard, ["0", "1"])
    b.driver.settle_rest(b.workers)
    assert b.state("respond", "lab/a").settled == 2


def test_each_model_has_batches_of_its_own(bench: MakeBench) -> None:
    b = bench(**BATCHES, mode="batch")
    b.driver.reconcile(detach=False)
    assert b.logged("batch") == ["batch respond lab/a: 6", "batch respond lab/b: 6", "batch judge lab/j: 12"]


@pytest.mark.parametrize(("total", "word"), [(49, "online"), (50, "batch")])
def test_auto_counts_the_rows_that_a_stage_will_have(bench: MakeBench, total: int, word: str) -> None:
    """Of four shards of a judge only one is ready; the model and stage will have 200 calls."""
    b = bench(**BATCHES, total=total)
    ready = b.state("respond", "lab/a")
    b.workers.slow = lambda shard: shard.stage == "respond" and shard != ready.shard
    b.rows.answer(ready.shard, list(map(str, range(total))))
    for state in b.shards.all:
        if state.shard.stage == "respond":
            state.total = total
    b.reconcile_until(30)
    assert b.logged("online", "batch") == [f"{word} judge lab/j: {total}"]


def test_auto_counts_tests_that_are_still_to_be_chosen(bench: MakeBench) -> None:
    """Of two dimensions one has its tests: the other will have as many."""
    sweep = {**MADE, **BATCHES, "dimensions": [ONE, TWO], "mode": "auto"}
    b = bench(**sweep, total=150)
    b.workers.slow = lambda shard: shard.stage == "choose" and shard.dimension == TWO
    b.clock.steps[80] = b.workers.release
    b.driver.reconcile(detach=False)
    assert b.logged("batch respond", "online respond")[0] == "batch respond lab/a: 150"


def test_calls_beside_some_in_an_open_batch_go_online_at_once(bench: MakeBench) -> None:
    b = bench(**BATCHES, mode="online", total=5, dimensions=[ONE], subjects=["lab/a"])
    b.batches.in_batches = {"1": {"3"}, "3": {"3"}}  # the spools of the subject's first two settlings
    b.driver.reconcile(detach=False)
    assert b.logged("online respond", "batch") == ["online respond lab/a: 4", "batch respond lab/a: 1"]
    assert {state.status for state in b.shards.all} == {ShardStatus.COMPLETE}
    assert "1" in b.files.removed


def test_after_the_deadline_batches_are_given_up_and_auto_goes_online(bench: MakeBench) -> None:
    late = bench(**BATCHES, mode="batch", deadline_s=0, dimensions=[ONE])
    late.driver.reconcile(detach=False)
    assert not late.logged("batch", "online")
    assert "deadline has passed" in late.state("respond", "lab/a").given_up["0"]
    auto = bench(**BATCHES, total=200, deadline_s=0, dimensions=[ONE])
    auto.driver.reconcile(detach=False)
    assert not auto.logged("batch") and len(auto.logged("online")) == 2


def test_a_model_whose_batches_are_refused_goes_online_only_with_auto(bench: MakeBench) -> None:
    refused = CountersRead(Channel("lab", Mode.BATCH), BatchCounters(refused={"lab/a": "no batches of this one"}))
    for mode, expected in (("batch", []), ("auto", ["online respond lab/a: 200"])):
        b = bench(**BATCHES, total=200, mode=mode, dimensions=[ONE], subjects=["lab/a"])
        b.driver.handle(refused)
        b.driver.reconcile(detach=False)
        assert b.logged("online respond", "batch respond") == expected
        if mode == "batch":
            assert "no batches of this one" in b.state("respond", "lab/a").given_up["0"]


def test_a_model_that_was_stopped_is_sent_nothing_more(bench: MakeBench) -> None:
    b = bench(**BATCHES, mode="batch", dimensions=[ONE])
    b.driver.handle(CountersRead(Channel("lab", Mode.BATCH), BatchCounters(stops={"lab/a": "retired"})))
    b.driver.reconcile(detach=False)
    assert b.state("respond", "lab/a").given_up["0"] == "retired"
    assert b.logged("batch respond") == ["batch respond lab/b: 3"]


def test_the_first_reason_for_a_stop_stays_though_calls_in_flight_end_with_others() -> None:
    """Each reason is printed, and a vendor's texts differ by request ids."""
    counters, channel = RunCounters([], frozenset()), Channel("lab", Mode.ONLINE)
    for reason in ("request 1 failed", "request 2 failed"):
        counters.update(channel, Counters(stops={"a": reason}))
    assert counters.stops == {f"{channel} a": "request 1 failed"}


def test_batches_that_bring_nothing_are_given_up(bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(**BATCHES, mode="batch", dimensions=[ONE], subjects=["lab/a"])
    monkeypatch.setattr(b.rows, "answer", lambda *_: None)
    b.driver.reconcile(detach=False)
    assert len(b.logged("batch respond")) == MAX_EMPTY_ROUNDS
    assert "returned no answer" in b.state("respond", "lab/a").given_up["0"]


def test_rows_that_a_full_queue_sent_back_are_no_empty_round(bench: MakeBench) -> None:
    b = bench(**BATCHES, mode="batch", dimensions=[ONE], subjects=["lab/a"])
    answer, rounds = b.rows.answer, 2 * MAX_EMPTY_ROUNDS
    number = b.state("respond", "lab/a").number

    def deferred(*_: object) -> None:
        counted = b.batches.counters[Channel("lab", Mode.BATCH)]
        assert isinstance(counted, BatchCounters)
        counted.deferred[number] += 3
        if len(b.logged("batch respond")) >= rounds:
            b.rows.answer = answer  # type: ignore[method-assign]

    b.rows.answer = deferred  # type: ignore[method-assign, assignment]
    b.driver.reconcile(detach=False)
    assert len(b.logged("batch respond")) == rounds + 1
    assert b.state("respond", "lab/a").status is ShardStatus.COMPLETE


def test_the_error_of_an_executor_that_died_ends_the_run(bench: MakeBench) -> None:
    b = bench()
    b.clock.steps[3] = lambda: b.online.events.append(ExecutorDied(EngineBroke("the raylet died")))
    b.online.answers = False
    with pytest.raises(EngineBroke, match="raylet"):
        b.driver.reconcile(detach=False)


def test_a_worker_that_died_is_replaced_and_what_it_left_is_asked_again(bench: MakeBench) -> None:
    b = bench(dimensions=[ONE], subjects=["lab/a"])
    b.online.answers = False

    def die() -> None:
        cut = Counters(in_flight=Counter({"lab/a": 2}), reserved_nanousd=70, spent_nanousd=5).written_off()
        b.rows.answer(b.state("respond", "lab/a").shard, ["0"])
        b.online.events.append(CountersRead(Channel("lab", Mode.ONLINE), cut))
        b.kill_worker()
        b.online.answers = True

    b.clock.steps[3] = die
    b.driver.reconcile(detach=False)
    assert b.logged("online respond") == ["online respond lab/a: 3", "online respond lab/a: 2"]
    assert "died" in b.counters.notes[0]


def test_a_worker_that_dies_again_and_again_ends_the_run(bench: MakeBench) -> None:
    b = bench(dimensions=[ONE], subjects=["lab/a"])
    b.online.answers = False
    b.clock.steps = {10 * n: b.kill_worker for n in range(1, 10)}
    with pytest.raises(EngineBroke):
        b.driver.reconcile(detach=False)
    assert len(b.logged("online respond")) == 1 + MAX_DEATHS


def test_workers_may_die_often_as_long_as_rows_are_finished_between(bench: MakeBench) -> None:
    b = bench(dimensions=[ONE], subjects=["lab/a"])
    b.online.answers = False
    channel, deaths = Channel("lab", Mode.ONLINE), 3 * MAX_DEATHS

    def die() -> None:
        counted = Counters(finished=Counter({99: len(b.counters.notes) + 1}))
        b.online.events += [CountersRead(channel, counted), WorkerReplaced(channel, EngineBroke("died"))]

    b.clock.steps = {10 * n: die for n in range(1, deaths + 1)}
    b.reconcile_until(10 * deaths + 5)
    assert len(b.counters.notes) == deaths


def test_an_answer_to_an_older_order_publishes_nothing(bench: MakeBench) -> None:
    b = bench(dimensions=[ONE], subjects=["lab/a"])
    b.workers.slow = lambda _: True
    b.reconcile_until(1)
    old = b.workers.settled(b.workers.held[0])
    b.state("respond", "lab/a").settle(99, is_early=False)
    b.driver.handle(old)
    assert not b.logged("publish") and b.files.discarded == [old.settle.order]
    assert b.state("respond", "lab/a").status is ShardStatus.SETTLING


def test_files_of_an_order_go_once_nobody_reads_them(bench: MakeBench) -> None:
    b = bench(dimensions=[ONE], subjects=["lab/a"])
    b.driver.reconcile(detach=False)
    settles = [event for event in b.log if event.startswith("settle")]
    assert len(b.files.discarded) + len(b.files.removed) == len(settles)
    assert len(b.files.removed) == len(set(b.files.removed)) == 2


def test_a_view_that_is_complete_is_not_published_again(bench: MakeBench) -> None:
    b = bench(dimensions=[ONE], subjects=["lab/a"])
    b.workers.slow = lambda _: True

    def answer_all() -> None:
        held, b.workers.held = b.workers.held, []
        b.workers.events += [ShardSettled(order, 3, 3, is_done=True) for order in held]

    b.clock.steps = {n: answer_all for n in range(1, 10)}
    b.driver.reconcile(detach=False)
    assert {state.status for state in b.shards.all} == {ShardStatus.COMPLETE}
    assert not b.logged("publish", "online")
    assert b.reports


def test_rows_flow_while_their_source_is_under_way_and_are_settled_once_after_it(bench: MakeBench) -> None:
    b = bench(total=4, dimensions=[ONE], subjects=["lab/a"])
    b.online.flows = b.online.slowly = True
    b.driver.reconcile(detach=False)
    flowed = [dispatch for dispatch in b.online.dispatched if dispatch.is_flowing]
    assert [dispatch.stage for dispatch in flowed] == ["judge"] * len(flowed) and flowed
    first_judge = b.log.index("online judge lab/j: 1")
    assert first_judge < b.log.index("online respond lab/a: 1"), "the judge starts before the last response is asked"
    assert b.state("judge", "lab/j", subject="lab/a").settled == 4
    assert {state.status for state in b.shards.all} == {ShardStatus.COMPLETE}
    assert sorted(b.rows.answered[b.state("judge", "lab/j", subject="lab/a").shard]) == ["0", "1", "2", "3"]


def test_rows_that_all_flowed_need_no_dispatch_of_their_shard(bench: MakeBench) -> None:
    b = bench()
    b.online.flows = True
    b.driver.reconcile(detach=False)
    judged = [dispatch for dispatch in b.online.dispatched if dispatch.stage == "judge"]
    assert judged and all(dispatch.is_flowing for dispatch in judged)
    assert Counter(b.logged("settle verdicts")) == Counter(set(b.logged("settle verdicts")))
    assert {state.status for state in b.shards.all} == {ShardStatus.COMPLETE}


def test_only_sources_whose_own_tasks_are_settled_feed_others(bench: MakeBench) -> None:
    b = bench(**MADE, deduplicate="off")
    b.driver.reconcile(detach=False)
    feeds = {dispatch.stage: [feed.shard.stage for feed in dispatch.feeds] for dispatch in b.online.dispatched}
    assert feeds == {"generate": ["generate"], "validate": [], "select": [], "respond": ["respond"], "judge": []}
    dependents = [d.shard.stage for dispatch in b.online.dispatched for f in dispatch.feeds for d in f.dependents]
    assert dependents == ["validate", "judge"]


def test_rows_that_were_there_before_are_judged_while_the_rest_is_asked(bench: MakeBench) -> None:
    """A run that goes on: nobody feeds what was answered before, so the judge is settled early for it."""
    b = bench(total=4, dimensions=[ONE], subjects=["lab/a"])
    b.rows.answer(b.state("respond", "lab/a").shard, ["0", "1"])
    b.online.answers = False
    b.clock.steps[60] = lambda: setattr(b.online, "answers", True)
    b.clock.steps[59] = lambda: b.log.append("still asking")
    b.driver.reconcile(detach=False)
    assert b.log.index("online judge lab/j: 2") < b.log.index("still asking")
    assert b.logged("online judge") == ["online judge lab/j: 2"] * 2
    assert b.state("judge", "lab/j", subject="lab/a").settled == 4
    assert {state.status for state in b.shards.all} == {ShardStatus.COMPLETE}


def test_a_shard_settled_early_is_not_complete(bench: MakeBench) -> None:
    b = bench(total=3, dimensions=[ONE], subjects=["lab/a"])
    response, verdict = b.state("respond", "lab/a"), b.state("judge", "lab/j", subject="lab/a")
    b.rows.answer(response.shard, ["0"])
    b.rows.answer(verdict.shard, ["0"])
    b.online.refused = {"1": OpenKind.UNANSWERED, "2": OpenKind.UNANSWERED}
    b.online.answers = False
    b.clock.steps[30] = lambda: b.log.append(f"the judge is {verdict.status}")
    b.clock.steps[31] = lambda: setattr(b.online, "answers", True)
    b.driver.reconcile(detach=False)
    assert "the judge is waiting" in b.log
    assert (response.status, verdict.status) == (ShardStatus.STALLED, ShardStatus.COMPLETE)


def test_flowing_batches_wait_for_a_least_size_or_the_end_of_their_source(bench: MakeBench) -> None:
    judges = [{"model": "lab/j", "mode": "batch"}]
    subjects = [{"model": "lab/a", "mode": "online"}]
    for total, sizes in ((300, [300]), (MIN_BATCH, [MIN_BATCH])):
        b = bench(**BATCHES, total=total, dimensions=[ONE], subjects=subjects, judges=judges)
        b.online.flows = True
        b.driver.reconcile(detach=False)
        assert b.logged("batch") == [f"batch judge lab/j: {size}" for size in sizes]
        assert [dispatch.is_flowing for dispatch in b.batches.dispatched] == [total >= MIN_BATCH]


def test_no_more_flows_to_an_executor_than_it_has_room_for(bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatching, "MAX_ONLINE", 5)
    b = bench(total=6, dimensions=[ONE, TWO], subjects=["lab/a"])
    b.online.flows = True
    b.driver.reconcile(detach=False)
    judged = [dispatch for dispatch in b.online.dispatched if dispatch.stage == "judge"]
    assert [(dispatch.is_flowing, len(dispatch.spools)) for dispatch in judged] == [(True, 1), (False, 1)]
    assert {state.status for state in b.shards.all} == {ShardStatus.COMPLETE}


def test_calls_that_flow_late_are_left_to_settling(bench: MakeBench) -> None:
    b = bench(dimensions=[ONE], subjects=["lab/a"])
    b.driver.reconcile(detach=False)
    late = Spool("late", "judge", "lab", "lab/j", {b.state("judge", "lab/j", subject="lab/a").number: 3})
    b.driver.handle(CallsSpooled((late,)))
    assert b.files.removed[-1] == "late"


def test_calls_that_flow_and_are_in_an_open_batch_are_left_to_settling(bench: MakeBench) -> None:
    b = bench(**BATCHES, mode="online", dimensions=[ONE], subjects=["lab/a"])
    b.online.flows = True
    b.batches.in_batches = {"flow-1": {"0"}}
    b.driver.reconcile(detach=False)
    assert "flow-1" in b.files.removed and not any(dispatch.is_flowing for dispatch in b.online.dispatched)
    assert b.state("judge", "lab/j", subject="lab/a").status is ShardStatus.COMPLETE


def test_flowing_calls_do_not_decide_for_those_in_a_batch(bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts on earlier answers are in a batch, and the other answers come while they wait to be dispatched."""
    monkeypatch.setattr(dispatching, "MIN_BATCH", 2)
    b = bench(**BATCHES, total=6, mode="online", dimensions=[ONE], subjects=["lab/a"])
    b.rows.answer(b.state("respond", "lab/a").shard, ["0", "1"])
    b.batches.in_batches = {"2": {"0", "1"}}  # the judge's spool of its early settling
    b.online.flows = b.online.slowly = True
    b.online.answers = False
    b.clock.steps[3] = lambda: setattr(b.online, "answers", True)
    b.driver.reconcile(detach=False)
    assert "2" not in [spool.file for dispatch in b.online.dispatched for spool in dispatch.spools]
    assert "2" in b.files.removed and not b.logged("batch"), "those that flow would wait for the batch, or be in one"
    assert any(spool.file.startswith("flow") for dispatch in b.online.dispatched for spool in dispatch.spools)
    assert b.state("judge", "lab/j", subject="lab/a").settled == 6


def test_when_a_fed_worker_dies_its_rows_are_found_by_settling(bench: MakeBench) -> None:
    b = bench(total=3, dimensions=[ONE], subjects=["lab/a"])
    b.online.flows = b.online.slowly = True
    b.clock.steps[4] = b.kill_worker
    b.driver.reconcile(detach=False)
    assert {state.status for state in b.shards.all} == {ShardStatus.COMPLETE}
    assert b.state("judge", "lab/j", subject="lab/a").settled == 3


def test_calls_settled_early_and_too_few_for_a_batch_go_with_the_others(bench: MakeBench) -> None:
    b = bench(**BATCHES, mode="batch", total=4, dimensions=[ONE], subjects=["lab/a"])
    b.rows.answer(b.state("respond", "lab/a").shard, ["0"])
    b.driver.reconcile(detach=False)
    assert b.logged("batch") == ["batch respond lab/a: 3", "batch judge lab/j: 4"]
    assert {state.status for state in b.shards.all} == {ShardStatus.COMPLETE}


@pytest.mark.parametrize(("judge", "flows"), [("lab/j", True), ("smollm2-135m", False)])
def test_rows_do_not_flow_to_a_server_of_this_machine(tmp_path: Path, judge: str, flows: bool) -> None:
    """Its calls would come in turns with others, and each would be read from its beginning."""
    shards = Shards(work_of(tmp_path, judges=[judge]))
    answering = [state for state in shards.all if state.shard.stage == "respond"]
    assert answering and [shards.feed(state) is not None for state in answering] == [flows] * len(answering)


def test_a_shard_of_a_large_sweep_costs_no_more_than_one_of_a_small_one(bench: MakeBench) -> None:
    """Counted in look-ups of its model."""

    def per_shard(subjects: int) -> float:
        made = bench(subjects=[f"lab/{n}" for n in range(subjects)])
        with patch.object(Work, "model", autospec=True, side_effect=Work.model) as model:
            made.driver.reconcile(detach=False)
        return model.call_count / len(made.shards.all)

    assert per_shard(20) <= per_shard(2)
