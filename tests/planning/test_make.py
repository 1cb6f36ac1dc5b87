"""The plan against the calls that a run really makes."""

import io
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hab_ray.catalog.base import PriceStep, UsdPrice
from hab_ray.catalog.prices import NANO
from hab_ray.catalog.settings import Unheeded
from hab_ray.cli.views.plan_view import print_plan, to_json
from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.planning import Plan, make_plan
from hab_ray.planning.rounds import rounds_together
from hab_ray.stages import wiring
from hab_ray.stages.method.respond import RespondStage
from hab_ray.stages.wiring import stages
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.lease.lease import LocalLease
from hab_ray.work import Work, given_tests
from tests.instant import DIMENSIONS, MADE, NOW, Run, by_cell, open_calls, work_of


def shown_plan(work: Work, plan: Plan) -> str:
    console = Console(record=True, width=160, file=io.StringIO())
    print_plan(work, plan, [], console)
    return console.export_text()


def test_with_given_tests_the_plan_is_what_the_run_asks(tmp_path: Path) -> None:
    run = Run(work_of(tmp_path))
    before = run.plan()
    assert all(line.exact for line in before.lines if line.stage == "respond")
    run.all()
    # A subject that is another one's double shares every call with it, and so do its judges: what can be known of
    # that before the responses are there is known.
    asked = {cell: n for cell, n in open_calls(before).items() if cell[0] == "respond"}
    assert asked == {cell: n for cell, n in run.made.items() if cell[0] == "respond"}
    assert not any(cell[1] == "again" for cell in asked)


def test_verdicts_on_responses_to_come_are_counted_right(tmp_path: Path) -> None:
    run = Run(work_of(tmp_path, subjects=["house/a"], samples=2))
    before = run.plan()
    assert not before.exact
    judged = {cell: n for cell, n in open_calls(before).items() if cell[0] == "judge"}
    seeds = {d: len(tests) for d, tests in given_tests(run.work).items()}
    assert judged == {("judge", j, d): 2 * n for j in ("house/j", "house/k") for d, n in seeds.items()}


@pytest.mark.parametrize("validation", [MADE["validate"], "off"])
def test_each_stage_is_exact_as_soon_as_the_one_before_is_done(tmp_path: Path, validation: Any) -> None:
    run = Run(work_of(tmp_path, **{**MADE, "validate": validation}))
    for stage in (s for s in stages() if s != "validate" or validation != "off"):
        planned = {cell: n for cell, n in open_calls(run.plan()).items() if cell[0] == stage}
        assert all(line.exact for line in run.plan().lines if line.stage == stage)
        run.made = Counter()
        run.all(stage)
        assert planned == dict(run.made)
    assert run.plan().total.to_pay == 0


def test_later_stages_are_counted_before_their_tests_exist(tmp_path: Path) -> None:
    calls = {cell[0]: n for cell, n in open_calls(Run(work_of(tmp_path, **MADE, subjects=["house/a"])).plan()).items()}
    assert calls == {
        "generate": 3,  # 7 candidates, 3 a call
        "validate": 7,
        "select": 5,
        "respond": 4,
        "judge": 4,
    }


def test_what_is_in_the_store_costs_nothing_and_is_shown(tmp_path: Path) -> None:
    run = Run(work_of(tmp_path, subjects=["house/a"], judges=["house/j"]))
    before = run.plan()
    run.take(next(s for s in run.work.shards() if s.stage == "respond"))
    half = run.plan().total
    assert 0 < half.reused < half.calls
    assert half.online < before.total.online
    run.all()
    done = run.plan()
    assert done.total.reused == done.total.calls == before.total.calls
    assert (done.total.online, done.total.most_online, done.seconds, done.online_budget) == (0, 0, 0.0, 0)


def test_another_runs_replies_in_the_same_store_count(tmp_path: Path) -> None:
    Run(work_of(tmp_path, subjects=["house/a"])).all()
    other = Run(work_of(tmp_path, run=str(tmp_path / "other"), subjects=["house/a", "house/b"]))
    figures = by_cell(other.plan())
    assert all(f.to_pay == 0 for (_, name, _), f in figures.items() if name == "house/a")
    assert all(f.reused == 0 for (_, name, _), f in figures.items() if name == "house/b")
    judging = [f for (stage, _, _), f in figures.items() if stage == "judge"]
    assert all(f.reused == f.to_pay for f in judging)


def test_a_plan_reads_each_record_of_the_lease_and_the_list_of_batches_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bucket each is a request."""
    work, read = work_of(tmp_path), Counter[str]()
    for run in (work.run_path, Location.of(tmp_path / "other")):
        LocalLease.acquire(work.sweep.store, run, NOW).release()

    def counting(sound: Callable[..., Any]) -> Callable[..., Any]:
        def counted(folder: LocalFolder, name: str = "") -> Any:
            read[name] += 1
            return sound(folder, name)

        return counted

    for method in (LocalFolder.get, LocalFolder.list):
        monkeypatch.setattr(LocalFolder, method.__name__, counting(method))
    make_plan(work)
    once = {name: n for name, n in read.items() if name.startswith("le")}
    assert once == dict.fromkeys(["lease", "lease/000001.json", "lease/000002.json", "ledger"], 1)


def test_a_new_run_over_a_full_store_chooses_its_tests_to_know_that_nothing_is_paid(tmp_path: Path) -> None:
    Run(work_of(tmp_path, **MADE)).all()
    plan = Run(work_of(tmp_path, **MADE, run=str(tmp_path / "other"))).plan()
    assert plan.exact and plan.total.to_pay == 0 and plan.total.reused == plan.total.calls
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("changes", [{}, MADE])
def test_a_bound_is_never_below_its_estimate_nor_below_what_is_paid(tmp_path: Path, changes: dict[str, Any]) -> None:
    run = Run(work_of(tmp_path, **changes))
    plan = run.plan()
    for line in plan.lines:
        f = line.figures
        assert f.input <= f.most_input and f.output <= f.most_output
        assert f.online <= f.most_online and f.batch <= f.most_batch
        assert abs(2 * f.batch - f.online) <= 2 and f.batchable == f.to_pay
    assert plan.total.online < plan.online_budget <= plan.total.most_online
    assert plan.batch_budget == plan.total.most_batch
    run.all()
    assert run.paid <= plan.total.most_online


@pytest.mark.parametrize(("above", "times"), [(10, 2), (20_000, 1)], ids=["each is long", "only their sum is long"])
def test_a_price_for_long_requests_counts_where_single_requests_are_long(
    tmp_path: Path, above: int, times: int
) -> None:
    work = work_of(tmp_path, subjects=["house/a"], judges=["house/j"])
    before = make_plan(work)
    model = work.models["house/j"]
    price = model.entry.price
    assert price is not None
    parts = price.model_dump(exclude_none=True)
    dear = PriceStep(above=above, **{name: 2 * part for name, part in parts.items()})
    entry = model.entry.model_copy(update={"price": UsdPrice(**parts, steps=(dear,))})
    after = make_plan(replace(work, models={**work.models, "house/j": replace(model, entry=entry)}))
    pairs = [
        (old.figures, new.figures) for old, new in zip(before.lines, after.lines, strict=True) if old.name == "house/j"
    ]
    assert max(old.most_input for old, _ in pairs) > 20_000
    for old, new in pairs:
        assert new.online == pytest.approx(times * old.online, abs=2)
        assert new.most_online == pytest.approx(times * old.most_online, abs=2)


def test_thinking_is_part_of_estimate_and_bound(tmp_path: Path) -> None:
    figures = by_cell(Run(work_of(tmp_path)).plan())
    plain = figures["respond", "house/a", DIMENSIONS[0]]
    deep = figures["respond", "house/deep", DIMENSIONS[0]]
    assert plain.most_output == 1000 * plain.calls
    assert deep.most_output == 2000 * deep.calls
    assert plain.output < deep.output <= deep.most_output


def test_a_stage_that_expects_answers_of_less_than_no_token_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan would promise less than nothing."""
    work = work_of(tmp_path)
    assert work.shards()
    monkeypatch.setattr(RespondStage, "answer_tokens", lambda _: -100_000)
    monkeypatch.setattr(wiring, "packages", lambda: {"respond": "acme-tokens 0.3"})
    with pytest.raises(ConfigError, match=r"acme-tokens 0\.3 expects -100000 tokens per answer of the stage 'respond'"):
        make_plan(work)


def test_what_was_answered_tells_how_long_the_rest_is(tmp_path: Path) -> None:
    """`Run` answers with 100 tokens; verdicts on one subject measure those on another in the same dimension."""
    run = Run(work_of(tmp_path, subjects=["house/a", "house/b"], judges=["house/j"]))
    assert all(line.assumed for line in run.plan().lines)
    run.all("respond")
    first = next(s for s in run.work.shards() if s.stage == "judge")
    for _, call in run.work.settled(first, run.work.tasks(first), run.store()).open[:3]:
        run.answer(first, call)
    run.writer.flush()
    lines = [line for line in run.plan().lines if line.stage == "judge"]
    assert [line.measured for line in lines if line.dimension == first.dimension] == [3, 0]
    for line in lines:
        known = line.dimension == first.dimension
        assert line.assumed is not known
        assert (
            line.figures.output
            == (100 if known else 70 * len(run.work.rubrics[line.dimension].judging.issues)) * line.figures.to_pay
        )


def test_complete_views_tell_how_long_answers_are_too(tmp_path: Path) -> None:
    """`Run` writes the views of complete shards: nothing else is known of a judge when a subject is added."""
    run = Run(work_of(tmp_path, subjects=["house/a"], judges=["house/j"]))
    run.all()
    grown = Run(work_of(tmp_path, subjects=["house/a", "house/b"], judges=["house/j"]))
    assert all(grown.work.written(shard) for shard in run.work.shards() if shard.spec.has_view)
    lines = [line for line in grown.plan().lines if line.stage == "judge" and line.figures.to_pay]
    assert lines and not any(line.assumed for line in lines)
    assert all(line.figures.output == 100 * line.figures.to_pay for line in lines)


def test_a_measured_latency_takes_the_place_of_the_assumed_one(tmp_path: Path) -> None:
    run = Run(work_of(tmp_path, subjects=["house/a"], judges=["house/j"]))
    respond, judge = make_plan(run.work, {("respond", "house/a"): 20.0}).times
    calls = sum(line.figures.to_pay for line in run.plan().lines if line.stage == "respond")
    assert (respond.a_call, judge.a_call) == (20.0, None)
    assert respond.seconds == pytest.approx(calls * 20.0 / 2)


def test_time_follows_the_limit_that_is_reached_first(tmp_path: Path) -> None:
    run = Run(work_of(tmp_path, subjects=["house/a"], judges=["house/j"]))
    plan = run.plan()
    calls = {stage: f.to_pay for stage, f in plan.grouped(lambda line: line.stage).items()}
    a_call = 1 + 300 / 60  # seconds, two at a time: slower than 60 a minute
    assert [t.stage for t in plan.times] == ["respond", "judge"]
    assert plan.times[0].seconds == pytest.approx(calls["respond"] * a_call / 2)


def test_of_the_tokens_of_a_minute_each_call_takes_what_it_may_answer(tmp_path: Path) -> None:
    """As the engine counts, and not what it answers: at 1,000 tokens each a study took five times what was planned."""
    limits = {"concurrent": 64, "tokens_per_minute": 50_000}
    house = {"kind": "openai", "url": "http://localhost:1/v1", "price": {"input": 1, "output": 2}, "limits": limits}
    work = work_of(tmp_path, providers={"house": house}, subjects=["house/a"], judges=["house/j"])
    plan = Run(work).plan()
    respond = plan.grouped(lambda line: line.stage)["respond"]
    assert respond.most_output > 2 * respond.output
    assert plan.times[0].seconds == pytest.approx(60 * (respond.input + respond.most_output) / 50_000)
    told = r"time: about \d+ min online, by 50,000 tokens a minute of house/[aj] "
    assert re.search(told, shown_plan(work, plan))


def test_the_plan_is_shown_by_stage_and_model_and_as_values_by_dimension(tmp_path: Path) -> None:
    run = Run(work_of(tmp_path))
    plan = run.plan()
    text = shown_plan(run.work, plan)
    assert "house/deep" in text and DIMENSIONS[0] not in text
    unheeded = {Unheeded("effort", "low", False, "why"): ["subject a"]}
    shown = json.loads(json.dumps(to_json(plan, [], unheeded)))
    assert shown["unheeded"] == [{"field": "effort", "value": "low", "sent": False, "why": "why", "of": ["subject a"]}]
    assert shown["total"]["calls"] == plan.total.calls
    assert sum(line["figures"]["online"] for line in shown["lines"]) == plan.total.online
    assert {line["dimension"] for line in shown["lines"]} == set(DIMENSIONS)
    assert [line["budget"] for line in shown["budgets"]["lines"]] == [line.budget for line in plan.outlook.lines]


def test_budgets_follow_from_how_the_sweep_sends_its_calls(tmp_path: Path) -> None:
    by_batch = Run(work_of(tmp_path, mode="batch", budget_usd=2.0)).plan()
    assert by_batch.outlook.own and rounds_together(by_batch.outlook.own.rounds or ()) == 2
    largest = max(line.largest for line in by_batch.lines)
    assert by_batch.as_sent < by_batch.outlook.smallest <= (by_batch.as_sent + largest) * 1.01
    assert 1.0 <= by_batch.outlook.unhindered / by_batch.batch_budget < 1.01
    tight = Run(work_of(tmp_path, mode="batch", budget_usd=by_batch.outlook.smallest / NANO)).plan()
    assert tight.outlook.own and rounds_together(tight.outlook.own.rounds or ()) > 2
    online = Run(work_of(tmp_path, mode="online")).plan().outlook
    assert not online.has_batches and len(online.lines) == 2
