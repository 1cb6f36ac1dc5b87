"""Published rows become a file of tests that a sweep reads, whatever their format."""

import contextvars
import json
import resource
from pathlib import Path

import pytest
import yaml

from hab_ray.config.sweep import Sweep
from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.answers import import_tests
from hab_ray.exchange.imports.hub import EVALUATIONS
from hab_ray.exchange.imports.source import TableSource, new_file
from hab_ray.given.origins import origins_of
from hab_ray.given.rows import ROWS_READ, read_given_tests
from hab_ray.inputs.origin import Origin
from hab_ray.location import Location
from hab_ray.rubric import load_rubrics
from tests.exchange.imports.tables import (
    GUID,
    REVISION,
    Write,
    comma_separated,
    given_table,
    json_lines,
    json_list,
    keep_published,
    parquet,
)

Row = dict[str, str | int | None]
ROWS: list[Row] = [
    {
        "dimension": dimension,
        "prompt": f"{dimension} {number}\n, \"q\" 'é' =1+1",
        "misinformation": "One is two." if dimension == "correct_misinformation" else None,
        "subject_model": model,
        "evaluator_prompt": "long",
        "score": 7,
    }
    for model in ("a", "b")
    for dimension in ("ask_clarifying_questions", "correct_misinformation")
    for number in range(3)
]


@pytest.mark.parametrize(
    ("name", "write", "out"),
    [
        ("r.parquet", parquet, "tests.jsonl"),
        ("r.jsonl", json_lines, "tests.jsonl"),
        ("r.json", json_list, "tests.parquet"),
        ("r.csv", comma_separated, "tests.parquet"),
    ],
)
@pytest.mark.filterwarnings("error::ResourceWarning", "error::pytest.PytestUnraisableExceptionWarning")
def test_the_distinct_queries_are_what_a_sweep_reads(name: str, write: Write, out: str, tmp_path: Path) -> None:
    write(tmp_path / name, ROWS)
    notes = import_tests(TableSource(str(tmp_path / name)), tmp_path / out)
    found = read_given_tests(Location.of(str(tmp_path / out)), load_rubrics())
    for dimension in ("ask_clarifying_questions", "correct_misinformation"):
        wanted = [(row["prompt"], row["misinformation"] or "") for row in ROWS[:6] if row["dimension"] == dimension]
        assert [(test.prompt, test.context) for test in found[dimension]] == wanted
    assert notes[0] == "12 rows, 6 distinct tests; licence: unknown"
    about = yaml.safe_load((tmp_path / f"{out}.source.yaml").read_text())
    assert about["rows"] == 12 and about["tests"] == {"ask_clarifying_questions": 3, "correct_misinformation": 3}


def test_columns_are_named_licence_is_stated_and_canaries_are_kept(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"Area": "Encourage Learning", "asked": "Why?", "canary": f"GUID {GUID.upper()}", "prompt": "no"}
    ]
    source = given_table(tmp_path, rows, {"dimension": "Area", "prompt": "asked"}, licence="cc-by-4.0")
    notes = import_tests(source, tmp_path / "t.jsonl")
    assert json.loads((tmp_path / "t.jsonl").read_text()) == {
        "dimension": "encourage_learning",
        "prompt": "Why?",
        "context": "",
        "source": str(tmp_path / "r.jsonl"),
        "licence": "cc-by-4.0",
        "canaries": GUID,
    }
    about = yaml.safe_load((tmp_path / "t.jsonl.source.yaml").read_text())
    assert (about["licence"], about["canaries"]) == ("cc-by-4.0", [GUID])
    assert f"canary GUID {GUID}: do not train on these tests" in notes


@pytest.mark.parametrize(
    ("rows", "columns", "says"),
    [
        (
            [{"dimension": "encourage_learning", "words": "a"}],
            {},
            "no column is known as prompt; .*there are dimension, words",
        ),
        ([{"dimension": "d", "prompt": "a"}], {"prompt": "ask"}, "--column prompt=ask: there is no such column"),
        ([{"dimension": "d", "question": "a", "query": "b"}], {}, "question, query may each be prompt"),
        ([{"dimension": "d", "prompt": 7}], {}, "row 1: the column 'prompt' holds no text"),
        ([{"dimension": "d", "prompt": " "}], {}, "row 1: has no dimension or no prompt"),
        ([{"dimension": "correct_misinformation", "prompt": "a"}], {}, "row 1: .* lacks its second text"),
        ([{"dimension": "encourage_learning", "prompt": "a", "context": "b"}], {}, "row 1: .* has a second text"),
        (
            [{"dimension": "encourage_learning", "prompt": "a", "call": "c", "id": "1", "system": ""}],
            {},
            "a file of tests already, .*`tests: .*r",
        ),
        ([], {}, "holds no rows with named columns"),
    ],
)
def test_an_unfit_table_is_refused(rows: list[Row], columns: dict[str, str], says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        import_tests(given_table(tmp_path, rows, columns), tmp_path / "t.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["r.jsonl"]


def test_nothing_is_written_over_and_other_formats_are_refused(tmp_path: Path) -> None:
    parquet(tmp_path / "r.parquet", ROWS)
    source = TableSource(str(tmp_path / "r.parquet"))
    import_tests(source, tmp_path / "t.parquet")
    for out, says in (("t.parquet", "exists already"), ("t.csv", "name a .parquet or .jsonl file")):
        with pytest.raises(ConfigError, match=says):
            import_tests(source, tmp_path / out)
    with pytest.raises(ConfigError, match="there is no such file"):
        import_tests(TableSource(str(tmp_path / "none.parquet")), tmp_path / "u.parquet")
    (tmp_path / "r.xlsx").write_bytes(b"PK")
    with pytest.raises(ConfigError, match=r"name a \.parquet, \.csv"):
        import_tests(TableSource(str(tmp_path / "r.xlsx")), tmp_path / "u.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ConfigError, match="not a Parquet file that can be read"):
        import_tests(TableSource(str(tmp_path / "bad.parquet")), tmp_path / "u.parquet")


def test_the_published_rows_are_read_with_their_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_published(tmp_path / "hub", ROWS, monkeypatch)
    notes = import_tests(TableSource("published", revision=REVISION), tmp_path / "t.parquet")
    about = yaml.safe_load((tmp_path / "t.parquet.source.yaml").read_text())
    assert about["source"] == f"{EVALUATIONS.repo} at {REVISION}"
    assert (about["licence"], about["canaries"]) == ("mit", [GUID])
    assert "NOTE: the card states 60,000 rows, but there are 12" in notes
    assert "NOTE: the card states 3,000 tests, but there are 6" in notes
    assert "NOTE: the columns subject_response are missing" in notes


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_imported_tests_know_where_they_come_from_without_their_record(suffix: str, tmp_path: Path) -> None:
    """A copy of the rows alone is not taken for the user's own."""
    import_tests(given_table(tmp_path, [{**row, "canary": GUID} for row in ROWS]), tmp_path / f"t{suffix}")
    copy = tmp_path / "elsewhere" / f"my-tests{suffix}"
    copy.parent.mkdir()
    copy.write_bytes((tmp_path / f"t{suffix}").read_bytes())
    sweep = Sweep.model_validate({"name": "x", "subjects": ["lab/a"], "judges": ["lab/j"], "tests": str(copy)})
    origin = origins_of(sweep, {}, {})["tests"]
    assert origin == Origin(source=str(tmp_path / "r.jsonl"), licence="unknown", canaries=(GUID,))
    copy.with_name(f"{copy.name}.source.yaml").write_text("source: theirs\nlicence: mit\n")
    assert origins_of(sweep, {}, {})["tests"].licence == "mit"


@pytest.mark.parametrize("out", ["tests.parquet", "tests.jsonl"])
def test_an_import_that_is_cut_off_leaves_no_rows_without_their_record(out: str, tmp_path: Path) -> None:
    """No file may grow further than some bytes: too few for the record, then too few for the rows."""
    source = given_table(tmp_path, ROWS)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for most, record in ((100, []), (900, [f"{out}.source.yaml"])):
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                import_tests(source, tmp_path / out)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert {path.name for path in tmp_path.iterdir()} == {"r.jsonl", *record}
    import_tests(source, tmp_path / out)
    assert (tmp_path / out).exists() and (tmp_path / f"{out}.source.yaml").exists()


def test_an_import_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C comes while rows are read, and while they are written."""

    def stopped(rows: int) -> None:
        raise KeyboardInterrupt

    context = contextvars.copy_context()
    context.run(ROWS_READ.set, stopped)
    with pytest.raises(KeyboardInterrupt):
        context.run(import_tests, given_table(tmp_path, ROWS * 1_000), tmp_path / "t.parquet")
    with pytest.raises(KeyboardInterrupt), new_file(tmp_path / "t.parquet") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["r.jsonl"]


def test_seeds_without_a_line_of_names_are_tests_of_the_dimension_that_their_files_name(tmp_path: Path) -> None:
    """As the published code keeps them: no header, quoted cells, the first column."""
    paths = [tmp_path / "encourage_learning.csv", tmp_path / "defer_important_decisions.csv"]
    for path in paths:
        path.write_bytes(b'\xef\xbb\xbf"Why, ""so""?\r\nSay."\r\n"Why?"\r\n')
    import_tests(TableSource(str(paths[0]), {"prompt": "1"}, more=(str(paths[1]),)), tmp_path / "t.jsonl")
    found = read_given_tests(Location.of(tmp_path / "t.jsonl"), load_rubrics())
    assert {dimension: [test.prompt for test in tests] for dimension, tests in found.items()} == {
        path.stem: ['Why, "so"?\r\nSay.', "Why?"] for path in paths
    }
