"""Tests and paraphrases given in a file."""

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hab_ray.errors import ConfigError
from hab_ray.given.paraphrases import read_paraphrases
from hab_ray.given.responses import read_given_responses
from hab_ray.given.rows import read_given_tests
from hab_ray.location import Location
from hab_ray.rows import ChosenTest, to_table
from hab_ray.rubric import load_rubrics
from tests.given.tables import write_rows

PLAIN, WITH_CONTEXT = "ask_clarifying_questions", "correct_misinformation"
RUBRICS = load_rubrics()
Record = dict[str, Any]
Write = Callable[[list[Record]], Path]


def read(path: Path) -> dict[str, list[ChosenTest]]:
    return read_given_tests(Location.of(path), RUBRICS)


def record(prompt: str = "What shall I do?", **more: Any) -> Record:
    return {"dimension": PLAIN, "prompt": prompt, **more}


@pytest.fixture(params=["jsonl", "json", "parquet", "csv"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Write:
    return partial(write_rows, tmp_path / f"tests.{request.param}")


def test_tests_come_by_dimension_in_the_files_order(write: Write) -> None:
    path = write(
        [
            {"dimension": PLAIN, "prompt": "second\u2028line", "id": "z", "context": ""},
            {"dimension": WITH_CONTEXT, "prompt": "The moon is a star.", "id": "c", "context": "The moon is a star."},
            {"dimension": "somebody_elses", "prompt": "x", "id": "x", "context": ""},
            {"dimension": PLAIN, "prompt": "first\u0085\x0b\u2029", "id": "a", "context": ""},
        ]
    )
    found = read(path)
    assert list(found) == [PLAIN, WITH_CONTEXT]
    assert [(t.id, t.prompt) for t in found[PLAIN]] == [("z", "second\u2028line"), ("a", "first\u0085\x0b\u2029")]
    (other,) = found[WITH_CONTEXT]
    moon = "The moon is a star."
    assert other == ChosenTest("c", WITH_CONTEXT, moon, moon, RUBRICS[WITH_CONTEXT].system, None)


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet"])
def test_a_context_of_null_is_none(tmp_path: Path, ending: str) -> None:
    path = write_rows(tmp_path / f"tests.{ending}", [record("a", context=None), record("b", context="")])
    assert [test.context for test in read(path)[PLAIN]] == ["", ""]


def test_rows_of_a_misspelt_dimension_are_named(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    path = write([record("a"), record("b", dimension=f"{PLAIN} "), record("c", dimension="ask"), record("d")])
    assert len(read_given_tests(Location.of(path), {PLAIN: RUBRICS[PLAIN]})[PLAIN]) == 2
    assert f"left out 2 rows of dimensions that neither this sweep nor hab has: 'ask', '{PLAIN} '" in caplog.text


def test_rows_of_dimensions_that_the_sweep_leaves_out_go_unsaid(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    read_given_tests(Location.of(write([record("a"), record("b")])), {WITH_CONTEXT: RUBRICS[WITH_CONTEXT]})
    assert not caplog.text


def test_rows_of_own_dimensions_left_out_go_unsaid(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "tests.jsonl").write_text(json.dumps(record(dimension="mine")))
    (tmp_path / "responses.jsonl").write_text(
        "\n".join(json.dumps(record(dimension=name, subject="s", text="r")) for name in (PLAIN, "mine"))
    )
    (tmp_path / "mine.yaml").touch()
    read_given_tests(Location.of(tmp_path / "tests.jsonl"), RUBRICS, tmp_path)
    read_given_responses(Location.of(tmp_path / "responses.jsonl"), RUBRICS, None, tmp_path)
    assert not caplog.text


@pytest.mark.parametrize("name", ["tests.xlsx", "tests.tsv"])
def test_a_table_of_another_kind_is_told_which_to_save(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04\xff\xfe")
    with pytest.raises(ConfigError, match=r"as its name ends in neither \.csv nor \.parquet .*save the table as \.csv"):
        read(tmp_path / name)


def test_an_id_comes_from_the_text_where_none_is_given(write: Write) -> None:
    found = read(write([record("a"), record("b")]))[PLAIN]
    again = read(write([record("b"), record("a")]))[PLAIN]
    assert {t.id for t in found} == {t.id for t in again}
    assert len({t.id for t in found}) == 2
    assert all(t.id.startswith(f"{PLAIN}-") for t in found)


@pytest.mark.parametrize("write", ["jsonl", "parquet"], indirect=True)
def test_a_system_prompt_may_be_given_even_an_empty_one(write: Write) -> None:
    with_system = {"dimension": "encourage_learning", "system": ""}
    assert RUBRICS["encourage_learning"].system
    (found,) = read(write([record("x", **with_system)]))["encourage_learning"]
    assert found.system == ""


def test_the_tests_of_a_run_can_be_given_to_another(tmp_path: Path) -> None:
    tests = [ChosenTest(f"t{n}", PLAIN, f"prompt {n}", "", "own system", n, f"call {n // 2}") for n in range(4)]
    pq.write_table(to_table(ChosenTest, tests), tmp_path / "d.parquet")
    assert read(tmp_path / "d.parquet") == {PLAIN: tests}


def test_the_generation_call_of_a_test_is_kept_as_it_is_and_none_where_nothing_is_visible(write: Write) -> None:
    long, control = "c" * 100_000, "a\x00\x1b[31m\u202e\n"
    told = [long, control, "7", "-1", "=1+1", "", " \u200b\t"]
    records = [record(f"{at}?", call=call) for at, call in enumerate(told)]
    found = read(write(records))[PLAIN]
    assert [test.call for test in found] == [*told[:5], None, None]
    assert [test.own_call for test in found[5:]] == [test.id for test in found[5:]]
    assert [test.call for test in read(write([record("a")]))[PLAIN]] == [None]


@pytest.mark.parametrize("write", ["jsonl", "parquet"], indirect=True)
def test_a_generation_call_that_a_number_names_is_its_text(write: Write) -> None:
    for told, read_as in (([3, 0, None], ["3", "0", None]), ([3.0, 0.5, None], ["3", "0.5", None])):
        found = read(write([record(f"{at}?", call=call) for at, call in enumerate(told)]))[PLAIN]
        assert [test.call for test in found] == read_as


@pytest.mark.parametrize("write", ["parquet"], indirect=True)
def test_a_generation_call_that_is_nan_is_none(write: Write) -> None:
    found = read(write([record("a", call=3.0), record("b", call=math.nan)]))[PLAIN]
    assert [test.call for test in found] == ["3", None]


@pytest.mark.parametrize("write", ["jsonl", "parquet"], indirect=True)
@pytest.mark.parametrize("call", [[7], True])
def test_a_generation_call_that_is_neither_text_nor_number_is_refused(write: Write, call: Any) -> None:
    path = write([record("a", call=call)])
    with pytest.raises(ConfigError, match="call") as told:
        read(path)
    assert str(path) in str(told.value)


@pytest.mark.parametrize(
    ("records", "named"),
    [
        ([record("same"), record("same")], ["row 2", "appears twice"]),
        ([record("a"), record() | {"prompt": None}], ["row 2", "prompt"]),
        ([record("a", context="not asked for")], ["row 1", f"context: {PLAIN} has no such field"]),
        ([record("a"), {"dimension": WITH_CONTEXT, "prompt": "b"}], ["row 2", "context: is missing", WITH_CONTEXT]),
        ([{"dimension": WITH_CONTEXT, "prompt": "b", "context": " "}], ["row 1", "context: is missing"]),
    ],
)
def test_a_row_that_is_no_test_is_named(records: list[Record], named: list[str], write: Write) -> None:
    path = write(records)
    with pytest.raises(ConfigError) as told:
        read(path)
    for part in [str(path), *named]:
        assert part in str(told.value)


def test_an_empty_cell_is_nothing_and_a_number_is_one(tmp_path: Path) -> None:
    path = tmp_path / "tests.CSV"
    text = 'id,dimension,prompt,context,system,cluster\r\n,encourage_learning,"a, ""b""\r\nc",,,7\r\n'
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    (test,) = read(path)["encourage_learning"]
    assert (test.prompt, test.context, test.cluster) == ('a, "b"\r\nc', "", 7)
    assert test.system == RUBRICS["encourage_learning"].system and test.id.startswith("encourage_learning-")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("dimension,prompt\nencourage_learning,a,b\n", r"tests: .*tests\.csv: line 2: has 3 cells"),
        ("PK\x03\x04[Content_Types].xml", r"tests\.csv: the first line names none of the columns dimension, prompt, "),
        ("dimension,prompt,prompt\n", "appears twice"),
        ("", "is empty"),
        ("dimension,prompt,cluster\nencourage_learning,a,1.5\n", "row 1: cluster"),
        ("dimension,prompt,cluster\nencourage_learning,a,99999999999999999999999999\n", "row 1: cluster"),
    ],
)
def test_what_is_wrong_with_a_table_of_commas_is_told(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "tests.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=told):
        read(path)


@pytest.mark.parametrize("line", ["{", "\xff", '{"dimension": "ask_clarifying_questions", "prompt": "a"} x'])
def test_a_line_that_is_no_json_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "tests.jsonl"
    path.write_bytes(json.dumps(record()).encode() + b"\n\n" + line.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"tests\.jsonl: line 3: not JSON"):
        read(path)


def test_half_a_character_becomes_one_that_can_be_stored(tmp_path: Path) -> None:
    path = tmp_path / "tests.jsonl"
    path.write_text(json.dumps(record("cut \ud83d", id="\ud83d", system="\ud83d")))
    (test,) = read(path)[PLAIN]
    assert (test.id, test.prompt, test.system) == ("\ufffd", "cut \ufffd", "\ufffd")


def test_an_id_may_be_a_whole_number(write: Write) -> None:
    found = read(write([record(f"{at}?", id=at) for at in (0, 17, -(2**60) - 1)]))[PLAIN]
    assert [test.id for test in found] == ["0", "17", "-1152921504606846977"]


@pytest.mark.parametrize("write", ["jsonl", "json", "parquet"], indirect=True)
@pytest.mark.parametrize("number", [17.0, 0.1])
def test_an_id_is_no_other_number_which_may_be_rounded(write: Write, number: float) -> None:
    with pytest.raises(ConfigError, match="row 1: id: is a number that may be rounded; write it as text"):
        read(write([record(id=number)]))


def test_paraphrases_name_tests_by_numbers_too(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "p.parquet", [{"dimension": PLAIN, "test_id": 3, "prompt": "In other words."}])
    assert list(read_paraphrases(Location.of(file), {PLAIN: RUBRICS[PLAIN]})[PLAIN]) == ["3"]


def test_an_unknown_column_of_paraphrases_in_a_parquet_file_is_refused_as_in_csv_and_json(tmp_path: Path) -> None:
    row = {"dimension": PLAIN, "test_id": "t", "prompt": "In other words."}
    rubrics = {PLAIN: RUBRICS[PLAIN]}
    file = write_rows(tmp_path / "paraphrases.parquet", [row])
    assert read_paraphrases(Location.of(file), rubrics)[PLAIN]["t"].prompt == "In other words."
    write_rows(file, [row | {"contxt": "A fact."}])
    with pytest.raises(ConfigError, match="unknown column 'contxt'"):
        read_paraphrases(Location.of(file), rubrics)
