"""What subjects were sent, and where they differ."""

from __future__ import annotations

from dataclasses import replace

from hab_ray.analysis.settings import Asked, Difference, asked, differences, sent
from tests.analysis.conftest import answer

PAPER = '{"max_tokens": "1000", "temperature": "0"}'
FIXED = '{"max_tokens": "1000"}'


def test_a_subject_is_described_by_what_it_was_sent_and_said() -> None:
    rows = [answer("d1-0", sent=PAPER), answer("d1-1", sent=FIXED), replace(answer("d1-2"), model_reported="m-2")]
    assert asked(sent(rows)) == [Asked("s", {"max_tokens": ("1000",), "temperature": ("0",)}, {"m-1": 2, "m-2": 1})]


def test_a_parameter_that_one_subject_was_not_sent_is_a_difference() -> None:
    rows = [answer("d1-0", subject=name, sent=way) for name, way in (("c", PAPER), ("a", PAPER), ("b", FIXED))]
    assert differences(asked(sent(rows))) == [Difference("temperature", {"0": ("a", "c"), None: ("b",)})]


def test_equal_settings_are_no_difference() -> None:
    assert differences(asked(sent(answer("d1-0", subject=name, sent=PAPER) for name in "ab"))) == []
    assert differences([]) == []
