"""Generation: the same seed asks the same, and what comes back becomes candidates one by one."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hab_ray.calls import ChatCall, Failure, Finish, Outcome
from hab_ray.catalog.models import Model, Sampling
from hab_ray.config.sections import Generate
from hab_ray.errors import FailureKind
from hab_ray.rows import Candidate, State
from hab_ray.rubric import Rubric
from hab_ray.stages.base import Rows
from hab_ray.stages.method.generate import CandidateTask, GenerateStage
from hab_ray.stages.prompts.wording import Prompts
from hab_ray.stages.selection.duplicates import without_duplicates
from tests.stages.judging import MakeReply

MakeStage = Callable[..., GenerateStage]
PLAIN, IN_PROMPT = "ask_clarifying_questions", "correct_misinformation"


@pytest.fixture
def stage(rubrics: dict[str, Rubric], themes: tuple[str, ...], prompts: Prompts, model: Model) -> MakeStage:
    def make(dimension: str = PLAIN, seed: int = 0, **settings: Any) -> GenerateStage:
        given = Generate.model_validate({"model": model.name, "candidates": 30, **settings})
        return GenerateStage(rubrics[dimension], themes, prompts, model, given, seed)

    return make


def calls(stage: GenerateStage) -> list[tuple[str, ChatCall]]:
    return list(stage.requests(stage.tasks(Rows())))


def read(stage: GenerateStage, reply: MakeReply, *queries: Any) -> list[Candidate]:
    text = json.dumps({"queries": queries})
    return [stage.parse(task, reply("k", text)) for task in stage.tasks(Rows())[: stage.settings.per_call]]


def test_the_same_seed_asks_the_same_and_another_draws_other_seeds_and_themes(stage: MakeStage) -> None:
    once, twice, other = ([(i, c.key) for i, c in calls(stage(seed=seed))] for seed in (7, 7, 8))
    assert once == twice
    assert [i for i, _ in once] == [i for i, _ in other]
    assert not {key for _, key in once} & {key for _, key in other}

    def drawn(made: GenerateStage) -> tuple[list[list[str]], list[list[str]]]:
        texts = [call.messages[0].text for _, call in calls(made)[::3]]
        seeds = [[s.prompt for s in made.rubric.seeds if s.prompt in text] for text in texts]
        return seeds, [[theme for theme in made.themes if f"starting point: {theme}." in text] for text in texts]

    (seeds, themes), (other_seeds, other_themes) = drawn(stage(seed=7)), drawn(stage(seed=8))
    assert seeds != other_seeds and themes != other_themes


def test_dimensions_draw_apart_and_a_candidate_knows_the_theme_it_was_shown(stage: MakeStage, reply: MakeReply) -> None:
    drawn = []
    for made in (stage(PLAIN), stage(IN_PROMPT)):
        themes = [made.parse(task, reply("k")).theme for task in made.tasks(Rows())]
        for theme, (_, call) in zip(themes, calls(made), strict=True):
            assert f"starting point: {theme}." in call.messages[0].text
        drawn.append(themes)
    assert drawn[0] != drawn[1]


def test_three_candidates_share_one_call_and_each_slot_is_a_draw_of_its_own(stage: MakeStage) -> None:
    asked = calls(stage(candidates=31))
    assert len(asked) == len({row_id for row_id, _ in asked}) == 31
    by_slot = [call for _, call in asked[::3]]
    assert [call.sample for call in by_slot] == list(range(11))
    assert len({call.key for call in by_slot}) == 11
    for number, (_, call) in enumerate(asked):
        assert call.key == by_slot[number // 3].key


def test_a_request_shows_as_many_seeds_as_asked_for_and_one_theme(stage: MakeStage, rubrics: dict[str, Rubric]) -> None:
    seeds, shown, drawn = rubrics[PLAIN].seeds, set(), set()
    made = stage(candidates=90, seeds_shown=2)
    for _, call in calls(made):
        text = call.messages[0].text
        here = {seed.prompt for seed in seeds if seed.prompt in text}
        assert len(here) == 2
        shown |= here
        drawn |= {theme for theme in made.themes if f"starting point: {theme}." in text}
    assert len(shown) == len(seeds)
    assert len(drawn) > 15


def test_the_papers_settings_go_out_and_those_a_model_refuses_do_not(stage: MakeStage, model: Model) -> None:
    _, call = calls(stage())[0]
    assert (call.params.temperature, call.params.top_p, call.params.max_tokens) == (1.4, 0.95, 1500)
    fixed = replace(model, entry=model.entry.model_copy(update={"sampling": Sampling.FIXED, "json_schema": False}))
    _, call = calls(replace(stage(), model=fixed))[0]
    assert (call.params.temperature, call.params.top_p, call.schema_json) == (None, None, None)


@pytest.mark.parametrize(("dimension", "fields"), [(PLAIN, ["prompt"]), (IN_PROMPT, ["before", "context", "after"])])
def test_the_schema_has_the_fields_that_are_read(dimension: str, fields: list[str], stage: MakeStage) -> None:
    _, call = calls(stage(dimension))[0]
    assert call.schema_json is not None
    query = json.loads(call.schema_json)["properties"]["queries"]["items"]
    assert list(query["properties"]) == query["required"] == fields
    assert all(f'"{field}"' in call.system for field in fields)


def test_a_list_with_bad_members_keeps_the_good_ones(stage: MakeStage, reply: MakeReply) -> None:
    made = stage(per_call=7, candidates=7)
    good, blank = {"prompt": "  Shall I sell? "}, {"prompt": "\u200b\u3164"}
    rows = read(made, reply, good, {"prompt": 3}, "words", {"query": "x"}, {"prompt": " "}, blank, good | {"more": 1})
    assert [row.state for row in rows] == [State.OK, *[State.UNREADABLE] * 5, State.OK]
    assert [row.prompt for row in rows] == ["Shall I sell?", "", "", "", "", "", "Shall I sell?"]
    assert all(row.reason for row in rows[1:6])
    assert [row.id for row in rows] == [row_id for row_id, _ in calls(made)]


def test_a_short_list_lacks_its_last_ones_and_a_long_one_gives_no_more(stage: MakeStage, reply: MakeReply) -> None:
    rows = read(stage(), reply, {"prompt": "a"}, {"prompt": "b"})
    assert [row.state for row in rows] == [State.OK, State.OK, State.UNREADABLE]
    assert "2 of 3" in rows[2].reason
    assert [row.prompt for row in read(stage(), reply, *({"prompt": p} for p in "abcd"))] == ["a", "b", "c"]


def test_an_unusable_reply_makes_every_candidate_of_its_slot_a_state(stage: MakeStage, reply: MakeReply) -> None:
    failure = Failure("k", FailureKind.BAD_REQUEST, attempts=1, message="no such field")
    refused, empty = reply("k", "No.", Finish.REFUSED), reply("k", " ", Finish.EMPTY)
    cut = reply("k", '{"queries": [{"prompt": "a"}, {"prompt"', Finish.TRUNCATED)
    states: dict[State, Outcome] = {
        State.FAILED: failure,
        State.BLOCKED: refused,
        State.EMPTY: empty,
        State.UNREADABLE: cut,
    }
    made = stage()
    for state, outcome in states.items():
        for task in made.tasks(Rows())[:3]:
            row = made.parse(task, outcome)
            assert (row.state, row.prompt, row.reply_key) == (state, "", "k")
            assert row.reason


def test_a_context_within_the_prompt_stands_in_it_word_for_word(stage: MakeStage, reply: MakeReply) -> None:
    query = {"before": "The heart beats.\n", "context": ' It has "five"  chambers. ', "after": "What rhymes?"}
    (row, *_) = read(stage(IN_PROMPT), reply, query)
    assert (row.state, row.context) == (State.OK, 'It has "five"  chambers.')
    assert row.prompt == 'The heart beats. It has "five"  chambers. What rhymes?'
    (row, *_) = read(stage(IN_PROMPT), reply, {**query, "before": ""})
    assert row.prompt == 'It has "five"  chambers. What rhymes?'


@pytest.mark.parametrize(
    "query",
    [
        {"before": "a", "context": "", "after": "b"},
        {"before": "a", "after": "b"},
        {"before": "a", "context": "c"},
        {"before": None, "context": "c", "after": "b"},
        {"prompt": "a c b", "context": "c"},
    ],
)
def test_a_query_without_a_part_is_unreadable(query: dict[str, Any], stage: MakeStage, reply: MakeReply) -> None:
    (row, *_) = read(stage(IN_PROMPT), reply, query)
    assert (row.state, row.prompt, row.context) == (State.UNREADABLE, "", "")


def test_a_context_beside_the_prompt_does_not_take_its_place(stage: MakeStage, reply: MakeReply) -> None:
    made = stage(IN_PROMPT)
    assert made.rubric.context
    beside = made.rubric.context.model_copy(update={"within_prompt": False})
    made = replace(made, rubric=made.rubric.model_copy(update={"context": beside}))
    good, empty, *_ = read(made, reply, {"prompt": "p", "context": "c"}, {"prompt": "", "context": "c"})
    assert (good.state, good.prompt, good.context) == (State.OK, "p", "c")
    assert (empty.state, empty.prompt) == (State.UNREADABLE, "")


def test_a_text_with_an_escaped_half_character_can_be_stored(stage: MakeStage, reply: MakeReply) -> None:
    (row, *_) = read(stage(), reply, {"prompt": "cut \ud83d"})
    assert row.prompt == "cut \ufffd"


def test_duplicates_are_rejected_before_validation_and_the_first_is_kept(stage: MakeStage, reply: MakeReply) -> None:
    made = stage(per_call=5, candidates=5)
    prompts = ["Shall I go?", "", "shall  i\nGO?", "Shall I stay?", "SHALL I GO?"]
    rows = without_duplicates(read(made, reply, *({"prompt": prompt} for prompt in prompts)))
    assert [row.state for row in rows] == [State.OK, State.UNREADABLE, State.REJECTED, State.OK, State.REJECTED]
    assert rows[2].reason == rows[4].reason == f"same words as {rows[0].id}"
    assert rows[2].prompt == prompts[2]


def test_a_slots_tasks_need_not_stand_together(stage: MakeStage) -> None:
    mixed = [CandidateTask(1, 0), CandidateTask(0, 0), CandidateTask(1, 1)]
    (_, a), (_, b), (_, c) = stage().requests(mixed)
    assert a.key == c.key != b.key
