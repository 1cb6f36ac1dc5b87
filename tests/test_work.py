"""What a run consists of, and how rows follow from stored replies."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hab_ray.calls import Call, ChatCall, Failure, Finish, Outcome, Reply, Usage
from hab_ray.catalog import BatchTerms, Model
from hab_ray.config import Sweep
from hab_ray.errors import ConfigError, FailureKind
from hab_ray.location import Location
from hab_ray.rows import Candidate, ChosenTest, Embedded, Response, State, Validation
from hab_ray.rubric import Rubric, load_rubrics, load_themes
from hab_ray.stages.base import Stage
from hab_ray.stages.wording import load_prompts
from hab_ray.work import WORTH_A_BATCH, Settled, Shard, StageName, Work, settle
from hab_ray.work import tests_file as file_of_tests

NOW = datetime(2026, 11, 21, tzinfo=UTC)
D1, D2 = "defer_important_decisions", "encourage_learning"
MakeWork = Callable[..., Work]


@pytest.fixture(scope="module")
def rubrics() -> dict[str, Rubric]:
    return load_rubrics()


@pytest.fixture(scope="module")
def themes() -> tuple[str, ...]:
    return load_themes()


@pytest.fixture
def make(tmp_path: Path, rubrics: dict[str, Rubric], themes: tuple[str, ...]) -> MakeWork:
    """The work of a small sweep, with top-level keys changed."""

    def work(**changes: Any) -> Work:
        given = {
            "name": "demo",
            "run": tmp_path / "run",
            "dimensions": [D1, D2],
            "generate": {"model": "lab/w", "candidates": 5},
            "validate": {"model": "lab/v", "keep": 3},
            "select": {"embedding": "lab/e", "tests": 2},
            "providers": {"lab": {"kind": "openai", "url": "http://lab/v1", "price": {"input": 0}}},
            "subjects": ["lab/a", {"model": "lab/b", "name": "b"}],
            "judges": ["lab/j"],
        }
        sweep = Sweep.model_validate({**given, **changes})
        return Work(
            run_id="0" * 32,
            sweep=sweep,
            catalog=sweep.catalog,
            models={name: Model(name, sweep.catalog.find(name)) for name in sweep.model_names()},
            rubrics={d: (load_rubrics(sweep.rubrics) if sweep.rubrics else rubrics)[d] for d in sweep.dimensions},
            themes=themes,
            prompts=load_prompts(),
            run_path=Location.of(tmp_path / "run"),
        )

    return work


@dataclass
class Replies:
    """A store in memory, which answers as a test says."""

    kept: dict[str, Outcome] = field(default_factory=dict)

    def read(self, keys: Sequence[str]) -> dict[str, Outcome]:
        return {key: self.kept[key] for key in keys if key in self.kept}

    def answer(self, call: Call, text: str, vector: bytes = b"") -> None:
        finish = Finish.OK if text or vector else Finish.EMPTY
        self.kept[call.key] = Reply(call.key, finish, Usage(), 0, "m", "", "", NOW, text=text, vector=vector)


def making(dimension: str) -> list[Shard]:
    return [
        Shard(StageName.GENERATE, "lab/w", dimension),
        Shard(StageName.VALIDATE, "lab/v", dimension),
        Shard(StageName.SELECT, "lab/e", dimension),
    ]


def answering(dimension: str) -> list[Shard]:
    return [
        Shard(StageName.RESPOND, "lab/a", dimension),
        Shard(StageName.JUDGE, "lab/j", dimension, "lab/a"),
        Shard(StageName.RESPOND, "b", dimension),
        Shard(StageName.JUDGE, "lab/j", dimension, "b"),
    ]


def test_a_sweeps_shards_come_in_the_order_of_the_method(make: MakeWork) -> None:
    assert make().shards() == [*making(D1), *making(D2), *answering(D1), *answering(D2)]


def test_without_validation_there_is_no_such_shard(make: MakeWork) -> None:
    for off in ({"validate": "off"}, {"validate": None}):
        stages = [shard.stage for shard in make(**off).shards()]
        assert stages[:4] == [StageName.GENERATE, StageName.SELECT] * 2
        assert StageName.VALIDATE not in stages


def test_given_tests_are_not_made(make: MakeWork) -> None:
    assert make(tests="seeds").shards() == [*answering(D1), *answering(D2)]
    assert make(tests="seeds", generate=None, select=None, validate=None).shards() == make(tests="seeds").shards()


def test_each_shard_waits_for_the_one_its_rows_come_from(make: MakeWork) -> None:
    generate, validate, select = making(D2)
    respond, judge, _, judge_b = answering(D2)
    work = make()
    waits = {shard: work.inputs(shard) for shard in work.shards()}
    assert waits[generate] is None
    assert (waits[validate], waits[select], waits[respond]) == (generate, validate, select)
    assert (waits[judge], waits[judge_b]) == (respond, replace(respond, name="b"))
    assert make(validate="off").inputs(select) == generate
    given = make(tests="seeds")
    assert (given.inputs(respond), given.inputs(judge)) == (None, respond)


def test_every_shard_has_a_model_a_stage_and_a_file_of_its_own(make: MakeWork) -> None:
    work = make()
    models = [work.model(shard).name for shard in [*making(D1), *answering(D1)]]
    assert models == ["lab/w", "lab/v", "lab/e", "lab/a", "lab/j", "lab/b", "lab/j"]
    assert len({shard.file for shard in work.shards()}) == len(work.shards())
    assert [type(work.stage(s)).__name__ for s in [*making(D1), *answering(D1)][:5]] == [
        "GenerateStage",
        "ValidateStage",
        "EmbedStage",
        "RespondStage",
        "JudgeStage",
    ]


def test_files_of_odd_names_are_safe_folders() -> None:
    odd = "meta-llama/Llama-3 70B"
    respond = Shard(StageName.RESPOND, odd, D1).file
    judge = Shard(StageName.JUDGE, "../j", D1, odd).file
    assert respond.startswith("responses/meta-llama-llama-3-70b-")
    assert respond.endswith(f"/{D1}.parquet")
    assert [part.count("/") for part in (respond, judge)] == [2, 3]
    assert judge.split("/")[2] == respond.split("/")[1]
    assert ".." not in judge
    assert Shard(StageName.RESPOND, "gpt-4.1", D1).file == f"responses/gpt-4.1/{D1}.parquet"
    assert Shard(StageName.GENERATE, odd, D1).file == f"candidates/{D1}.parquet"
    assert Shard(StageName.VALIDATE, odd, D1).file == f"validations/{D1}.parquet"
    assert Shard(StageName.SELECT, odd, D1).file == file_of_tests(D1) == f"tests/{D1}.parquet"


def test_a_work_travels_to_workers_with_the_same_keys(make: MakeWork) -> None:
    work = make()
    there = pickle.loads(pickle.dumps(work))
    shard = making(D1)[0]
    assert there == work
    assert _keys(there.stage(shard), there.tasks(shard)) == _keys(work.stage(shard), work.tasks(shard))


def _keys(stage: Stage[Any, Any], tasks: Sequence[Any]) -> list[tuple[str, str]]:
    return [(row_id, call.key) for row_id, call in stage.requests(tasks)]


@pytest.fixture
def replies() -> Replies:
    return Replies()


def settled(work: Work, shard: Shard, replies: Replies) -> Settled:
    return settle(work.stage(shard), work.tasks(shard), replies.read)


def queries(*prompts: str) -> str:
    return json.dumps({"queries": [{"prompt": prompt} for prompt in prompts]})


def test_a_run_goes_from_nothing_to_verdicts_by_replies_alone(make: MakeWork, replies: Replies) -> None:
    work = make()
    generate, validate, select = making(D1)
    respond, judge, *_ = answering(D1)

    asked = settled(work, generate, replies).open
    assert [row_id for row_id, _ in asked] == [f"{D1}-00000-{n}" for n in range(3)] + [
        f"{D1}-00001-{n}" for n in (0, 1)
    ]
    assert len({call.key for _, call in asked}) == 2
    replies.answer(asked[4][1], queries("Shall I stay?", "shall I GO?"))
    half = settled(work, generate, replies)
    assert ([row.prompt for row in half.rows], len(half.open)) == (["Shall I stay?", "shall I GO?"], 3)
    replies.answer(asked[0][1], queries("Shall I go?", "Shall I sell?", "Shall I sue?"))
    work.write(generate, settled(work, generate, replies).rows)
    candidates = work.run.read(Candidate, generate.file)
    assert [c.state for c in candidates] == [State.OK] * 4 + [State.REJECTED]

    asked = settled(work, validate, replies).open
    assert [row_id for row_id, _ in asked] == [c.id for c in candidates[:4]]
    for (_, call), letters in zip(asked, ([], ["A"], ["H"], ["A", "B", "C", "D", "E", "F"]), strict=True):
        replies.answer(call, json.dumps({"deductions": letters}))
    work.write(validate, settled(work, validate, replies).rows)
    assert [v.score for v in work.run.read(Validation, validate.file)] == [1000, 700, 950, 150]

    asked = settled(work, select, replies).open
    assert [row_id for row_id, _ in asked] == [candidates[n].id for n in (0, 1, 2)]
    for n, (_, call) in enumerate(asked):
        replies.answer(call, "", vector=bytes([0, 0, 128, 63] * (n + 1) + [0] * 4 * (2 - n)))
    rows = settled(work, select, replies).rows
    work.write(select, rows)
    assert not work.run.has(select.file)
    tests, note = work.choose_tests(D1, rows)
    assert (len(tests), note) == (2, "")
    work.run.write(ChosenTest, select.file, tests)

    asked = settled(work, respond, replies).open
    assert [row_id for row_id, _ in asked] == [f"{test.id}#0" for test in tests]
    replies.answer(asked[0][1], "It is yours to decide.")
    failed = Failure(asked[1][1].key, FailureKind.TOO_LONG, permanent=True, attempts=1, message="too long")
    replies.kept[failed.key] = failed
    work.write(respond, settled(work, respond, replies).rows)
    assert [r.state for r in work.run.read(Response, respond.file)] == [State.OK, State.FAILED]

    ((row_id, call),) = settled(work, judge, replies).open
    assert row_id == f"{tests[0].id}#0"
    replies.answer(call, "I find no issue.")
    ((again_id, again),) = settled(work, judge, replies).open
    assert (again_id, again.key != call.key) == (row_id, True)
    assert isinstance(again, ChatCall)
    assert 'holds no JSON object with "issues"' in again.messages[0].text
    replies.answer(again, '{"issues": ["C"]}')
    end = settled(work, judge, replies)
    assert end.open == []
    assert [(v.score, v.issues, v.asks, v.reply_key) for v in end.rows] == [(8, ("C",), 2, again.key)]


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
    assert [c.state for c in work.candidates(D1)] == [State.OK] * 5


def test_without_validation_every_good_candidate_may_be_selected(make: MakeWork, replies: Replies) -> None:
    work = make(validate="off")
    generate, _, select = making(D1)
    for _, call in settled(work, generate, replies).open:
        replies.answer(call, queries("One?", "Two?"))
    work.write(generate, settled(work, generate, replies).rows)
    assert [c.state for c in work.candidates(D1)].count(State.UNREADABLE) == 1
    assert [c.id for c in work.tasks(select)] == [f"{D1}-00000-0", f"{D1}-00000-1"]


def test_none_embedded_gives_no_test_and_says_so(make: MakeWork) -> None:
    tests, note = make().choose_tests(D1, [Embedded("c", D1, State.FAILED, b"", "too long", "k")])
    assert tests == []
    assert D1 in note


def test_seed_queries_are_given_tests(make: MakeWork) -> None:
    work = make(tests="seeds")
    given = work.given_tests()
    assert list(given) == [D1, D2]
    assert [t.prompt for t in given[D1]] == [seed.prompt for seed in work.rubrics[D1].generation.seeds]


def test_a_file_of_tests_must_cover_every_dimension(make: MakeWork, tmp_path: Path) -> None:
    path = tmp_path / "tests.jsonl"
    path.write_text(json.dumps({"dimension": D1, "prompt": "Shall I go?"}))
    with pytest.raises(ConfigError) as told:
        make(tests=path).given_tests()
    assert f"{path}: no test for {D2}" in str(told.value)
    ((dimension, tests),) = make(tests=path, dimensions=[D1]).given_tests().items()
    assert (dimension, [test.prompt for test in tests]) == (D1, ["Shall I go?"])


def test_a_seventh_dimension_is_a_file_and_no_code(make: MakeWork, tmp_path: Path, replies: Replies) -> None:
    rubrics = tmp_path / "rubrics"
    rubrics.mkdir()
    built_in = Path(__file__).parents[1] / "rubrics" / f"{D2}.yaml"
    (rubrics / "mental_security.yaml").write_text(built_in.read_text().replace(f"id: {D2}", "id: mental_security", 1))
    work = make(rubrics=rubrics, dimensions=["mental_security"])
    shards = work.shards()
    assert {shard.dimension for shard in shards} == {"mental_security"}
    assert len(shards) == 7
    assert len(settled(work, shards[0], replies).open) == 5


def test_many_calls_go_by_batch_where_there_is_one_and_the_mode_lets_them(make: MakeWork) -> None:
    work = make()
    name = work.models["lab/w"].name
    batched = replace(
        work.models["lab/w"], entry=work.models["lab/w"].entry.model_copy(update={"batch": BatchTerms(discount=0.5)})
    )
    work = replace(work, models={**work.models, name: batched})
    shard = next(s for s in work.shards() if s.stage is StageName.GENERATE)
    other = next(s for s in work.shards() if s.stage is StageName.RESPOND)
    assert work.wants_batch(shard, WORTH_A_BATCH) and not work.wants_batch(shard, WORTH_A_BATCH - 1)
    assert not work.wants_batch(other, 10 * WORTH_A_BATCH)
    sweep = work.sweep
    assert sweep.generate
    for mode, expected in (("batch", True), ("online", False)):
        generate = sweep.generate.model_copy(update={"mode": mode})
        decided = replace(work, sweep=sweep.model_copy(update={"generate": generate}))
        assert decided.wants_batch(shard, 1 if expected else 10 * WORTH_A_BATCH) is expected
