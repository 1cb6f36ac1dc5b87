"""Judges of a run beside those of an earlier study, from the run's files to page, terminal and tables."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest

from hab_ray.report import write_scores
from hab_ray.rows import ChosenTest, IssueShift, Rater, Response, ScoreMap, Shift, State, Verdict
from hab_ray.stages import views
from hab_ray.stages.views import responses_file, verdicts_file
from hab_ray.storage.run import ISSUE_SHIFTS, SCORE_MAPS, SHIFTS
from hab_ray.work import Work
from tests.small_runs import MakeRun, Shape, page_of, summary_of

PLAIN, WITH_CONTEXT = Shape().dimensions
SUBJECTS = Shape().subjects
OLD = "published o3"


def judged(work: Work, subject: str, dimension: str, scores: Sequence[int | None], judge: str = "strict") -> None:
    """Have a judge of the run give these scores to a subject's answers in their order."""
    file = verdicts_file(judge, subject, dimension)
    rows = work.run.read(Verdict, file)
    work.run.write(Verdict, file, [scored(row, score) for row, score in zip(rows, scores, strict=True)])


def scored(row: Verdict, score: int | None) -> Verdict:
    state = State.UNREADABLE if score is None else State.OK
    return replace(row, score=score, state=state, issues=None if score is None else ("A",) if score < 5 else ())


def published(
    work: Work,
    subject: str,
    dimension: str,
    scores: Sequence[int | None],
    rater: str = OLD,
    kind: Rater = Rater.PUBLISHED,
) -> None:
    """Have an earlier study's judge have given these scores to the same answers; None where it failed."""
    rows = work.run.read(Verdict, verdicts_file("strict", subject, dimension))
    old = [scored(replace(r, judge=rater, kind=kind, reply_key=""), s) for r, s in zip(rows, scores, strict=True)]
    work.run.write(Verdict, verdicts_file(rater, subject, dimension), old)


@pytest.fixture
def planted(work: Work) -> Work:
    """A run with scores of both on every answer, with a failure of each, and an answer that has failed."""
    for subject, now, then in (
        (SUBJECTS[0], (10, 4, 6, None, 8, 3), (9, 4, 8, 5, None, 3)),
        (SUBJECTS[1], (7, 4, 2, 1, 8, 3), (5, 6, 2, 0, 8, 1)),
    ):
        judged(work, subject, PLAIN, now)
        published(work, subject, PLAIN, then)
    file = responses_file(SUBJECTS[1], PLAIN)
    rows = work.run.read(Response, file)
    work.run.write(Response, file, [*rows[:5], replace(rows[5], state=State.FAILED, text="")])
    return work


def test_a_run_without_verdicts_of_an_earlier_study_has_no_bridge(work: Work) -> None:
    published(work, SUBJECTS[0], PLAIN, (5,) * 6, "Ada", Rater.PERSON)
    found = summary_of(work)
    assert found.bridge.shifts == () and list(found.bridge.spoken()) == []
    write_scores(found)
    assert not work.run.has(SHIFTS) and 'id="bridge"' not in page_of(work)


def test_without_the_earlier_verdicts_nothing_of_the_comparison_stays(planted: Work) -> None:
    files = (SHIFTS, ISSUE_SHIFTS, SCORE_MAPS)
    write_scores(summary_of(planted))
    assert all(planted.run.has(file) for file in files)
    for subject in SUBJECTS[:2]:
        planted.run.folder.delete(verdicts_file(OLD, subject, PLAIN))
    write_scores(summary_of(planted))
    assert not any(planted.run.has(file) for file in files)


def test_differences_are_of_the_same_answers_and_failures_are_counted(planted: Work) -> None:
    (line,) = summary_of(planted).bridge.shifts
    assert (line.judge, line.rater, line.dimension) == ("strict", OLD, PLAIN)
    assert (line.no_answer, line.failed_then, line.failed_now) == (1, 1, 1)
    tests = [Fraction(1 + 2, 20), Fraction(0 - 2, 20), Fraction(-2 + 0, 20), Fraction(1, 10), Fraction(0), Fraction(0)]
    assert (line.tests, line.answers, line.readings) == (6, 9, 9)
    assert line.difference == pytest.approx(float(sum(tests) / 6), abs=1e-12)
    assert line.equal == float(Fraction(4, 9))


def test_the_interval_of_a_shift_allows_for_generation_calls(planted: Work) -> None:
    by_test = summary_of(planted).bridge.shifts[0]
    tests = planted.run.read(ChosenTest, views.tests_file(PLAIN))
    planted.run.write(ChosenTest, views.tests_file(PLAIN), [replace(test, call="c" * 64) for test in tests])
    (line,) = summary_of(planted).bridge.shifts
    assert line.difference == by_test.difference
    assert (line.low, line.high) == (-1, 1) != (by_test.low, by_test.high)


def test_issues_are_those_of_the_same_answers(planted: Work) -> None:
    """Of answers with scores of (10, 9), (4, 4), (6, 8), (3, 3), (7, 5), (4, 6), (2, 2), (1, 0) and (8, 8)."""
    found = {line.issue: (line.readings, line.now, line.then) for line in summary_of(planted).bridge.issues}
    assert (found["A"], found["B"]) == ((9, 5, 4), (9, 0, 0))


def test_replicates_are_averaged_for_the_shift_and_single_for_the_agreement(work: Work) -> None:
    file = verdicts_file("strict", SUBJECTS[0], PLAIN)
    rows = work.run.read(Verdict, file)
    published(work, SUBJECTS[0], PLAIN, (5, 5, 5, 5, 5, None))
    twice = [
        scored(replace(row, replicate=replicate), score)
        for row, scores in zip(rows, ((5, 9), (4, None), (5, 5), (6, 4), (None, None), (1, 1)), strict=True)
        for replicate, score in enumerate(scores)
    ]
    work.run.write(Verdict, file, twice)
    (line,) = summary_of(work).bridge.shifts
    assert line.difference == pytest.approx((0.2 - 0.1 + 0 + 0) / 4) and (line.answers, line.readings) == (4, 7)
    assert line.equal == float(Fraction(3, 7)) and (line.failed_now, line.failed_then) == (1, 1)


def test_every_judge_stands_beside_every_earlier_one(make_run: MakeRun) -> None:
    work = make_run(Shape(judges=("strict", "mild")))
    for rater in (OLD, "published gpt"):
        for dimension in (PLAIN, WITH_CONTEXT):
            published(work, SUBJECTS[0], dimension, (5, 6, 7, 8, 9, 10), rater)
    found = summary_of(work)
    lines = [(line.rater, line.judge, line.dimension) for line in found.bridge.shifts]
    assert lines == [
        (rater, judge, dimension)
        for rater in ("published gpt", OLD)
        for judge in ("strict", "mild")
        for dimension in (PLAIN, WITH_CONTEXT, "overall")
    ]
    write_scores(found)
    assert tuple(work.run.read(Shift, SHIFTS)) == found.bridge.shifts
    assert tuple(work.run.read(IssueShift, ISSUE_SHIFTS)) == found.bridge.issues
    assert tuple(work.run.read(ScoreMap, SCORE_MAPS)) == found.bridge.maps
    shown = page_of(work)
    assert f"Now minus {OLD}" in shown and "Valid for these answers only" in shown
    told = list(found.bridge.spoken())
    assert len(told) == 4 and told[2].startswith(f"strict minus {OLD}: ") and "on 12 answers to 12 tests" in told[2]


def test_one_answer_is_told_in_the_singular(make_run: MakeRun) -> None:
    work = make_run(Shape(dimensions=(PLAIN,)))
    published(work, SUBJECTS[0], PLAIN, [5] * Shape().tests)
    file = verdicts_file(OLD, SUBJECTS[0], PLAIN)
    work.run.write(Verdict, file, work.run.read(Verdict, file)[:1])
    (told,) = summary_of(work).bridge.spoken()
    assert told.endswith(" on 1 answer to 1 test")


def test_a_mapped_mean_is_of_the_subjects_that_the_earlier_judge_has_rated(work: Work) -> None:
    published(work, SUBJECTS[0], PLAIN, (5, 6, 7, 8, 9, None))
    last = summary_of(work).bridge.maps[-1]
    assert (last.score, last.answers) == (None, 6)
    assert "<td>6</td>" in page_of(work).split("Mean on the scale of then")[1].split("</table>")[0]


def test_the_order_of_rows_changes_nothing(planted: Work) -> None:
    before = summary_of(planted).bridge
    for rater in ("strict", OLD):
        for subject in SUBJECTS:
            file = verdicts_file(rater, subject, PLAIN)
            planted.run.write(Verdict, file, planted.run.read(Verdict, file)[::-1])
    assert summary_of(planted).bridge == before


def test_a_kappa_of_an_issue_that_both_always_name_is_unknown_for_the_reason_given(work: Work) -> None:
    judged(work, SUBJECTS[0], PLAIN, (1, 2, 3, 4, 0, 1))
    published(work, SUBJECTS[0], PLAIN, (4, 3, 2, 1, 0, 1))
    issues = {line.issue: (line.now, line.then, line.kappa) for line in summary_of(work).bridge.issues}
    assert issues["A"] == (6, 6, None) and issues["B"] == (0, 0, None)
    assert "both judges never name the issue, or always" in page_of(work)
