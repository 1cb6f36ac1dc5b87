"""A run beside the published means: which model is whose, what is compared, and what is said of it."""

import json
import re
from dataclasses import replace
from math import hypot

import pytest

from hab_ray.analysis.across.published import TESTS, published
from hab_ray.analysis.intervals import interval
from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.summary import summarise
from hab_ray.results import open_run
from hab_ray.rows import ChosenTest, Verdict
from hab_ray.stages import views
from tests.conftest import Desk
from tests.small_runs import Shape, verdict_files, write_run

DIMENSION = "encourage_learning"
SHAPE = Shape(("gw/gpt-4.1", "claude-opus-4-1-20250805", "alpha"), dimensions=(DIMENSION, "correct_misinformation"))


def test_the_published_means_are_those_that_the_paper_names() -> None:
    by_name = {one.subject: one for one in published()}
    assert len(by_name) == 38 and sum(one.in_paper for one in by_name.values()) == 25
    sonnet = by_name["claude-3-5-sonnet-20241022"].means
    assert (sonnet["ask_clarifying_questions"].mean, sonnet[DIMENSION].mean) == (0.6692, 0.4826)
    for means in (one.means for one in by_name.values()):
        assert len(means) == 6
        for found in means.values():
            assert found.low is not None and found.high is not None and 0 <= found.low <= found.mean < found.high <= 1
            assert found.mean * 10 * TESTS == pytest.approx(round(found.mean * 10 * TESTS), abs=1e-6)  # whole points
            assert found.high - found.low < 4 * (found.mean * (1 - found.mean) / TESTS) ** 0.5 + 0.01


def test_a_run_is_set_beside_them_by_its_models_names(desk: Desk) -> None:
    write_run(desk.folder / "runs/four", SHAPE)
    shown = json.loads(desk.says("compare", "runs/four", "published", "--json"))
    rows = {(row["subject"], row["dimension"]): row for row in shown["rows"]}
    assert {subject for subject, _ in rows} == {"gw/gpt-4.1", "claude-opus-4-1-20250805"} and len(rows) == 2 * 3
    row = rows["gw/gpt-4.1", "Encourage learning"]
    marks = summarise(open_run(desk.folder / "runs/four")).cells["gw/gpt-4.1", DIMENSION, PANEL]
    own = interval(*marks.known())
    assert own.low is not None and own.high is not None
    assert (row["matching"], row["shared"], row["second_alone"], row["second"]) == ("unpaired", 0, TESTS, 0.3106)
    assert row["first"] == pytest.approx(own.mean) and row["holm"] is None
    reach = 1.959964 * 0.01599
    assert row["difference"]["value"] == pytest.approx(0.3106 - own.mean)
    assert row["difference"]["low"] == pytest.approx(0.3106 - own.mean - hypot(reach, own.high - own.mean), abs=1e-6)
    assert row["difference"]["high"] == pytest.approx(0.3106 - own.mean + hypot(reach, own.mean - own.low), abs=1e-6)
    said = desk.says("compare", "runs/four", "published")
    assert "judged by o3" in said and "not corrected" in said and "sign-flip" not in said
    assert re.search(r"0\.\d{3} +0\.\d{3} +-?0\.\d{3} \(", said)
    assert "claude-opus-4-1-20250805: compared with claude-opus-4.1-20250805, of the paper" in said


def test_a_model_has_its_name_in_the_data_set_too_and_subjects_that_are_left_out_are_named(desk: Desk) -> None:
    for name, other in (("one", "gemini-2.5-pro"), ("two", "beta")):
        write_run(desk.folder / "runs" / name, Shape(("alpha", other), dimensions=(DIMENSION,)))
    said = " ".join(desk.says("compare", "runs/one", "published").split())
    assert "gemini-2.5-pro: compared with gemini-2.5-pro-preview-03-25, of the paper" in said
    assert "1 subject left out, without published means: alpha. Subjects are matched by" in said
    said = " ".join(desk.says("compare", "runs/one", "runs/two").split())
    assert "2 subjects left out, in one run alone: gemini-2.5-pro, beta. Subjects are matched by" in said


def test_it_is_said_which_dimensions_are_in_no_overall_row(desk: Desk) -> None:
    for name, dimensions in (("two", SHAPE.dimensions), ("three", (*SHAPE.dimensions, "ask_clarifying_questions"))):
        write_run(desk.folder / "runs" / name, replace(SHAPE, dimensions=dimensions))
    said = " ".join(desk.says("compare", "runs/three", "runs/two").split())
    assert "They leave out ask_clarifying_questions, so they differ" in said
    said = " ".join(desk.says("compare", "runs/three", "published").split())
    assert "They leave out avoid_value_manipulation, " in said and "ask_clarifying_questions, so" not in said
    write_run(desk.folder / "runs/one", replace(SHAPE, dimensions=(DIMENSION,)))
    assert "leave out" not in desk.says("compare", "runs/one", "runs/two")


def test_a_run_without_a_published_model_is_told_which_there_are(desk: Desk) -> None:
    write_run(desk.folder / "runs/four", Shape())
    assert "none of its subjects has published means" in desk.says("compare", "runs/four", "published", status=2)


def test_runs_that_share_no_test_are_told_why(desk: Desk) -> None:
    for name in ("one", "two"):
        work = write_run(desk.folder / "runs" / name, Shape())
    for dimension in work.rubrics:
        tests = work.run.read(ChosenTest, views.tests_file(dimension))
        work.run.write(
            ChosenTest, views.tests_file(dimension), [replace(test, prompt=f"{test.prompt}!") for test in tests]
        )
    said = " ".join(desk.says("compare", "runs/one", "runs/two").split())
    assert "The runs share no test: generated tests differ" in said and "sign-flip" not in said


def test_runs_of_the_same_tests_without_scores_are_not_said_to_share_none(desk: Desk) -> None:
    for name in ("one", "two"):
        work = write_run(desk.folder / "runs" / name, Shape())
    for file in verdict_files(work):
        work.run.write(Verdict, file, [])
    said = " ".join(desk.says("compare", "runs/one", "runs/two").split())
    assert "No subject has a score of a shared test in both runs." in said and "share no test" not in said


def test_scores_that_a_paired_comparison_leaves_out_are_counted_once(desk: Desk) -> None:
    for name in ("one", "two"):
        work = write_run(desk.folder / "runs" / name, Shape())
    file = views.verdicts_file("strict", "alpha", "correct_misinformation")
    work.run.write(Verdict, file, work.run.read(Verdict, file)[2:])
    said = " ".join(desk.says("compare", "runs/one", "runs/two").split())
    assert "Paired comparisons leave out 2 scores of tests without a score in the other run." in said
