"""Ratings given in files: what a row may say, and what is wrong with a file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hab_ray.errors import ConfigError
from hab_ray.given import ratings
from hab_ray.given.ratings import GivenRatings, Scale, read_given_ratings, response_digest, whole_score
from hab_ray.location import Location
from hab_ray.rows import ChosenTest, Rater, id_of_test
from hab_ray.rubric import load_rubrics
from tests.given.tables import write_rows

PLAIN, WITH_CONTEXT = "encourage_learning", "correct_misinformation"
RUBRICS = load_rubrics()
Read = Callable[..., GivenRatings]


def row(**changes: Any) -> dict[str, Any]:
    rating = {"subject": "old", "rater": "Ada", "kind": "person", "score": 7}
    return {"dimension": PLAIN, "prompt": "How?"} | rating | changes


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads rows that are written as JSON lines, one list of them for each file."""

    def reader(*files: list[dict[str, Any]]) -> GivenRatings:
        paths = [tmp_path / f"{number}.jsonl" for number in range(len(files))]
        for path, rows in zip(paths, files, strict=True):
            write_rows(path, rows)
        return read_given_ratings([Location.of(path) for path in paths], RUBRICS)

    return reader


def test_rows_name_their_answers_by_test_id_or_by_text(read: Read) -> None:
    rows = [
        row(context="is not of this rubric"),
        row(prompt="Milk is blue.", dimension=WITH_CONTEXT, misinformation="It is.", subject_model="new"),
        row(prompt=None, test_id="t-1", sample=2, comment="Too curt.", response_sha256=response_digest("a")),
        row(dimension="elsewhere"),
    ]
    del rows[1]["subject"]
    found = read(rows[:2], rows[2:])
    first, second, third = found.ratings
    assert (first.test, first.kind, first.score, first.issues) == (id_of_test(PLAIN, "How?", ""), Rater.PERSON, 7, None)
    assert (second.test, second.subject) == (id_of_test(WITH_CONTEXT, "Milk is blue.", "It is."), "new")
    assert (third.test, third.sample, third.assessment) == ("t-1", 2, "Too curt.")
    assert third.response_sha256 == response_digest("a") and found.elsewhere == 1 and found.raters == ("Ada",)


@pytest.mark.parametrize(
    ("written", "letters"),
    [(["C", "A"], ("A", "C")), ("C, A,A", ("A", "C")), ("none", ()), ([], ()), ("", None), (None, None)],
)
def test_letters_are_a_list_or_a_text(read: Read, written: object, letters: tuple[str, ...] | None) -> None:
    (found,) = read([row(issues=written)]).ratings
    assert found.issues == letters


def test_a_table_of_columns_is_read_as_lines_are(tmp_path: Path, read: Read) -> None:
    rows = [row(issues="A", comment=None), row(prompt="Why?", score=0, issues=None)]
    in_columns = read_given_ratings([Location.of(write_rows(tmp_path / "r.parquet", rows))], RUBRICS)
    assert in_columns == read([row(issues=["A"]), row(prompt="Why?", score="0")])


def test_tests_of_the_same_texts_are_told_apart_by_their_ids(read: Read) -> None:
    tests = [ChosenTest(id, PLAIN, text, "", "", None) for id, text in (("a", "How?"), ("b", "How?"), ("c", "Why?"))]
    found = read(
        [row(test_id=test.id, prompt=test.prompt) for test in tests]
        + [row(test_id=id, prompt="Why?", rater="Bob") for id in ("a", "z")]
        + [row(test_id="z", prompt=prompt, rater="Eve") for prompt in (None, "Who?")]
    )
    joined = [ratings.test_of(rating, ratings.tests_by_text(tests)) for rating in found.ratings]
    assert joined == ["a", "b", "c", None, "c", None]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize("ids", [(0, 3), (0.0, 3.0)])
def test_tests_may_have_numbers_for_ids(tmp_path: Path, suffix: str, ids: tuple[float, float]) -> None:
    path = write_rows(tmp_path / f"r{suffix}", [row(prompt=None, test_id=id) for id in ids])
    assert [rating.test for rating in read_given_ratings([Location.of(path)], RUBRICS).ratings] == ["0", "3"]


@pytest.mark.parametrize("given", [0, 10, 7.0, "7", " 10.0 "])
def test_whole_scores(given: object) -> None:
    assert whole_score(given) == float(str(given))


@pytest.mark.parametrize("given", [7.5, 11, -1, "seven", None, True, float("nan"), float("inf"), 10**400, [7], "1e3"])
def test_what_is_no_score_of_a_judge(given: object) -> None:
    with pytest.raises(ValueError, match="no whole number from 0 to 10"):
        whole_score(given)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([row(score=85)], r"row 1: score: '85' is no whole number from 0 to 10, .* convert ratings on another scale"),
        ([row(), row(score=3)], r"row 2: Ada has rated .*, otherwise \(.*0\.jsonl, row 1\); keep one row, or give"),
        ([row(issues="A"), row(issues="B")], "row 2: Ada has rated this answer before, otherwise"),
        ([row(failed="no JSON", score=None), row(score=0)], "row 2: Ada has rated this answer before, otherwise"),
        ([row(), row(prompt="Why?", kind="published")], "row 2: Ada is a person in an earlier row"),
        ([row(prompt=None)], "row 1: .*names no test; give `prompt`"),
        ([row(kind="expert")], "row 1: kind: .*'model', 'person' or 'published'"),
        ([row(rater="A\u200bda")], r"row 1: rater: A\[U\+200B\]da holds a character that cannot be seen"),
        ([row(rater="")], "row 1: rater: "),
        ([row(issues=["Z"])], "row 1: issues: encourage_learning has no issue 'Z', only A, B"),
        ([row(response_sha256="abc")], "row 1: response_sha256: "),
        ([7], "row 1: "),
        ([row(failed="unreadable")], "row 1: score: is given, and `failed` says why there is none; keep one of them"),
        ([row(score=None)], "row 1: score: is empty, and so is `issues`; write one of them .in `issues` `none` if"),
        ([row(score="", issues=" ")], "row 1: score: is empty, and so is `issues`"),
        ([row(score=6.5)], "row 1: score: '6.5' is no whole number"),
        ([row(score=10.5, scale="1:7")], "row 1: score: '10.5' is no number from 0 to 10"),
        ([row(score="nan", scale="1:7")], "row 1: score: 'nan' is no number from 0 to 10"),
    ],
)
def test_what_is_wrong_is_named_with_its_row(read: Read, rows: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read(rows)


def test_what_a_spreadsheet_leaves_below_a_table_is_passed_over_and_a_file_without_rows_is_not(tmp_path: Path) -> None:
    path = tmp_path / "R1.csv"
    path.write_text("dimension,prompt,subject,rater,kind,score\nencourage_learning,How?,a,R1,person,7\n,,,,,\n,,,,,\n")
    (rating,) = read_given_ratings([Location.of(path)], RUBRICS).ratings
    assert rating.score == 7
    path.write_text("<html><body>Log in</body></html>")
    with pytest.raises(ConfigError, match=r"raters: .*R1\.csv: has no row"):
        read_given_ratings([Location.of(path)], RUBRICS)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_a_failure_has_no_score_and_a_mapped_score_need_not_be_whole(tmp_path: Path, suffix: str) -> None:
    rows = [row(score=None, failed=" no JSON ", scale=None), row(prompt="Why?", score=7.5, failed=None, scale="1:7")]
    path = write_rows(tmp_path / f"r{suffix}", rows)
    failed, scored = read_given_ratings([Location.of(path)], RUBRICS).ratings
    assert (failed.score, failed.failed.strip(), scored.score, scored.failed) == (None, "no JSON", 7.5, "")


@pytest.mark.parametrize(
    ("scale", "given", "score"), [("1:7", 4, 5.0), ("0:100", "85", 8.5), ("-3:3", -3, 0.0), ("0:1", 1.0, 10.0)]
)
def test_scores_of_another_scale_are_mapped_onto_that_of_judges(scale: str, given: object, score: float) -> None:
    assert Scale.of(scale).score(given) == score


@pytest.mark.parametrize("scale", ["", "7", "7:1", "1:1", "a:b", "nan:7", "0:inf", "1:2:3", "-1e308:1e308"])
def test_what_is_no_scale(scale: str) -> None:
    with pytest.raises(ValueError, match="is no scale; write LOW:HIGH"):
        Scale.of(scale)


@pytest.mark.parametrize("given", [8, 0.99, "nan", "1e400", None, True, "", [4]])
def test_a_score_outside_of_its_scale_is_none(given: object) -> None:
    with pytest.raises(ValueError, match="is no number from 1 to 7"):
        Scale.of("1:7").score(given)


def test_a_row_that_comes_twice_is_one(read: Read) -> None:
    assert len(read([row(), row()], [row()]).ratings) == 1


@pytest.mark.parametrize("score", [0, 10])
def test_of_two_files_with_one_verdict_the_one_that_knows_letters_or_a_failure_counts(read: Read, score: int) -> None:
    """The published code scored failures 0 or 10; a table without its judge's replies cannot know of them."""
    full = [row(issues="A", comment="Curt."), row(prompt="Why?", score=None, failed="no JSON")]
    bare = [row(), row(prompt="Why?", score=score)]
    files = [[each | {"rater": "o3", "kind": "published"} for each in rows] for rows in (full, bare)]
    assert read(*files) == read(files[0]) == read(*files[::-1])
    with pytest.raises(ConfigError, match=r"1\.jsonl, row 1: o3 has rated this answer before, otherwise \(.*0\.jsonl"):
        read([row(rater="o3", kind="published", score=None, failed="no JSON")], [files[1][0]])


def test_pseudonyms_of_two_imports_are_not_taken_for_one_person(read: Read) -> None:
    with pytest.raises(ConfigError, match=r"1\.jsonl, row 1: person-1 is in .*0\.jsonl, too, and need not be the same"):
        read([row(rater="person-1")], [row(rater="person-1", prompt="Why?")])
    assert len(read([row(rater="person-1"), row(rater="person-1", prompt="Why?")]).ratings) == 2
    assert read([row()], [row(prompt="Why?")]).raters == ("Ada",)


def test_raters_whose_names_differ_only_in_capitals_are_warned_of(read: Read, caplog: pytest.LogCaptureFixture) -> None:
    assert read([row(), row(rater="Bo")], [row(rater="ada", prompt="Why?")]).raters == ("Ada", "Bo", "ada")
    (record,) = caplog.records
    assert "1.jsonl, row 1: the raters' names differ only in capitals" in record.message
    assert "they count as 2 raters; write one name" in record.message and "ada" not in record.message.casefold()
