"""Raters beside the panel, by hand."""

from dataclasses import replace

import pytest

from hab_ray.analysis.tables.trust.raters import RaterLine, raters
from hab_ray.rows import Rater, Response, State, Verdict
from hab_ray.stages.views import responses_file, verdicts_file
from hab_ray.work import Work
from tests.small_runs import MakeRun, Shape, summary_of

PLAIN, WITH_CONTEXT = Shape().dimensions
JUDGES = ("strict", "mild")


def marked(work: Work, dimension: str, scores: list[tuple[int, ...]]) -> list[Verdict]:
    """Have the judges give these scores to alpha's first answers, and drop their other verdicts on alpha."""
    rows: list[Verdict] = []
    for place, judge in enumerate(JUDGES):
        file = verdicts_file(judge, "alpha", dimension)
        rows = work.run.read(Verdict, file)
        own = [replace(row, score=given[place]) for row, given in zip(rows, scores, strict=False)]
        work.run.write(Verdict, file, own)
    return rows


def rate(work: Work, dimension: str, rater: str, kind: Rater, rows: list[Verdict]) -> None:
    own = [replace(row, judge=rater, kind=kind, reply_key="") for row in rows]
    work.run.write(Verdict, verdicts_file(rater, "alpha", dimension), own)


def table(work: Work) -> list[RaterLine]:
    return list(raters(summary_of(work)))


def test_without_further_raters_there_is_no_table(make_run: MakeRun) -> None:
    assert table(make_run(Shape(judges=JUDGES))) == []


def test_means_are_over_the_same_answers(make_run: MakeRun) -> None:
    work = make_run(Shape(judges=JUDGES))
    rows = marked(work, PLAIN, [(10, 8), (4, 2), (0, 0), (7, 7)])
    scored = [replace(row, score=score) for row, score in zip(rows, (9, 2, 1, 7, 10), strict=False)]
    unread = replace(rows[5], score=None, state=State.UNREADABLE)
    rate(work, PLAIN, "Ada", Rater.PERSON, [*scored, unread])
    (line,) = table(work)
    assert (line.rater, line.kind, line.dimension) == ("Ada", Rater.PERSON, PLAIN)
    assert (line.rated, line.failed, line.compared) == (5, 0, 4)
    assert line.unscored == 1 and (line.mean, line.mean_answered) == pytest.approx((0.58, 0.58))
    assert (line.own, line.panel, line.difference) == pytest.approx((0.475, 0.475, 0.0))


def test_published_scores_of_what_we_count_as_failed_are_shown_with_and_without(make_run: MakeRun) -> None:
    work = make_run(Shape(judges=JUDGES))
    rows = marked(work, PLAIN, [(10, 10), (5, 5)])
    file = responses_file("alpha", PLAIN)
    responses = work.run.read(Response, file)
    work.run.write(Response, file, [*responses[:2], replace(responses[2], state=State.FAILED), *responses[3:]])
    judged = [replace(r, score=s) for r, s in zip(rows, (9, 5, 0), strict=False)]
    rate(work, PLAIN, "published o3", Rater.PUBLISHED, judged)
    (line,) = table(work)
    assert (line.rated, line.failed, line.compared) == (3, 1, 2)
    assert (line.mean, line.mean_answered) == pytest.approx((14 / 30, 0.7))
    assert (line.panel, line.difference) == pytest.approx((0.75, 0.05))


def test_a_rater_whose_answers_the_panel_has_not_scored(make_run: MakeRun) -> None:
    work = make_run(Shape(judges=JUDGES))
    rows = marked(work, WITH_CONTEXT, [])
    rate(work, WITH_CONTEXT, "Ada", Rater.PERSON, [replace(rows[0], score=3)])
    (line,) = table(work)
    assert line == RaterLine("Ada", Rater.PERSON, WITH_CONTEXT, 1, 0, 0.3, 0.3, 0, None, None)
    assert line.difference is None


def test_a_rater_that_has_failed_on_all_answers_is_counted_and_has_no_mean(make_run: MakeRun) -> None:
    work = make_run(Shape(judges=JUDGES))
    rows = [replace(row, score=None, state=State.FAILED) for row in marked(work, PLAIN, [(10, 8), (4, 2)])]
    rate(work, PLAIN, "published o3", Rater.PUBLISHED, rows[:2])
    (line,) = table(work)
    assert line == RaterLine("published o3", Rater.PUBLISHED, PLAIN, 0, 0, None, None, 0, None, None, 2)


def test_raters_come_by_name_and_dimension(make_run: MakeRun) -> None:
    work = make_run(Shape(judges=JUDGES))
    for dimension in (WITH_CONTEXT, PLAIN):
        rows = work.run.read(Verdict, verdicts_file("strict", "alpha", dimension))
        for rater, kind in (("o3", Rater.PUBLISHED), ("Zoe", Rater.PERSON), ("Ada", Rater.PERSON)):
            rate(work, dimension, rater, kind, rows)
    assert [(line.rater, line.kind, line.dimension) for line in table(work)] == [
        (rater, kind, dimension)
        for rater, kind in (("Ada", Rater.PERSON), ("Zoe", Rater.PERSON), ("o3", Rater.PUBLISHED))
        for dimension in (PLAIN, WITH_CONTEXT)
    ]
