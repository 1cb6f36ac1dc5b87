"""Variants beside their bases, against scipy and by counting signs."""

from dataclasses import replace
from statistics import fmean

import pytest
from scipy import stats

from hab_ray.analysis.intervals import gaffke
from hab_ray.analysis.tables.variants import Change, variants
from hab_ray.config.sections import JudgeVariant, SubjectVariant, Variants
from hab_ray.rows import Response, Verdict
from hab_ray.stages.views import responses_file, verdicts_file
from hab_ray.storage.record import amend_record, read_record
from hab_ray.work import Work
from tests.small_runs import MakeRun, Shape, page_of, summary_of

DIMENSION, TESTS = "ask_clarifying_questions", 8
SHAPE = Shape(subjects=("alpha", "beta"), dimensions=(DIMENSION,), tests=TESTS)


def with_variants(work: Work, of_subjects: list[float], of_judge: list[float]) -> Work:
    """The run with alpha under another prompt and the judge by another rubric, whose scores are those less these."""
    varied = Variants(
        subjects=(SubjectVariant(name="terse", system="Be brief."),),
        judges=(JudgeVariant(name="other", issues="reversed"),),
    )
    record = read_record(work.run_path)
    assert record is not None
    amend_record(work.run_path, sweep=record.sweep.model_copy(update={"variants": varied}))
    answers = work.run.read(Response, responses_file("alpha", DIMENSION))
    own = [replace(row, subject="alpha (terse)") for row in answers]
    work.run.write(Response, responses_file("alpha (terse)", DIMENSION), own)
    for subject in SHAPE.subjects:
        rows = work.run.read(Verdict, verdicts_file("strict", subject, DIMENSION))
        work.run.write(Verdict, verdicts_file("strict", subject, DIMENSION), [replace(row, score=8) for row in rows])
        read = [replace(row, judge="strict (other)", score=8 - less) for row, less in zip(rows, of_judge, strict=False)]
        work.run.write(Verdict, verdicts_file("strict (other)", subject, DIMENSION), read)
    rows = [replace(row, subject="alpha (terse)", score=8 - less) for row, less in zip(rows, of_subjects, strict=False)]
    work.run.write(Verdict, verdicts_file("strict", "alpha (terse)", DIMENSION), rows)
    return work


def changes(work: Work) -> list[Change]:
    return [change for change in variants(summary_of(work)) if change.base != "beta"]


def test_a_variant_is_compared_in_pairs_over_tests(make_run: MakeRun) -> None:
    less = [1.0, 2.0, 1.0, 4.0, 0.0, 2.0, 1.0, 3.0]
    of_subject, of_judge = changes(with_variants(make_run(SHAPE), less, [2.0] * TESTS))
    assert not of_subject.is_judge and (of_subject.n, of_subject.asked) == (TESTS, TESTS)
    steps = [-each / 10 for each in less]
    assert (of_subject.base_mean, of_subject.variant_mean) == pytest.approx((0.8, 0.8 + fmean(steps)))
    by_t = stats.t.interval(0.95, TESTS - 1, fmean(steps), stats.sem(steps))
    by_gaffke = gaffke(steps, -1.0)
    ends = (min(by_t[0], by_gaffke[0]), max(by_t[1], by_gaffke[1]))
    assert of_subject.difference == pytest.approx(fmean(steps))
    assert (of_subject.low, of_subject.high) == pytest.approx(ends, abs=1e-9)
    assert of_subject.p == pytest.approx(2 / 2**7)  # one of eight differences is 0
    assert of_judge.is_judge and of_judge.difference == pytest.approx(-0.2) and of_judge.p == pytest.approx(2 / 2**8)
    assert of_judge.n == 2 * TESTS


def test_a_variant_with_one_test_or_none_has_no_interval(make_run: MakeRun) -> None:
    work = with_variants(make_run(SHAPE), [3.0], [])
    (of_subject,) = changes(work)
    assert (of_subject.n, of_subject.low, of_subject.high) == (1, None, None) and of_subject.p == pytest.approx(1)
    assert of_subject.difference == pytest.approx(-0.3)
    work.run.write(Verdict, verdicts_file("strict", "alpha (terse)", DIMENSION), [])
    (of_subject,) = changes(work)
    assert (of_subject.n, of_subject.base_mean, of_subject.difference, of_subject.p) == (0, None, None, None)
    assert "alpha (terse)" in page_of(work)
