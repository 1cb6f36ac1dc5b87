"""A judge's shift is significant by the test whose power the table shows, on the page and as a finding alike."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from scipy import stats

from hab_ray.analysis.power import Design
from hab_ray.analysis.signs.drift import shifted_judges
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.trust.drift import Drift, drift
from hab_ray.report import write_report
from hab_ray.rows import Rejudged, Verdict
from hab_ray.stages.views import rejudged_file, verdicts_file
from tests.small_runs import MakeRun, Shape, summary_of

DIMENSION, JUDGE, SUBJECT, TESTS = "ask_clarifying_questions", "strict", "alpha", 60


def read_again(make_run: MakeRun, shift: Callable[[int], float], tests: int = TESTS) -> Drift:
    (found,) = drift(summary_with(make_run, shift, tests))
    return found


def summary_with(make_run: MakeRun, shift: Callable[[int], float], tests: int = TESTS) -> Summary:
    """A judge reads its subject's answers again and gives the points of `shift` more to each."""
    work = make_run(Shape((SUBJECT,), (JUDGE,), (DIMENSION,), tests=tests))
    rows = []
    for at, row in enumerate(work.run.read(Verdict, verdicts_file(JUDGE, SUBJECT, DIMENSION))):
        said = {name: getattr(row, name) for name in Rejudged.__slots__ if hasattr(row, name)}
        rows.append(Rejudged(**said | {"repeat": 1, "before": 5.0, "before_at": None, "score": 5.0 + shift(at)}))
    work.run.write(Rejudged, rejudged_file(JUDGE, SUBJECT, DIMENSION), rows)
    summary = summary_of(work)
    record = summary.run.record
    asked = record.model_copy(update={"sweep": record.sweep.model_copy(update={"sentinels": tests})})
    return replace(summary, run=replace(summary.run, record=asked))


def test_the_page_does_not_take_a_shift_for_proof(make_run: MakeRun) -> None:
    page = " ".join(write_report(summary_with(make_run, lambda at: 1.0)).path.read_text("utf-8").split())
    assert "have shifted during the study" in page and "up to one in 20 is significant by chance" in page


def test_a_shift_is_significant_by_its_p_value_though_the_conservative_interval_covers_0(make_run: MakeRun) -> None:
    """8 of 60 answers get a point more, one a point less."""
    row = read_again(make_run, lambda at: -1.0 if at == 50 else float(at % 7 == 0 and at < 56))
    assert row.low is not None and row.low < 0 < (row.shift or 0.0)
    assert row.p == pytest.approx(stats.binomtest(8, 9).pvalue) and row.is_significant
    (found,) = shifted_judges([row])
    assert found.kind == "judge_shifted" and "p 0.040" in found.detail
    assert not list(shifted_judges([replace(row, p=0.051)]))
    few = read_again(make_run, lambda at: 1.0, tests=6)
    assert few.is_significant and not few.reliable and few.p == pytest.approx(2 / 2**6)
    assert list(shifted_judges([few]))


def test_the_smallest_shift_is_that_of_a_paired_test_by_generation_call(make_run: MakeRun) -> None:
    random = Random(3)
    points = [random.choice((-2.0, 0.0, 2.0)) for _ in range(TESTS)]
    row = read_again(make_run, points.__getitem__)
    assert row.sd is not None and row.smallest == pytest.approx(Design(2, TESTS, row.sd).smallest)
    assert read_again(make_run, lambda at: 1.0).smallest is None
    assert read_again(make_run, lambda at: float(at), tests=5).smallest is None
