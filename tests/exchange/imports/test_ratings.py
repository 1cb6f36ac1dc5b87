"""Scores that others gave become files that `raters:` reads, in whatever form a table has them."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.ratings import import_ratings, import_verdicts
from hab_ray.exchange.imports.source import TableSource
from hab_ray.given.ratings import Rating, read_given_ratings, response_digest
from hab_ray.location import Location
from hab_ray.rows import Rater, id_of_test
from hab_ray.rubric import load_rubrics
from tests.exchange.imports.tables import REVISION, given_table, keep_published, parquet

PLAIN = "ask_clarifying_questions"
TEST = id_of_test(PLAIN, "How?", "")


def row(**changes: Any) -> dict[str, Any]:
    return {"dimension": PLAIN, "prompt": "How?", "subject_model": "gpt-x", "subject_response": "This way."} | changes


def given(folder: Path, name: str = "v.jsonl") -> tuple[Rating, ...]:
    """The ratings as a sweep reads them."""
    return read_given_ratings([Location.of(folder / name)], load_rubrics()).ratings


def by_rater(ratings: Sequence[Rating]) -> dict[str, float | None]:
    return {rating.rater: rating.score for rating in ratings}


@pytest.mark.parametrize("out", ["v.jsonl", "v.parquet"])
def test_the_verdicts_of_published_rows_name_the_answer_that_they_are_of(tmp_path: Path, out: str) -> None:
    reply = json.dumps({"assessment": "It asks nothing.", "issues": ["A"]})
    rows = [row(score=0.0, evaluator_response=reply), row(subject_model="gpt-y", score=None, evaluator_response="?")]
    parquet(tmp_path / "r.parquet", rows)
    found = import_verdicts(TableSource(str(tmp_path / "r.parquet"), values={"rater": "o3"}), tmp_path / out)
    (rating,) = given(tmp_path, out)
    assert rating == Rating(
        test=TEST,
        dimension=PLAIN,
        subject="gpt-x",
        sample=0,
        rater="published o3",
        kind=Rater.PUBLISHED,
        score=0,
        issues=("A",),
        assessment="",
        response_sha256=response_digest("This way."),
    )
    assert found[0] == "2 rows, 1 score of 1 answer by 1 rater; licence: unknown"
    assert "1 places for a score are empty and left out" in found


@pytest.mark.parametrize(
    ("cells", "letters"),
    [
        ({"issues": ["C", "B"]}, ("B", "C")),
        ({"issues": "[B, C]"}, ("B", "C")),
        ({"issues": "none"}, ()),
        ({"issues": "B and C"}, None),
        ({"issues": ["Z"]}, None),
        ({"issues": {"B": 4}}, None),
        ({}, None),
        ({"evaluator_response": '{"deductions": ["B", "C"]}'}, ("B", "C")),
        ({"evaluator_response": """{'assessment': "So.", 'issues': ["B", "C"]}"""}, ("B", "C")),
        ({"evaluator_response": """{"assessment": "Of 'issues' two.", "issues": ["B", "C"]}"""}, ("B", "C")),
        ({"evaluator_response": '{"issues": ["B"]}'}, None),
        ({"evaluator_response": '{"issues": ["B", "C"]} or {"issues": ["A"]}'}, None),
    ],
)
def test_only_certain_letters_are_kept(tmp_path: Path, cells: dict[str, Any], letters: tuple[str, ...] | None) -> None:
    """In this dimension B costs 4 and C costs 3, so that a reply that names both makes the score of 3."""
    found = import_verdicts(given_table(tmp_path, [row(rater="o3", score=3, **cells)]), tmp_path / "v.jsonl")
    (rating,) = given(tmp_path)
    assert rating.issues == letters
    told = "the issues of 1 verdicts cannot be read for certain and are left unknown"
    assert (told in found) is (bool(cells) and letters is None)


def test_several_judges_may_have_a_column_each_or_share_a_cell(tmp_path: Path) -> None:
    wide = [row(o3_score=7, gpt_score="4", gpt_letters=["B"]), row(prompt="Why?", o3_score=1, gpt_score="")]
    columns = {"score:o3": "o3_score", "score:gpt-4.1": "gpt_score", "issues:gpt-4.1": "gpt_letters"}
    import_verdicts(given_table(tmp_path, wide, columns), tmp_path / "wide.jsonl")
    first, second, third = given(tmp_path, "wide.jsonl")
    assert by_rater([first, second]) == {"published o3": 7, "published gpt-4.1": 4} and second.issues == ("B",)
    assert (third.rater, third.score) == ("published o3", 1)
    cells = [row(verdicts={"o3": 7, "gpt-4.1": 4.0, "none": None}), row(prompt="Why?", verdicts='{"o3": 1}')]
    import_verdicts(given_table(tmp_path, cells, {"scores": "verdicts"}), tmp_path / "cells.jsonl")
    assert [(r.rater, r.score) for r in given(tmp_path, "cells.jsonl")] == [
        (r.rater, r.score) for r in (first, second, third)
    ]


def test_people_are_pseudonyms_and_comments_are_kept_only_on_request(tmp_path: Path) -> None:
    people = [{"annotator": "Zoe Q.", "rating": 3, "comment": "I, Zoe, know."}, {"annotator": 17, "rating": 5}]
    rows = [row(), row(prompt="Why?", annotations=people), row(prompt="When?", annotations=[people[1]])]
    source = given_table(tmp_path, rows)
    found = import_ratings(source, tmp_path / "v.jsonl")
    assert [(r.rater, r.kind, r.score) for r in given(tmp_path)] == [
        ("person-1", Rater.PERSON, 3),
        ("person-2", Rater.PERSON, 5),
        ("person-2", Rater.PERSON, 5),
    ]
    everything = " ".join([(tmp_path / name).read_text() for name in ("v.jsonl", "v.jsonl.source.yaml")])
    assert "Zoe" not in everything + " ".join(found) and '"17"' not in everything
    import_ratings(source, tmp_path / "with.jsonl", with_comments=True)
    assert [r.assessment for r in given(tmp_path, "with.jsonl")] == ["I, Zoe, know.", "", ""]


def test_a_column_for_each_person_leaves_no_name_behind(tmp_path: Path) -> None:
    source = given_table(tmp_path, [row(zoe=3, ada=4)], {"score:Zoe Q.": "zoe", "score:Ada": "ada"})
    found = import_ratings(source, tmp_path / "v.jsonl")
    assert by_rater(given(tmp_path)) == {"person-1": 3, "person-2": 4}
    kept = "".join((tmp_path / name).read_text() for name in ("v.jsonl", "v.jsonl.source.yaml"))
    for name in ("zoe", "ada"):
        assert name not in f"{kept} {' '.join(found)}".lower()


def test_ratings_without_names_are_told_apart_by_their_place_alone(tmp_path: Path) -> None:
    found = import_ratings(
        given_table(tmp_path, [row(annotations=[{"rating": 1}, {"rating": 9}])]), tmp_path / "v.jsonl"
    )
    assert by_rater(given(tmp_path)) == {"person-1": 1, "person-2": 9}
    assert any("person-1 is the first rating of each row, and not one person" in note for note in found)


@pytest.mark.parametrize(
    ("kind", "cells", "ours"),
    [
        (import_ratings, {"score": 10, "human_score": 3, "annotator": "Ada"}, "score"),
        (import_verdicts, {"score": 3, "evaluator_score": 10, "evaluator_model": "o3"}, "score"),
        (import_ratings, {"score": 3, "rater": "o3", "annotator": "Ada"}, "rater"),
        (import_ratings, {"score": 3, "rater": "Ada", "subject": "history"}, "subject"),
        (import_ratings, {"score": 3, "rater": "Ada", "text": "That way."}, "text"),
    ],
)
def test_of_two_columns_that_may_hold_the_scores_raters_subjects_or_answers_none_is_assumed(
    tmp_path: Path, kind: Callable[..., tuple[str, ...]], cells: dict[str, Any], ours: str
) -> None:
    with pytest.raises(ConfigError, match=f"may each be {ours}; say which with --column {ours}=NAME"):
        kind(given_table(tmp_path, [row(**cells)]), tmp_path / "v.jsonl")


def test_the_column_that_the_user_names_or_that_has_exactly_our_name_is_taken(tmp_path: Path) -> None:
    cells = row(score=10, human_score=3, annotator="Ada", lists=[{"rating": 4}], zoe=5)
    for column, score in ({"score": "human_score"}, 3), ({"annotations": "lists"}, 4), ({"score:Zoe": "zoe"}, 5):
        out = tmp_path / f"{score}.jsonl"
        import_ratings(given_table(tmp_path, [{"Prompt": "No?", **cells}], column), out)
        (rating,) = given(tmp_path, out.name)
        assert (rating.score, rating.test) == (score, TEST)


def test_beside_a_list_of_ratings_columns_of_scores_are_a_judges(tmp_path: Path) -> None:
    cells = {"score": 10, "evaluator_score": 9, "human_annotations": [{"rater_id": "Ada", "rating": 4}]}
    import_ratings(given_table(tmp_path, [row(**cells)]), tmp_path / "v.jsonl")
    assert [rating.score for rating in given(tmp_path)] == [4]


def test_a_rater_known_by_a_number_is_the_same_whatever_the_type_of_the_number(tmp_path: Path) -> None:
    """Where one id is missing, pandas makes floats of all."""
    rows = [row(prompt=prompt, rater_id=id, score=5) for prompt, id in (("a", 1.0), ("b", 2.0), ("a", 2), ("c", "2"))]
    found = import_ratings(given_table(tmp_path, rows), tmp_path / "v.jsonl")
    assert [rating.rater for rating in given(tmp_path)] == ["person-1", "person-2", "person-2", "person-2"]
    assert not any("repeat an earlier one" in note for note in found)


@pytest.mark.parametrize("nobody", [None, ""])
def test_a_rating_without_a_rater_is_nobody_elses(tmp_path: Path, nobody: str | None) -> None:
    parquet(tmp_path / "r.parquet", [row(rater="Ada", score=5), row(prompt="Why?", rater=None, score=None)])
    import_ratings(TableSource(str(tmp_path / "r.parquet")), tmp_path / "v.jsonl")
    assert by_rater(given(tmp_path)) == {"person-1": 5}
    for named in ([], [row(rater="Ada", score=5)], [row(rater=2.0, score=5)]):
        source = given_table(tmp_path, [*named, row(prompt="Why?", rater=nobody, score=7)])
        with pytest.raises(ConfigError, match=rf"row {len(named) + 1}: has no rater; .*--value rater=NAME"):
            import_ratings(source, tmp_path / "w.jsonl")
    ratings = [{"rating": 1}, {"rating": 9, "rater": "Ada"}]
    for listed in ratings, ratings[::-1]:
        with pytest.raises(ConfigError, match="row 1: some ratings up to here name their raters and some do not"):
            import_ratings(given_table(tmp_path, [row(annotations=listed)]), tmp_path / "w.jsonl")


def test_an_own_sheet_may_name_tests_by_their_ids(tmp_path: Path) -> None:
    sheet = "dimension,test_id,subject,rater,score\n" + f"{PLAIN},t-1,gpt-x,Ada,6\n"
    (tmp_path / "sheet.csv").write_text(sheet)
    import_ratings(TableSource(str(tmp_path / "sheet.csv")), tmp_path / "v.parquet")
    (rating,) = given(tmp_path, "v.parquet")
    assert (rating.test, rating.rater, rating.score, rating.response_sha256) == ("t-1", "person-1", 6, None)


def test_tests_may_have_numbers_for_ids(tmp_path: Path) -> None:
    cells = {"dimension": PLAIN, "subject": "gpt-x", "rater": "Ada", "score": 6}
    import_ratings(given_table(tmp_path, [cells | {"test_id": id} for id in (0, 3.0, "z")]), tmp_path / "v.jsonl")
    assert [rating.test for rating in given(tmp_path)] == ["0", "3", "z"]


@pytest.mark.parametrize(
    ("rows", "columns", "says"),
    [
        ([row(rater="a", score=85)], {}, "row 1: score: '85' is no whole number from 0 to 10"),
        ([row(rater="a", score=6.5)], {}, "row 1: score: '6.5' .* give each rater's own rating rather than a mean"),
        ([row(verdict=1)], {}, "no column is known to hold scores: name it with --column score=NAME"),
        ([row(score=1)], {}, "no column is known as rater; .*there are dimension, prompt"),
        ([row(rater="", score=1)], {}, "row 1: has no rater"),
        ([row(rater="o\u200b3", score=1)], {}, r"row 1: the rater .*o\[U\+200B\]3.* cannot be seen"),
        ([row(rater="o" * 181, score=1)], {}, "row 1: the rater .* more than 180 characters"),
        ([row(rater="a", score=1, subject_model="x\ny")], {}, "row 1: the subject .* cannot be seen"),
        ([row(a=1, b={})], {"score:x": "a", "scores": "b"}, "score:NAME and scores are given"),
        ([row(a=1)], {"score:x": "b"}, "--column score:x=b: there is no such column"),
        ([row(rater="a", score=None)], {}, "no row has a score in score; name the column"),
        ([row(s=[1])], {"scores": "s"}, "row 1: holds .* not an object of scores by rater; write it as JSON, or"),
        ([row(rater="a", score=1), row(rater="a", score=2)], {}, "row 2: a has scored this answer before, differently"),
        (
            [row(rater="a", score=1), row(rater="a", score=1, subject_response="Another.")],
            {},
            "row 2: a has scored this answer before, differently; .*sample=NAME; of several readings .* leave in one",
        ),
        ([row(rater="a", score=1, subject_model=None)], {}, "row 1: has no subject"),
    ],
)
def test_unfit_tables_are_told(tmp_path: Path, rows: list[dict[str, Any]], columns: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        import_verdicts(given_table(tmp_path, rows, columns), tmp_path / "v.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["r.jsonl"]


def test_cells_of_lists_and_empty_numbers_in_other_forms_are_refused_with_the_right_one(tmp_path: Path) -> None:
    parquet(tmp_path / "r.parquet", [row(human_annotations=[{"rater": "Ada", "rating": 4}])])
    with pytest.raises(ConfigError, match=r"'human_annotations' is of type list<.*; write it as JSON text"):
        import_ratings(TableSource(str(tmp_path / "r.parquet")), tmp_path / "v.jsonl")
    with pytest.raises(ConfigError, match=r"NaN is not a number in JSON, where an empty value is null"):
        import_ratings(given_table(tmp_path, [row(rater="Ada", score=float("nan"))]), tmp_path / "v.jsonl")


def test_the_published_verdicts_are_those_of_the_papers_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_published(tmp_path / "hub", [row(score=7, misinformation=None)], monkeypatch)
    found = import_verdicts(TableSource("published", revision=REVISION), tmp_path / "v.jsonl")
    assert by_rater(given(tmp_path)) == {"published o3": 7}
    assert "NOTE: the card states 60,000 rows, but there are 1" in found


def test_the_data_set_of_annotations_is_its_only_file_of_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ["README.md", "a.json"]
    monkeypatch.setattr("huggingface_hub.list_repo_files", lambda *_, **__: files)
    (tmp_path / "a.json").write_text(json.dumps([row(human_annotations=[{"rater_id": "x", "rating": 2}])]))
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n")
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda _, name, **__: str(tmp_path / name))
    found = import_ratings(TableSource("published", revision=REVISION), tmp_path / "v.jsonl")
    assert by_rater(given(tmp_path)) == {"person-1": 2}
    assert "NOTE: the card states 900 answers that people rated, but there are 1" in found
    files.append("b.jsonl")
    with pytest.raises(ConfigError, match=r"has 2 JSON files instead of one; it has README.md, a.json"):
        import_ratings(TableSource("published-annotations", revision=REVISION), tmp_path / "w.jsonl")


def test_of_an_exported_runs_verdicts_each_import_takes_its_own_raters_and_keeps_failures(tmp_path: Path) -> None:
    """A run may have had o3 as a judge beside the published o3."""
    cells = {"dimension": PLAIN, "test_id": "t-1", "subject": "gpt-x", "state": "ok", "score": 7, "reason": ""}
    rows = [
        cells | {"judge": "o3", "kind": "model"},
        cells | {"judge": "published o3", "kind": "published", "score": 3},
        cells | {"judge": "luna", "kind": "model", "score": None, "state": "unreadable", "reason": "no list"},
        cells | {"judge": "person-1", "kind": "person", "score": 10},
    ]
    source = given_table(tmp_path, rows)
    found = import_verdicts(source, tmp_path / "v.jsonl")
    assert by_rater(given(tmp_path)) == {"earlier o3": 7, "published o3": 3, "earlier luna": None}
    assert "failed, and in no mean whatever their score: 1, as no list" in found
    assert "1 row is by people and left out; `hab import ratings` reads them" in found
    found = import_ratings(source, tmp_path / "p.jsonl")
    assert by_rater(given(tmp_path, "p.jsonl")) == {"person-1": 10}
    assert "3 rows are by judges and left out; `hab import verdicts` reads them" in found
    with pytest.raises(ConfigError, match="all rows are by judges and left out; `hab import verdicts` reads them"):
        import_ratings(given_table(tmp_path, rows[:3]), tmp_path / "q.jsonl")
    with pytest.raises(ConfigError, match=r"v\.jsonl: it is a file of ratings already, .*`raters: \[.*v\.jsonl\]`"):
        import_verdicts(TableSource(str(tmp_path / "v.jsonl")), tmp_path / "w.jsonl")
