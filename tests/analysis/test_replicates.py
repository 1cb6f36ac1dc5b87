"""How steady a judge is, by hand."""

import pytest

from hab_ray.analysis.marks import VerdictMark
from hab_ray.analysis.tables.trust.replicates import repeated_readings, steadiness


def read(test: str, score: int | None, issues: str = "", sample: int = 0) -> VerdictMark:
    state = "unreadable" if score is None else "ok"
    return VerdictMark(test, sample, "j", "model", state, score, None if score is None else list(issues))


def test_agreement_is_on_the_letters_and_the_spread_within_answers() -> None:
    rows = [
        *(read("a", 6, "BC"), read("a", 6, "CB")),  # the same letters in another order
        *(read("b", 10), read("b", 6, "B")),
        *(read("b", 6, "B", sample=1), read("b", 6, "CD", sample=1), read("b", None, sample=1)),
        *(read("c", 3, "A"), read("c", None)),  # one reading says nothing of steadiness
    ]
    found = steadiness("j", "d", repeated_readings(rows))
    assert found.answers == 3 and found.agreeing == pytest.approx(1 / 3)
    assert found.spread == pytest.approx((0 + 0.08**0.5 + 0) / 3)


def test_without_a_second_reading_there_is_nothing_to_say() -> None:
    found = steadiness("j", "d", repeated_readings([read("a", 5), read("b", None), read("b", None)]))
    assert (found.answers, found.agreeing, found.spread) == (0, None, None)
