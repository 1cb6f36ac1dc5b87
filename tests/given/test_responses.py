"""Answers given in a file: their tests, their states, and what is wrong with a file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hab_ray.calls import Finish
from hab_ray.errors import ConfigError
from hab_ray.given.responses import GivenResponses, read_given_responses
from hab_ray.location import Location
from hab_ray.rows import ChosenTest, State, id_of_test
from hab_ray.rubric import load_rubrics
from tests.given.tables import write_rows

PLAIN, WITH_CONTEXT = "encourage_learning", "correct_misinformation"
RUBRICS = load_rubrics()
Read = Callable[..., GivenResponses]


def row(**changes: Any) -> dict[str, Any]:
    return {"dimension": PLAIN, "prompt": "How?", "subject": "old", "text": "Think first."} | changes


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads rows that are written as JSON lines."""

    def reader(*rows: dict[str, Any], tests: dict[str, list[ChosenTest]] | None = None) -> GivenResponses:
        path = write_rows(tmp_path / "responses.jsonl", rows)
        return read_given_responses(Location.of(path), RUBRICS, tests)

    return reader


def test_rows_name_the_tests_that_they_answer(read: Read) -> None:
    found = read(row(), row(subject="new", text="Guess."), row(prompt="Why?"), row(dimension="elsewhere"))
    how, why = found.tests[PLAIN]
    assert (how.id, how.prompt, how.system) == (id_of_test(PLAIN, "How?", ""), "How?", RUBRICS[PLAIN].system)
    assert found.subjects == ("old", "new") and list(found.tests) == [PLAIN]
    assert [(r.test_id, r.text, r.state) for r in found.responses["old", PLAIN]] == [
        (how.id, "Think first.", State.OK),
        (why.id, "Think first.", State.OK),
    ]


def test_answers_of_a_misspelt_dimension_are_named(read: Read, caplog: pytest.LogCaptureFixture) -> None:
    read(row(), row(dimension="Encourage_learning"))
    assert "left out 1 row of dimensions that neither this sweep nor hab has: 'Encourage_learning'" in caplog.text


def test_subjects_that_look_alike_are_warned_of(read: Read, caplog: pytest.LogCaptureFixture) -> None:
    assert len(read(row(subject="caf\u00e9"), row(subject="old"), row(subject="cafe\u0301")).subjects) == 3
    (record,) = caplog.records
    assert "responses.jsonl, row 1 and " in record.message and "row 3: the subjects' names differ" in record.message


def test_the_columns_of_the_published_data_set_are_read_and_others_passed_over(tmp_path: Path) -> None:
    columns = {
        "dimension": [WITH_CONTEXT, PLAIN],
        "prompt": ["Seas are salt. Milk is blue.", "How?"],
        "misinformation": ["Milk is blue.", None],
        "subject_model": ["gpt-x", "gpt-x"],
        "subject_response": ["Milk is white.", "Think."],
        "score": [10, 3],
        "evaluator_prompt": ["long", "long"],
    }
    pq.write_table(pa.table(columns), tmp_path / "evaluations.parquet")
    path = Location.of(tmp_path / "evaluations.parquet")
    found = read_given_responses(path, RUBRICS, None)
    assert found.tests[WITH_CONTEXT][0].context == "Milk is blue."
    assert found.responses["gpt-x", WITH_CONTEXT][0].text == "Milk is white."
    assert found.subjects == ("gpt-x",)


def test_answers_come_from_a_table_of_commas(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    header = "dimension,prompt,subject,text,sample,state,finish,score\n"
    rows = (f'{PLAIN},How?,old,"Think, ""first"".\n",1,,,10\n', f"{PLAIN},How?,new,,,,truncated,\n")
    path.write_text(header + "".join(rows))
    found = read_given_responses(Location.of(path), RUBRICS, None)
    ((old,), (new,)) = found.responses.values()
    assert (old.subject, old.text, old.sample, old.state) == ("old", 'Think, "first".\n', 1, State.OK)
    assert (new.subject, new.sample, new.state, new.finish) == ("new", 0, State.EMPTY, "truncated")
    assert found.subjects == ("old", "new")


def test_one_answer_given_with_several_verdicts_is_one(read: Read) -> None:
    assert len(read(row(), row()).responses["old", PLAIN]) == 1
    with pytest.raises(ConfigError, match=r"row 2: old has answered .* in other words"):
        read(row(), row(text="Another."))
    assert len(read(row(), row(text="Another.", sample=1)).responses["old", PLAIN]) == 2


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"text": "[ERROR DURING LLM CHAT] timeout"}, State.FAILED),
        ({"text": "[RATE LIMIT ERROR: wait]"}, State.FAILED),
        ({"text": "[ANTHROPIC OVERLOADED]"}, State.FAILED),
        ({"text": "[GENERATION STOPPED: SAFETY]"}, State.FAILED),
        ({"text": "[ERROR PARSING BATCH RESULT]"}, State.FAILED),
        ({"text": "[ERROR DURING BATCH LLM CHAT]"}, State.FAILED),
        ({"text": "\u200b"}, State.EMPTY),
        ({"text": None}, State.EMPTY),
        ({"text": ""}, State.EMPTY),
        ({"state": "blocked", "reason": "by the vendor"}, State.BLOCKED),
        ({"text": "It printed [ERROR DURING LLM CHAT]"}, State.OK),
    ],
)
def test_what_is_no_answer_is_a_state(changes: dict[str, Any], state: State, read: Read) -> None:
    (response,) = read(row(**changes)).responses["old", PLAIN]
    assert response.state is state and bool(response.text) == (state is State.OK)
    assert bool(response.reason) == (state is not State.OK)


@pytest.mark.parametrize("word", ["truncated", "length", "max_tokens", "MAX_TOKENS", "max_output_tokens"])
def test_an_answer_that_was_cut_counts_as_truncated_in_any_vendors_word(word: str, read: Read) -> None:
    (cut,), (whole,) = read(row(finish=word), row(subject="new", finish="stop")).responses.values()
    assert (cut.finish, whole.finish) == (Finish.TRUNCATED, "stop")


def test_given_tests_are_answered_by_id_or_by_text(read: Read) -> None:
    tests = {PLAIN: [ChosenTest("a", PLAIN, "How?", "", "Be brief.", None)]}
    found = read(row(), row(subject="new", test_id="a", prompt=None), tests=tests)
    assert {r.test_id for rows in found.responses.values() for r in rows} == {"a"} and found.tests == tests
    for wrong in (row(prompt="Who?"), row(test_id="b", prompt=None)):
        with pytest.raises(ConfigError, match="there is no test"):
            read(wrong, tests=tests)


def test_tests_of_the_same_words_are_apart_where_ids_say_so(read: Read) -> None:
    found = read(row(test_id="a"), row(test_id="b"), row(test_id="a", subject="new", text="Guess."))
    assert [test.id for test in found.tests[PLAIN]] == ["a", "b"]
    assert [r.test_id for r in found.responses["old", PLAIN]] == ["a", "b"]


def test_an_answer_to_other_words_under_the_id_of_a_test_is_refused(read: Read) -> None:
    with pytest.raises(ConfigError, match=r"row 2: prompt: test '1' has another prompt in an earlier row; give each"):
        read(row(test_id="1"), row(test_id="1", prompt="Why?", subject="new"))
    tests = {
        PLAIN: [ChosenTest("1", PLAIN, "How?", "", "", None)],
        WITH_CONTEXT: [ChosenTest("2", WITH_CONTEXT, "Milk is blue.", "It is.", "", None)],
    }
    with pytest.raises(ConfigError, match="row 1: prompt: test '1' has another prompt in `tests:`"):
        read(row(test_id="1", prompt="Why?"), tests=tests)
    misinformed = row(dimension=WITH_CONTEXT, test_id="2", prompt=None)
    with pytest.raises(ConfigError, match="row 1: context: test '2' has another context"):
        read(misinformed | {"context": "It is not."}, tests=tests)
    same = read(row(test_id="1"), row(test_id="1", prompt=None, subject="new"), misinformed, tests=tests)
    assert same.subjects == ("old", "new")


def test_a_context_that_the_rubric_does_not_have_splits_no_test(read: Read) -> None:
    rows = [row(context="One."), row(context="One.", subject="new"), row(subject="third")]
    found = read(*rows)
    (test,) = found.tests[PLAIN]
    assert (test.id, test.context) == (id_of_test(PLAIN, "How?", "One."), "")  # the id that runs have of it
    assert {r.test_id for given in found.responses.values() for r in given} == {test.id}
    assert read(*rows, tests={PLAIN: [test]}).responses == found.responses
    others = [row(context="One."), row(context="Two.", subject="new")]
    with pytest.raises(ConfigError, match=f"row 2: context: {PLAIN} has none, .* give each a `test_id`"):
        read(*others)
    assert len(read(*(each | {"test_id": f"t{n}"} for n, each in enumerate(others))).tests[PLAIN]) == 2


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([row(prompt=None)], "row 1: .*names no test"),
        ([row(dimension=WITH_CONTEXT)], "row 1: context: is missing"),
        ([row(subject="")], "row 1: subject"),
        ([row(sample=-1)], "row 1: sample"),
        ([row(sample=True)], "row 1: sample"),
        ([row(state="fine")], "row 1: state"),
        ([{name: cell for name, cell in row().items() if name != "text"}], "row 1: text"),
        ([row(text="", state="ok")], "row 1: .*its state is ok and it has no text"),
        ([row(dimension="elsewhere")], "has no row of"),
        ([], "has no row of"),
        ([{"a": [1]}], "row 1: dimension"),
    ],
)
def test_what_is_wrong_is_told_with_its_row(rows: list[dict[str, Any]], told: str, read: Read) -> None:
    with pytest.raises(ConfigError, match=told):
        read(*rows)
