"""Signs of trouble are raised when they are there, and only then."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hab_ray.analysis.agreement import Agreement
from hab_ray.analysis.differences import Difference
from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.row_status import MissingReason, StatusCount
from hab_ray.analysis.tables.bounds import Bounds
from hab_ray.analysis.tables.findings import (
    Finding,
    chance,
    diagnose,
    judges_without_scores,
    lost_verdicts,
    unreadable,
)
from hab_ray.rows import Score, State
from tests.analysis.conftest import settings

MANY = settings(tests={"d_one": 30})


def score(subject: str, mean: float | None, dimension: str = OVERALL, reach: float = 0.01) -> Score:
    low, high = (None, None) if mean is None else (mean - reach, mean + reach)
    return Score(subject, dimension, PANEL, mean, low, high, 30, 0, 0)


def findings(
    scores: Sequence[Score] = (),
    doubtful: Sequence[Bounds] = (),
    statuses: Sequence[StatusCount] = (),
    differing: Sequence[Difference] = (),
) -> list[Finding]:
    return diagnose(scores, doubtful, statuses, differing, MANY)


def only(found: list[Finding]) -> Finding:
    (finding,) = found
    return finding


def test_a_sound_run_raises_nothing() -> None:
    assert findings([score("a", 0.7), score("b", 0.6), score("a", 0.7, "d_one"), score("b", 0.95, "d_one")]) == []


@pytest.mark.parametrize(("low", "raised"), [(0.9, False), (0.91, True)])
def test_high_scores_for_every_subject(low: float, raised: bool) -> None:
    found = findings([score("a", 0.97, "d_one"), score("b", low, "d_one"), score("c", None, "d_one")])
    assert bool(found) == raised
    assert not raised or "in d one" in only(found).title


def test_overlapping_neighbours_are_joined() -> None:
    ranked = [score("c", 0.60, reach=0.02), score("a", 0.65, reach=0.04), score("e", 0.30), score("b", 0.61)]
    assert "overlap: a, b, c. " in only(findings([*ranked, score("d", 0.9)])).detail


def test_no_overall_score_names_the_dimension_it_lacks() -> None:
    found = only(findings([score("a", 0.5, "d_two"), score("a", None, "d_one"), score("a", None)]))
    assert found.title == "a has no overall score"
    assert "no scored row in d one;" in found.detail


def test_missing_rows_name_the_worst_cell() -> None:
    doubtful = [Bounds("a", "d_one", PANEL, 3, 30, 0.4, 0.5), Bounds("b", "d_one", PANEL, 5, 30, 0.3, 0.5)]
    found = only(findings(doubtful=[*doubtful, Bounds("b", OVERALL, PANEL, 5, 30, 0.3, 0.5)]))
    assert "2 cells" in found.detail and "b in d one (5 of 30 rows)" in found.detail


def test_an_unfinished_run_says_so() -> None:
    open_rows = [
        StatusCount(None, "a", "d_one", MissingReason.OPEN, 4, ()),
        StatusCount("j", "a", "d_one", MissingReason.OPEN, 2, ()),
    ]
    assert "4 answers and 2 verdicts" in only(findings(statuses=open_rows)).detail


def test_different_settings_name_parameter_values_and_subjects() -> None:
    found = only(findings(differing=[Difference("temperature", {"0": ("a", "c"), None: ("b",)})]))
    assert found.detail == "temperature: 0 (a, c); not sent (b)."


def test_few_tests_are_named() -> None:
    assert "d1 (29), d2 (3)." in only(diagnose([], [], [], [], settings(tests={"d1": 29, "d2": 3}))).detail


def verdicts(judge: str, **counts: int) -> list[StatusCount]:
    """Counts of a judge's verdicts by state."""
    states = {state.value: state for state in (*State, *MissingReason)}
    return [StatusCount(judge, "s", "d_one", states[name], count, ()) for name, count in counts.items()]


@pytest.mark.parametrize(("lost", "raised"), [(0, False), (5, False), (6, True)])
def test_more_than_a_twentieth_of_a_judges_verdicts_lost_is_a_finding(lost: int, raised: bool) -> None:
    found = list(lost_verdicts([*verdicts("j", ok=100 - lost, unreadable=lost, open=900), *verdicts("other", ok=9)]))
    assert [finding.title for finding in found] == ["More than 5 % of j's verdicts are unreadable"] * raised
    assert unreadable(verdicts("j", ok=100 - lost, unreadable=lost)) == [f"j {lost} of 100"] * (lost > 0)


def test_a_judge_without_a_score_is_named_once_its_verdicts_have_ended() -> None:
    none = verdicts("silent", failed=2, unreadable=3)
    (found,) = judges_without_scores([*none, *verdicts("j", ok=1, failed=9), *verdicts("later", open=5)])
    assert found.title == "silent has no scored row" and "5 verdicts" in found.detail
    assert not list(lost_verdicts(none))


@pytest.mark.parametrize(("low", "raised"), [(-0.1, True), (0.0, True), (0.01, False)])
def test_agreement_by_chance_is_said_only_where_it_may_be(low: float, raised: bool) -> None:
    assert bool(list(chance(Agreement(0.3, low, 0.5)))) == raised
    assert not list(chance(None))
