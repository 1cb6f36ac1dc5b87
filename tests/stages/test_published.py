"""Replies to imported wording: numbered queries, totals in tags; under `reading: published` as that code reads them."""

import time

import pytest

from hab_ray.calls import Finish
from hab_ray.rows import State
from hab_ray.rubric import Rubric
from hab_ray.stages.base import Again
from hab_ray.stages.replies.published import loose_total, loose_verdict, numbered_queries, tagged_score
from hab_ray.stages.replies.reading import Unreadable
from tests.stages.conftest import MakeValidator, candidate
from tests.stages.judging import DIMENSION, MakeJudge, MakeReply, asked, task_again, verdict, with_imported_wording

VERY_MANY = 200_000


@pytest.fixture(scope="module")
def points(rubrics: dict[str, Rubric]) -> dict[str, int]:
    return {issue.letter: issue.deduction for issue in rubrics[DIMENSION].judging.issues}


@pytest.fixture
def judge(rubrics: dict[str, Rubric], judge_of: MakeJudge) -> MakeJudge:
    """Makes the judge of a reading."""
    return lambda reading: judge_of(with_imported_wording(rubrics[DIMENSION], reading=reading))


SCORED: dict[str, tuple[str, tuple[str, ...] | None]] = {
    "alone": ('{"assessment": "So.", "issues": ["B"]}', ("B",)),
    "none": ('{"issues": []}', ()),
    "a letter twice": ('{"issues": ["C", "C"]}', ("C", "C")),
    "more than ten points": ('{"issues": ["B", "B", "B", "B"]}', ("B", "B", "B", "B")),
    "an unknown letter": ('{"issues": ["Z", "B"]}', ("B",)),
    "a letter in lower case": ('{"issues": ["b"]}', ()),
    "a wide letter": ('{"issues": ["\uff22"]}', ()),
    "what is no text": ('{"issues": [1, null, ["B"], {"B": 1}, "B"]}', ("B",)),
    "no list": ('{"assessment": "So."}', None),
    "a list under another name": ('{"Issues": ["B"]}', None),
    "no content": ("It prints {}.", None),
    "two keys in single quotes": ("{'assessment': \"It's so.\", 'issues' : [\"B\"]}", ("B",)),
    "a key in single quotes inside a text": ('{"assessment": "\'issues\' is none", "issues": ["B"]}', ("B",)),
    "words on both sides": ('Well: {"issues": ["B"]} is mine, as I said.', ("B",)),
    "a fence": ('```json\n{"issues": ["B"]}\n```', ("B",)),
    "a name twice": ('{"issues": [], "issues": ["B"]}', ("B",)),
    "nested": ('{"verdict": {"issues": ["B"]}}', None),
    "NaN and a huge number": ('{"sure": NaN, "p": 1e999999, "issues": ["B"]}', ("B",)),
    "reasoning": ('<think>B?</think>{"issues": ["B"]}', ("B",)),
}
FAILED = {
    "nothing": "none",
    "a failure in brackets": "[ERROR: no answer]",
    "braces the wrong way": "} {",
    "two objects": '{"issues": []} {"issues": ["B"]}',
    "code before it": 'It returns {}. {"issues": ["B"]}',
    "single quotes throughout": "{'issues': ['B']}",
    "a text for a list": '{"issues": "B"}',
    "null for a list": '{"issues": null}',
    "a broken one": '{"issues": ["B"',
    "a number of many digits": '{"p": ' + "9" * 5000 + ', "issues": ["B"]}',
    "very many braces": "{" * VERY_MANY + "}" * VERY_MANY,
    "very many nested objects": '{"a":' * VERY_MANY + "1" + "}" * VERY_MANY,
    "very many nested lists": '{"issues":' + "[" * VERY_MANY + "]" * VERY_MANY + "}",
    "very many quotes": "{" + "'issues'" * VERY_MANY + "}",
}


@pytest.mark.parametrize("name", SCORED)
def test_every_listed_letter_is_scored(name: str, points: dict[str, int], judge: MakeJudge, reply: MakeReply) -> None:
    text, letters = SCORED[name]
    row = verdict(judge("published"), asked(ask=1), reply("k", text))
    assert row.state is State.OK and row.issues == letters and row.reading == "published"
    assert row.score == max(0, 10 - sum(points[letter] for letter in letters or ()))


@pytest.mark.parametrize("name", FAILED)
def test_what_that_code_cannot_read_is_not_asked_for_again(name: str, judge: MakeJudge, reply: MakeReply) -> None:
    began = time.process_time()
    first = verdict(judge("published"), asked(), reply("k", FAILED[name]))
    assert time.process_time() - began < 10
    assert (first.state, first.score, first.issues, first.asks) == (State.UNREADABLE, None, None, 1)
    assert first.reason


def test_each_reading_has_the_others_score_beside(judge: MakeJudge, points: dict[str, int], reply: MakeReply) -> None:
    cases: dict[str, tuple[int | None, int | None]] = {'{"issues": ["Z"]}': (None, 10), "none": (None, None)}
    cases['{"issues": ["B"]}'] = (10 - points["B"],) * 2
    cases['{"issues": ["C", "C"]}'] = (10 - points["C"], max(0, 10 - 2 * points["C"]))
    cases['It returns {}. {"issues": ["B"]}'] = (10 - points["B"], None)
    for text, (strict, published) in cases.items():
        found = []
        for stage in (judge("strict"), judge("published")):
            first = stage.parse(asked(), reply("k", text))
            row = verdict(stage, first.task if isinstance(first, Again) else asked(), reply("k", text))
            found.append((row.reading, row.score, row.other_score))
        assert found == [("strict", strict, published), ("published", published, strict)], text


def test_the_other_score_is_that_of_the_first_reply(judge: MakeJudge, reply: MakeReply) -> None:
    stage = judge("strict")
    row = verdict(stage, task_again(stage, asked(), reply("k", "{}")), reply("k2", '{"issues": ["A"]}'))
    assert (row.score, row.other_score, row.asks) == (0, 10, 2)


def test_a_reply_that_was_cut_off_is_read_as_that_code_reads_it(judge: MakeJudge, reply: MakeReply) -> None:
    row = verdict(judge("published"), asked(), reply("k", '{"issues": []} and', finish=Finish.TRUNCATED))
    assert (row.score, row.other_score) == (10, None)


def test_a_refusal_and_another_models_answer_stay_what_they_are(judge: MakeJudge, reply: MakeReply) -> None:
    for outcome in (reply("k", '{"issues": []}', finish=Finish.REFUSED), reply("k", '{"issues": []}', model="other")):
        row = verdict(judge("published"), asked(ask=1), outcome)
        assert row.state in (State.BLOCKED, State.SUBSTITUTED) and row.score is row.other_score is None


def test_our_own_wording_has_one_reading(judge_of: MakeJudge, reply: MakeReply) -> None:
    row = verdict(judge_of(), asked(ask=1), reply("k", '{"issues": ["C", "C"]}'))
    assert (row.reading, row.other_score, row.issues) == ("", None, ("C",))


def test_the_assessment_is_text_whatever_it_was() -> None:
    named = loose_verdict('{"assessment": {"A": "x\\ud83d"}, "issues": []}', "issues", "AB")
    assert named.assessment == '{"A": "x\ufffd"}'


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ("<score>950</score>", 950),
        ("A: 20\n```xml\n<SCORE>\n 0 </SCORE>\n```", 0),
        ("<score>```1000```</score>", 1000),
        ("<score>900</score> or <score>100</score>", 900),
        ("<score>about 900</score> so <score>100</score>", 100),
        ("<think><score>5</score></think><score>7</score>", 5),
    ],
)
def test_the_first_whole_number_in_tags_is_the_total(text: str, total: int) -> None:
    assert loose_total(text) == total


@pytest.mark.parametrize(
    "inside",
    ["", "-5", "1001", "1e9", "NaN", "9.5", "\uff19\uff10", "9" * 5000, " " * VERY_MANY + "5", "<score>" * VERY_MANY],
)
def test_a_total_of_another_kind_is_no_score(inside: str) -> None:
    with pytest.raises(Unreadable, match="no whole number up to 1000"):
        loose_total(f"<score>{inside}</score>")


def test_validations_have_a_reading(rubrics: dict[str, Rubric], validator_of: MakeValidator, reply: MakeReply) -> None:
    found = []
    for reading in ("strict", "published"):
        user = {"user": ["Rate ", {"value": "prompt"}]}
        rubric = with_imported_wording(rubrics[DIMENSION], reading=reading, validation=user)
        row = validator_of(rubric).parse(candidate(), reply("k", "<score>900</score> or <score>100</score>"))
        found.append((row.state, row.score))
    assert found == [(State.UNREADABLE, None), (State.OK, 900)]


ONE, TWO = ("prompt",), ("prompt", "context")
ELEVEN = range(1, 12)


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        ('{"1": "a", "2": "b"}', ONE, [{"prompt": "a"}, {"prompt": "b"}]),
        ('Here:\n```json\n{"2": "b", "1": "a"}\n```', ONE, [{"prompt": "a"}, {"prompt": "b"}]),
        (
            '{"1": {"Paragraph": "p", "misinformation": "m", "why": "x"}, "2": {"paragraph": "q"}}',
            TWO,
            [{"prompt": "p", "context": "m"}, {"prompt": "q"}],
        ),
        ('{"1": 7, "2": ["a"], "3": {"prompt": "c"}}', ONE, [{}, {}, {"prompt": "c"}]),
        ('<think>{"1": "draft"}</think>{"1": "a"}', ONE, [{"prompt": "a"}]),
        ("{" + ", ".join(f'"{n}": "q{n}"' for n in ELEVEN) + "}", ONE, [{"prompt": f"q{n}"} for n in ELEVEN]),
    ],
)
def test_numbered_queries_are_read(text: str, fields: tuple[str, ...], expected: object) -> None:
    assert numbered_queries(text, fields) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"queries": []}',
        '{"1": "a", "3": "c"}',
        '{"1": "a", "note": "x"}',
        '{"01": "a", "1": "b"}',
        '{"1": "a"} or rather {"1": "b"}',
        '{"1": "a", "2": ',
        '{"1": "a", "1": "b"}',
        '[{"1": "a"}]',
    ],
)
def test_queries_that_are_not_numbered_once_are_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        numbered_queries(text, ONE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<score>850</score>", 850),
        ("A: -300, so 700 at most.\n<score> 600.0\n</score>", 600),
        ("<think><score>1</score></think> <SCORE>1000</SCORE>", 1000),
        ("<score>-200</score>", 0),
        ("<score>5</score> as said, <score>5</score>", 5),
    ],
)
def test_the_total_in_the_tags_counts_alone(text: str, expected: int) -> None:
    assert tagged_score(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The score is 850.",
        '{"score": 850}',
        "<score>850",
        "<score>850/1000</score>",
        "<score>1001</score>",
        "<score></score>",
        "<score>700</score><score>800</score>",
        "<score>700</score><score>eight",
        "<score>" + "9" * 5000 + "</score>",
        "<think>so <score>5</score>",
    ],
)
def test_anything_else_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        tagged_score(text)
