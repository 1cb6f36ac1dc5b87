"""What a run consists of, and how rows follow from stored replies."""

import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hab_ray.calls import Call, Finish, Outcome, Reply, Usage
from hab_ray.errors import ConfigError
from hab_ray.rows import Candidate, ChosenTest, Response, State
from hab_ray.stages.base import CallStage
from hab_ray.stages.spec import Grain
from hab_ray.stages.views import tests_file as file_of_tests
from hab_ray.work import WORTH_A_BATCH, Input, Settled, Shard, Work, given_tests, settle, wants_batch
from tests.sweep.conftest import work_of

NOW = datetime(2026, 11, 21, tzinfo=UTC)
D1, D2 = "defer_important_decisions", "encourage_learning"
MakeWork = Callable[..., Work]


@pytest.fixture
def make(tmp_path: Path) -> MakeWork:
    """The work of a small sweep that makes its tests, with top-level keys changed."""
    making = {
        "tests": None,
        "generate": {"model": "lab/w", "candidates": 5},
        "validate": {"model": "lab/v", "keep": 3},
        "select": {"embedding": "lab/e", "tests": 2},
        "subjects": ["lab/a", {"model": "lab/b", "name": "b"}],
    }
    return lambda **changes: work_of(tmp_path, **{**making, **changes})


@dataclass
class Replies:
    """A store in memory, which answers as a test says."""

    kept: dict[str, Outcome] = field(default_factory=dict)

    def read(self, keys: Sequence[str]) -> dict[str, Outcome]:
        return {key: self.kept[key] for key in keys if key in self.kept}

    def answer(self, call: Call, text: str) -> None:
        self.kept[call.key] = Reply(call.key, Finish.OK, Usage(), 0, "m", "", "", NOW, text=text)


def making(dimension: str) -> list[Shard]:
    return [
        Shard("generate", "lab/w", dimension),
        Shard("validate", "lab/v", dimension),
        Shard("select", "lab/e", dimension),
        Shard("choose", "", dimension),
    ]


def answering(dimension: str) -> list[Shard]:
    return [
        Shard("respond", "lab/a", dimension),
        Shard("judge", "lab/j", dimension, "lab/a"),
        Shard("respond", "b", dimension),
        Shard("judge", "lab/j", dimension, "b"),
    ]


def test_a_sweeps_shards_come_in_the_order_of_the_method(make: MakeWork) -> None:
    assert make().shards() == [*making(D1), *answering(D1), *making(D2), *answering(D2)]


def test_without_validation_there_is_no_such_shard(make: MakeWork) -> None:
    for off in ({"validate": "off"}, {"validate": None}):
        stages = [shard.stage for shard in make(**off).shards()]
        assert stages[:4] == ["generate", "select", "choose", "respond"]
        assert "validate" not in stages


def test_given_tests_are_not_made(make: MakeWork) -> None:
    assert make(tests="seeds").shards() == [*answering(D1), *answering(D2)]
    assert make(tests="seeds", generate=None, select=None, validate=None).shards() == make(tests="seeds").shards()


def test_a_shard_declares_what_it_reads_and_how_much_of_it_must_exist(make: MakeWork) -> None:
    generate, validate, select, choose = making(D2)
    respond, judge, _, judge_b = answering(D2)
    work = make()
    inputs = {shard: work.inputs(shard) for shard in work.shards()}
    assert inputs[generate] == ()
    assert inputs[validate] == (Input(generate, Grain.ALL, partial=False),)
    assert inputs[select] == (Input(generate, Grain.ALL, partial=False), Input(validate, Grain.ALL, partial=False))
    assert inputs[choose] == (Input(select, Grain.ALL, partial=False), Input(generate, Grain.ALL, partial=False))
    assert inputs[respond] == (Input(choose, Grain.ROW, partial=False),)
    assert inputs[judge] == (Input(respond, Grain.ROW, partial=True), Input(choose, Grain.ALL, partial=False))
    assert inputs[judge_b][0].shard == replace(respond, name="b")


def test_without_deduplication_a_candidate_is_validated_as_soon_as_it_exists(make: MakeWork) -> None:
    generate, validate, *_ = making(D1)
    assert make(deduplicate="off").inputs(validate) == (Input(generate, Grain.ROW, partial=False),)


def test_what_the_sweep_goes_without_is_no_input(make: MakeWork) -> None:
    generate, _, select, _ = making(D1)
    respond, judge, *_ = answering(D1)
    assert [one.shard for one in make(validate="off").inputs(select)] == [generate]
    given = make(tests="seeds")
    assert given.inputs(respond) == ()
    assert given.inputs(judge) == (Input(respond, Grain.ROW, partial=True),)


def test_every_shard_that_makes_calls_has_a_model_and_a_stage_of_its_own(make: MakeWork) -> None:
    work = make()
    calling = [shard for shard in [*making(D1), *answering(D1)] if shard.spec.makes_calls]
    assert [work.model(s).name for s in calling] == ["lab/w", "lab/v", "lab/e", "lab/a", "lab/j", "lab/b", "lab/j"]
    assert [type(work.stage(s)).__name__ for s in [*making(D1), *answering(D1)][:6]] == [
        "GenerateStage",
        "ValidateStage",
        "EmbedStage",
        "SelectStage",
        "RespondStage",
        "JudgeStage",
    ]
    viewed = [shard for shard in work.shards() if shard.spec.has_view]
    assert len({shard.file for shard in viewed}) == len(viewed)


def test_a_stage_that_computes_has_no_model_no_mode_and_no_tasks(make: MakeWork) -> None:
    work, choose = make(), making(D1)[3]
    for asked in (work.model, work.mode, work.tasks):
        with pytest.raises(TypeError, match="stage choose makes no calls"):
            asked(choose)


def test_chosen_tests_are_frozen_and_with_them_the_vectors_they_come_from(make: MakeWork) -> None:
    work = make()
    generate, _, select, choose = making(D1)
    assert not any(map(work.is_frozen, work.shards()))
    work.write(choose, [ChosenTest("t", D1, "prompt", "", "", 0)])
    assert [shard for shard in work.shards() if work.is_frozen(shard)] == [select, choose]
    assert (work.written(choose), work.written(select), work.written(generate)) == (1, None, None)


def test_a_choice_of_no_test_does_not_freeze_and_a_damaged_one_is_not_replaced(make: MakeWork) -> None:
    work = make()
    _, _, select, choose = making(D1)
    work.write(choose, [])
    assert not work.is_frozen(choose) and not work.is_frozen(select)
    (work.run_path.path / choose.file).write_bytes(b"PAR1 but cut")
    assert work.is_frozen(choose) and work.is_frozen(select)


def test_files_of_odd_names_are_safe_folders() -> None:
    odd = "meta-llama/Llama-3 70B"
    respond = Shard("respond", odd, D1).file
    judge = Shard("judge", "../j", D1, odd).file
    assert respond.startswith("responses/meta-llama-llama-3-70b-")
    assert respond.endswith(f"/{D1}.parquet")
    assert [part.count("/") for part in (respond, judge)] == [2, 3]
    assert judge.split("/")[2] == respond.split("/")[1]
    assert ".." not in judge
    assert Shard("respond", "gpt-4.1", D1).file == f"responses/gpt-4.1/{D1}.parquet"
    assert Shard("generate", odd, D1).file == f"candidates/{D1}.parquet"
    assert Shard("validate", odd, D1).file == f"validations/{D1}.parquet"
    assert Shard("choose", "", D1).file == file_of_tests(D1) == f"tests/{D1}.parquet"


def test_a_work_travels_to_workers_with_the_same_keys(make: MakeWork) -> None:
    work = make()
    there = pickle.loads(pickle.dumps(work))
    shard = making(D1)[0]
    assert there == work
    assert _keys(there.stage(shard), there.tasks(shard)) == _keys(work.stage(shard), work.tasks(shard))


def _keys(stage: Any, tasks: Sequence[Any]) -> list[tuple[str, str]]:
    return [(row_id, call.key) for row_id, call in stage.requests(tasks)]


@pytest.fixture
def replies() -> Replies:
    return Replies()


def settled(work: Work, shard: Shard, replies: Replies) -> Settled:
    stage = work.stage(shard)
    assert isinstance(stage, CallStage)
    return settle(stage, work.tasks(shard), lambda calls: replies.read([call.key for call in calls]))


def queries(*prompts: str) -> str:
    return json.dumps({"queries": [{"prompt": prompt} for prompt in prompts]})


def given_responses(work: Work, count: int) -> Shard:
    """`count` answered tests; the shard of the judge that is to read them."""
    respond, judge, *_ = answering(D1)
    tests = [ChosenTest(f"t{n}", D1, f"prompt {n}", "", "", None) for n in range(count)]
    work.run.write(ChosenTest, file_of_tests(D1), tests)
    answers = [Response(t.id, D1, "lab/a", 0, State.OK, f"answer {t.id}", "ok", "{}", "m", "", "", "k") for t in tests]
    work.run.write(Response, respond.file, answers)
    return judge


def test_rows_come_in_the_order_of_tasks_whatever_was_asked_again(make: MakeWork, replies: Replies) -> None:
    work = make()
    judge = given_responses(work, 6)
    first = settled(work, judge, replies).open
    for n in (5, 3, 1):
        replies.answer(first[n][1], '{"issues": ["A"]}')
    for n in (4, 0):
        replies.answer(first[n][1], "prose")
    then = settled(work, judge, replies)
    assert [v.test_id for v in then.rows] == ["t1", "t3", "t5"]
    assert sorted(row_id for row_id, _ in then.open) == ["t0#0", "t2#0", "t4#0"]
    for row_id, call in then.open:
        replies.answer(call, "prose" if row_id == "t4#0" else '{"issues": []}')
    end = settled(work, judge, replies)
    assert end.open == []
    assert [(v.test_id, v.score, v.asks) for v in end.rows] == [
        ("t0", 10, 2),
        ("t1", 2, 1),
        ("t2", 10, 1),
        ("t3", 2, 1),
        ("t4", None, 2),
        ("t5", 2, 1),
    ]
    assert end.rows[4].state is State.UNREADABLE


def test_equal_answers_share_a_verdict(make: MakeWork, replies: Replies) -> None:
    work = make(samples=2)
    judge = given_responses(work, 1)
    respond = answering(D1)[0]
    (answer,) = work.run.read(Response, respond.file)
    work.run.write(Response, respond.file, [answer, replace(answer, sample=1)])
    (_, call), (_, same) = settled(work, judge, replies).open
    assert call.key == same.key
    replies.answer(call, '{"issues": []}')
    assert [(v.sample, v.score) for v in settled(work, judge, replies).rows] == [(0, 10), (1, 10)]


def test_duplicates_stay_where_the_sweep_says_so(make: MakeWork, replies: Replies) -> None:
    work = make(deduplicate="off")
    generate = making(D1)[0]
    for _, call in settled(work, generate, replies).open:
        replies.answer(call, queries("Same?", "Same?", "Same?"))
    work.write(generate, settled(work, generate, replies).rows)
    assert [c.state for c in work.run.read(Candidate, generate.file)] == [State.OK] * 5


def test_without_validation_every_good_candidate_may_be_selected(make: MakeWork, replies: Replies) -> None:
    work = make(validate="off")
    generate, _, select, _ = making(D1)
    for _, call in settled(work, generate, replies).open:
        replies.answer(call, queries("One?", "Two?"))
    work.write(generate, settled(work, generate, replies).rows)
    assert [c.state for c in work.run.read(Candidate, generate.file)].count(State.UNREADABLE) == 1
    assert [c.id for c in work.tasks(select)] == [f"{D1}-00000-0", f"{D1}-00000-1"]


def test_a_file_of_tests_must_cover_every_dimension(make: MakeWork, tmp_path: Path) -> None:
    path = tmp_path / "tests.jsonl"
    path.write_text(json.dumps({"dimension": D1, "prompt": "Shall I go?"}))
    with pytest.raises(ConfigError, match=f"{path}: no test for {D2}"):
        given_tests(make(tests=path))
    ((dimension, tests),) = given_tests(make(tests=path, dimensions=[D1])).items()
    assert (dimension, [test.prompt for test in tests]) == (D1, ["Shall I go?"])


BATCHED = {"lab": {"kind": "openai", "url": "http://lab/v1", "price": {"input": 0}, "batch": {"discount": 0.5}}}


def test_many_calls_go_by_batch_where_there_is_one_and_the_mode_lets_them(make: MakeWork) -> None:
    generate, many = making(D1)[0], 10 * WORTH_A_BATCH
    work = make(providers=BATCHED)
    assert wants_batch(work, generate, WORTH_A_BATCH) and not wants_batch(work, generate, WORTH_A_BATCH - 1)
    assert not wants_batch(make(), generate, many)
    for mode, calls in (("batch", 1), ("online", many)):
        decided = make(providers=BATCHED, generate={"model": "lab/w", "candidates": 5, "mode": mode})
        assert wants_batch(decided, generate, calls) is (mode == "batch")
