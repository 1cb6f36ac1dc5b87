"""Published answers become a file that `responses:` reads."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.answers import import_responses
from hab_ray.exchange.imports.source import TableSource
from hab_ray.given.responses import read_given_responses
from hab_ray.location import Location
from hab_ray.rows import State
from hab_ray.rubric import load_rubrics
from tests.exchange.imports.tables import Write, comma_separated, given_table, json_lines, parquet

PLAIN, WITH_CONTEXT = "ask_clarifying_questions", "correct_misinformation"


def row(**changes: Any) -> dict[str, Any]:
    published = {"dimension": PLAIN, "prompt": 'How, "é"\n?', "misinformation": None, "subject_model": "gpt-x"}
    return {**published, "subject_response": "Which one?", "score": 7.0, "evaluator_response": "long", **changes}


@pytest.mark.parametrize("out", ["a.parquet", "a.jsonl"])
def test_published_rows_become_responses_with_their_tests(tmp_path: Path, out: str) -> None:
    rows = [
        row(),
        row(),
        row(subject_model="gpt-y", subject_response=" [RATE LIMIT ERROR] 429"),
        row(dimension="Correct Misinformation", prompt="Milk is blue.", misinformation="It is.", subject_response=None),
    ]
    parquet(tmp_path / "r.parquet", rows)
    found = import_responses(TableSource(str(tmp_path / "r.parquet"), licence="mit"), tmp_path / out)
    given = read_given_responses(Location.of(tmp_path / out), load_rubrics(), None)
    (good,), (failed,) = given.responses["gpt-x", PLAIN], given.responses["gpt-y", PLAIN]
    assert (good.text, failed.state, failed.test_id) == ("Which one?", State.FAILED, good.test_id)
    (misinformed,) = given.tests[WITH_CONTEXT]
    assert (misinformed.prompt, misinformed.context) == ("Milk is blue.", "It is.")
    assert given.responses["gpt-x", WITH_CONTEXT][0].state is State.EMPTY
    assert found[0] == "4 rows, 3 answers of 2 subjects to 2 tests; licence: mit"
    assert "1 begin with an error mark of the published code, and count as failed" in found
    assert {"1 are null or empty, and count as empty answers", "1 rows repeat an earlier one and are left out"} <= {
        *found
    }
    about = yaml.safe_load((tmp_path / f"{out}.source.yaml").read_text())
    assert about["responses"] == {PLAIN: 2, WITH_CONTEXT: 1} and about["columns"]["text"] == "subject_response"


@pytest.mark.parametrize("out", ["a.parquet", "a.jsonl"])
def test_an_import_keeps_calls_named_by_numbers_and_how_answers_ended(tmp_path: Path, out: str) -> None:
    told: list[tuple[Any, str | None]] = [(3, "truncated"), (3.0, "\ud800"), (0, None)]
    rows = [row(prompt=f"{n}?", test_id=str(n), call=call, finish=end) for n, (call, end) in enumerate(told)]
    source = given_table(tmp_path, rows)
    import_responses(source, tmp_path / out)
    for path in (Path(source.name), tmp_path / out):
        given = read_given_responses(Location.of(path), load_rubrics(), None)
        assert [test.call for test in given.tests[PLAIN]] == ["3", "3", "0"], path
        ends = [response.finish for response in given.responses["gpt-x", PLAIN]]
        assert ends == ["truncated", "\ufffd", "ok"], path


def test_a_subject_that_no_column_names_is_given_for_all_rows(tmp_path: Path) -> None:
    one = row()
    del one["subject_model"]
    source = given_table(tmp_path, [one])
    with pytest.raises(
        ConfigError, match=r"no column is known as subject; .* or give --value subject=TEXT for all rows"
    ):
        import_responses(source, tmp_path / "a.jsonl")
    named = TableSource(source.name, values={"subject": "o4-mini"})
    import_responses(named, tmp_path / "a.jsonl")
    assert json.loads((tmp_path / "a.jsonl").read_text())["subject"] == "o4-mini"
    with pytest.raises(ConfigError, match="--value who: there is no such column of ours"):
        import_responses(TableSource(source.name, values={"who": "x"}), tmp_path / "b.jsonl")


@pytest.mark.parametrize("write", [comma_separated, json_lines])
def test_a_value_for_all_rows_fills_blank_cells_but_no_empty_answer(tmp_path: Path, write: Write) -> None:
    path = tmp_path / ("r.csv" if write is comma_separated else "r.jsonl")
    write(path, [row(dimension="", subject_model=" "), row(prompt="Why?", subject_response="")])
    values = {"dimension": PLAIN, "subject": "o4-mini", "text": "No answer."}
    import_responses(TableSource(str(path), values=values), tmp_path / "a.jsonl")
    found = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [(r["subject"], r["text"]) for r in found] == [("o4-mini", "Which one?"), ("gpt-x", "")]
    assert {r["dimension"] for r in found} == {PLAIN}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"subject_response": "Another."}, "row 2: gpt-x has answered this test before, differently; .*sample"),
        ({"subject_model": None}, "row 2: has no subject"),
        ({"subject_response": 7}, "row 2: the column 'subject_response' holds no text"),
        ({"misinformation": "Odd."}, "row 2: .* has a second text"),
    ],
)
def test_rows_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        import_responses(given_table(tmp_path, [row(), row(**changes)]), tmp_path / "a.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["r.jsonl"]


def test_an_exports_answers_are_for_a_sweep_with_its_tests(tmp_path: Path) -> None:
    source = given_table(tmp_path, [{"test_id": "t", "dimension": PLAIN, "subject": "s", "state": "ok", "text": "So."}])
    with pytest.raises(
        ConfigError, match=r"r\.jsonl: it is a file of answers already, .*`responses: .*`, and `tests:`"
    ):
        import_responses(source, tmp_path / "a.jsonl")


def test_answers_may_be_numbered(tmp_path: Path) -> None:
    source = given_table(tmp_path, [row(sample=0), row(sample="1", subject_response="Another.")])
    import_responses(source, tmp_path / "a.jsonl")
    given = read_given_responses(Location.of(tmp_path / "a.jsonl"), load_rubrics(), None)
    assert [(r.sample, r.text) for r in given.responses["gpt-x", PLAIN]] == [(0, "Which one?"), (1, "Another.")]
    with pytest.raises(ConfigError, match=r"sample: '1\.5' is not a whole number"):
        import_responses(given_table(tmp_path, [row(sample=1.5)]), tmp_path / "b.jsonl")
