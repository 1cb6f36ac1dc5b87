"""People who cannot check the judges, and raters who did not read, are named; careful ones are not."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest

from hab_ray.analysis.rating.statistics import Rated, alpha_with
from hab_ray.analysis.signs.finding import Severity
from hab_ray.analysis.signs.people import people_disagree, raters_at_chance
from hab_ray.analysis.tables.trust.people import PeopleAgreed, people
from hab_ray.rows import Rater, Verdict
from hab_ray.stages.views import verdicts_file
from hab_ray.work import Work
from tests.analysis.sound_runs import DIMENSIONS, JUDGES, SUBJECTS, among, finding, kinds, sound
from tests.small_runs import MakeRun, summary_of


def three_people(work: Work, of_carl: Callable[[Verdict], Verdict]) -> None:
    """Two people say what a judge says, nearly; the third something of his own."""
    random = Random(3)

    def nearly(row: Verdict) -> Verdict:
        return row if random.random() < 0.8 else replace(row, score=max(0.0, (row.score or 0) - 3))

    for subject, dimension in product(SUBJECTS, DIMENSIONS):
        rows = work.run.read(Verdict, verdicts_file(JUDGES[0], subject, dimension))
        for name, rate in (("anna", nearly), ("ben", nearly), ("carl", of_carl)):
            said = [replace(rate(row), judge=name, kind=Rater.PERSON, issues=None) for row in rows]
            work.run.write(Verdict, verdicts_file(name, subject, dimension), said)


def one_clicked_at_random(work: Work) -> None:
    random = Random(2)
    three_people(work, lambda row: replace(row, score=float(random.randint(0, 10))))


def one_is_careless(work: Work) -> None:
    random = Random(2)
    three_people(work, lambda row: row if random.random() < 0.7 else replace(row, score=float(random.randint(0, 10))))


@pytest.mark.parametrize(
    ("names", "severity", "who"), [("abcde", Severity.HIGH, "5 people"), ("a", Severity.MEDIUM, "1 person")]
)
def test_a_single_rater_does_not_speak_for_people(make_run: MakeRun, names: str, severity: Severity, who: str) -> None:
    work = sound(make_run)
    rows = work.run.read(Verdict, verdicts_file(JUDGES[0], "poor", DIMENSIONS[0]))
    for name in names:
        kinder = [replace(row, judge=name, kind=Rater.PERSON, score=10.0, issues=None) for row in rows]
        work.run.write(Verdict, verdicts_file(name, "poor", DIMENSIONS[0]), kinder)
    found = finding(work, "people")
    assert found.severity == severity and f"less that of the {who} who rated" in found.detail
    assert ("a single rater" in found.title) == ("may be strict or mild" in found.detail) == (len(names) == 1)


def test_a_worthless_rater_is_named_with_what_to_do(make_run: MakeRun) -> None:
    work = sound(make_run, tests=16)
    one_clicked_at_random(work)
    found, together = finding(work, "rater_at_chance"), finding(work, "people_disagree")
    assert (
        found.title == "carl may agree with the judges no better than chance, unlike other raters"
        and "It is higher for anna, ben." in found.detail
    )
    assert found.remedy.startswith("Check carl's file") and "`raters:`" in found.remedy
    assert "Krippendorff's alpha of 3 people is 0." in together.detail and together.number == pytest.approx(
        next(row.agreement for row in people(summary_of(work)))
    )


def test_a_careless_rater_raises_nothing(make_run: MakeRun) -> None:
    work = sound(make_run, tests=16)
    one_is_careless(work)
    assert not kinds(work) & {"people", "people_disagree", "rater_at_chance"}


@pytest.mark.parametrize(
    ("row", "title"),
    [
        (among(0.3, 0.2, 0.39), "People agree little with each other"),
        (among(0.39, 0.2, 0.6), "People may agree little with each other"),
        (among(0.1, 0.0, 0.2), "People agree little or no better than chance with each other"),
        (among(0.24, -1.0, 1.0), "People may agree no better than chance with each other"),
        (among(0.4, 0.0, 0.6), None),
        (among(0.1, -0.2, 0.41, answers=49), None),
        (among(0.1, -0.2, 0.39, answers=49), "People may agree no better than chance with each other"),
        (among(None, None, None), None),
        (among(0.1, None, None), "People may agree no better than chance with each other"),
        (among(0.1, None, None, answers=49), None),
    ],
)
def test_low_agreement_of_few_answers_has_to_be_low_all_over_its_interval(row: PeopleAgreed, title: str | None) -> None:
    assert [found.title for found in people_disagree([row])] == ([title] if title else [])


def beside(rater: str, low: float, high: float) -> PeopleAgreed:
    return replace(among((low + high) / 2, low, high), judge="one", rater=rater)


@pytest.mark.parametrize(
    ("others", "named"),
    [
        ([(0.31, 0.6), (0.1, 0.5)], True),
        ([(0.3, 0.6), (0.1, 0.5)], False),
        ([(0.31, 0.6), (0.1, 0.5), (0.1, 0.5)], False),
        ([], False),
    ],
)
def test_a_rater_at_chance_is_named_if_half_the_others_agree(others: list[tuple[float, float]], named: bool) -> None:
    rest = [beside(f"R{at}", *ends) for at, ends in enumerate(others, 2)]
    assert bool(list(raters_at_chance([among(0.5, 0.4, 0.6), beside("R1", 0.0, 0.3), *rest], ["one"]))) == named
    assert not list(raters_at_chance([among(0.5, 0.4, 0.6), beside("R1", 0.01, 0.3), *rest], ["one"]))


def test_raters_who_agree_are_rarely_named_in_small_samples() -> None:
    named = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        quality = random.random(12)
        scores = np.round(quality + random.normal(scale=0.3, size=(4, 12)), 1).astype(np.float64)
        parts = [Rated(scores[[at]], scores[3], np.arange(12)) for at in range(3)]
        estimates = [alpha_with([part]) for part in parts]
        rows = [
            replace(among(one.value, one.low, one.high, 12), judge="one", rater=f"R{at}")
            for at, one in enumerate(estimates)
        ]
        named += bool(list(raters_at_chance(rows, ["one"])))
    assert named <= 3
