"""Hostile characters become their codes, and text that people write stays as it is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hab_ray.calls import clean_text
from hab_ray.errors import FailureKind, RowError
from hab_ray.progress import Progress
from hab_ray.visible import for_terminal, hides_something, log_json, one_line, usd, visible
from tests.hostile import TEXTS, raw_in

HARMLESS = ["plain", "[/red]", "שלום", "مرحبا", "日本語", "é ñ ±", "<b> & \"'", "🐝 🇩🇪 1️⃣"]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_can_be_read_stays(text: str) -> None:
    assert visible(text) == for_terminal(text) == one_line(text) == text
    assert not hides_something(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "[U+001B][31mred"),
        ("\u202egnp.exe", "[U+202E]gnp.exe"),
        ("50 %\r100 %", "50 % 100 %"),
        ("  bad\n\nnote: fine\n", "bad note: fine"),
        ("gpt\u200b-4\u200d", "gpt[U+200B]-4[U+200D]"),
        ("half \ud800", "half [U+D800]"),
        ("\U000e0041", "[U+E0041]"),
        ("x" * 2001, "x" * 2000 + "... (2,001 characters)"),
    ],
)
def test_one_line(text: str, shown: str) -> None:
    assert one_line(text) == shown
    assert hides_something(text) is (text != "x" * 2001)


def test_a_line_is_bounded_after_codes_too() -> None:
    assert len(one_line("\x00" * 100, 100)) < 150


@pytest.mark.parametrize(
    ("nano", "shown"),
    [
        (0, "$0.00"),
        (1, "<$0.0001"),
        (49_999, "<$0.0001"),
        (50_001, "$0.0001"),
        (1_500_000, "$0.0015"),
        (2_000_000_000, "$2.00"),
        (10**18, "$1,000,000,000.00"),
    ],
)
def test_only_nothing_costs_no_dollar(nano: int, shown: str) -> None:
    assert usd(nano) == shown


def test_joiners_stay_on_a_page_and_show_on_a_terminal() -> None:
    family = "👩\u200d👧"
    assert visible(family) == family and for_terminal(family) == "👩[U+200D]👧"
    assert for_terminal("a\r\nb\tc\n") == "a\nb\tc\n"


@given(st.text() | st.sampled_from(TEXTS))
def test_nothing_raw_is_left(text: str) -> None:
    assert raw_in(for_terminal(text)) == raw_in(one_line(text)) == []
    assert not hides_something(one_line(text))
    assert for_terminal(for_terminal(text)) == for_terminal(text)
    assert RowError(FailureKind.SERVER, text).args == (one_line(text),)


VALUES = st.recursive(
    st.text() | st.sampled_from(TEXTS), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(VALUES)
def test_json_of_logs_holds_every_text_and_nothing_raw(value: object) -> None:
    line = log_json(value)
    assert raw_in(line) == [] and "\n" not in line
    assert json.loads(line) == json.loads(log_json(value, indent=1)) == storable(value)


def storable(value: object) -> object:
    """A value whose texts are encodable: in place of each lone surrogate stands U+FFFD."""
    if isinstance(value, dict):
        return {key: storable(part) for key, part in value.items()}
    return [*map(storable, value)] if isinstance(value, list) else clean_text(str(value))


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_progress_is_written_whatever_its_notes(text: str) -> None:
    written = Progress("now", 1.0, (), 1, 0, 1, (text,)).to_json().decode()
    assert raw_in(written) == [] and json.loads(written)["notes"] == [clean_text(text)]
