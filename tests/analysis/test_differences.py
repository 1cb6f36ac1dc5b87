"""Where subjects were not sent the same."""

from __future__ import annotations

from collections.abc import Mapping

from hab_ray.analysis.differences import Difference, differences
from hab_ray.results import Sent

PAPER = {"max_tokens": ("1000",), "temperature": ("0",)}
FIXED = {"max_tokens": ("1000",)}


def sent(subject: str, parameters: Mapping[str, tuple[str, ...]], responses: int = 1) -> Sent:
    return Sent(subject, "model", "provider", "", responses, parameters, {})


def test_a_parameter_that_one_subject_was_not_sent_is_a_difference() -> None:
    subjects = [sent("c", PAPER), sent("a", PAPER), sent("b", FIXED)]
    assert differences(subjects) == [Difference("temperature", {"0": ("a", "c"), None: ("b",)})]


def test_equal_settings_are_no_difference() -> None:
    assert differences([sent("a", PAPER), sent("b", PAPER)]) == []
    assert differences([]) == []


def test_a_subject_without_a_response_does_not_differ() -> None:
    assert differences([sent("a", PAPER), sent("b", {}, responses=0)]) == []
