"""Hidden characters are shown, ordinary text in any script is left alone."""

import pytest
from markupsafe import Markup

from hab_ray.report.visible import MINUS, UNKNOWN, dollars, finalize, p_value, percent, score, signed, thousands
from hab_ray.visible import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b", "a[U+0000]b"),
        ("a\u2028b\u2029", "a[U+2028]b[U+2029]"),
        ("\u202egpj.exe\u202c", "[U+202E]gpj.exe[U+202C]"),
        ("\u2066x\u2069\u200f", "[U+2066]x[U+2069][U+200F]"),
        ("\x1b[31mred", "[U+001B][31mred"),
        ("lone \ud800 half", "lone [U+D800] half"),
        ("one\r\ntwo\rthree", "one\ntwo[U+000D]three"),
        ("\ufffe", "[U+FFFE]"),
    ],
)
def test_what_hides_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_only_plain_text_is_finalized() -> None:
    assert finalize(3) == 3
    assert finalize(None) is None
    assert finalize("\x00") == "[U+0000]"
    assert finalize(Markup("\x00")) == "\x00"


def test_numbers_are_never_minus_zero() -> None:
    assert [score(-1e-12), score(None), score(-1e-11, 1), signed(-1e-12), signed(-0.036)] == [
        *("0.00", UNKNOWN, "0.0", "0.000", f"{MINUS}0.036")
    ]


def test_only_0_and_1_are_shown_as_such() -> None:
    assert [score(0.9991), score(0.9953), score(0.99), score(1.0), score(1 - 1e-12), score(0.0004), score(-0.002)] == [
        *("0.9991", "0.995", "0.99", "1.00", "1.00", "0.0004", f"{MINUS}0.002")
    ]
    assert [score(0.97, 1), score(2.999), score(0.9949), signed(0.9996), signed(-0.9996)] == [
        *("0.97", "3.00", "0.99", "+0.9996", f"{MINUS}0.9996")
    ]


def test_only_equal_means_differ_by_zero() -> None:
    assert [signed(-0.0001), signed(0.00049), signed(0.003, 2), signed(0.0)] == [
        *(f"{MINUS}0.0001", "+0.0005", "+0.003", "0.000")
    ]


def test_p_values_keep_their_trailing_zeros() -> None:
    assert [p_value(0.2), p_value(0.196), p_value(0.0031), p_value(1.0)] == ["0.20", "0.20", "0.0031", "1"]


def test_a_p_value_above_the_level_is_not_shown_as_the_level() -> None:
    assert [*map(p_value, (0.0501, 0.05, 0.04951, 2 / 4096))] == ["0.051", "0.050", "0.050", "0.00049"]


def test_cents_are_not_shown_as_no_dollars() -> None:
    assert [dollars(0.0004), dollars(0.0), dollars(1234.5), dollars(None)] == ["$0.0004", "$0.00", "$1,234.50", UNKNOWN]


def test_counts_have_thousands_separators() -> None:
    assert [thousands(1200), thousands(50)] == ["1,200", "50"]


@pytest.mark.parametrize(
    ("share", "digits", "shown"),
    [
        (1.0, 0, "100 %"),
        (299 / 300, 0, ">99 %"),
        (0.994, 0, "99 %"),
        (0.0, 0, "0 %"),
        (1 / 300, 0, "<1 %"),
        (0.006, 0, "1 %"),
        (2000 / 2001, 1, ">99.9 %"),
        (1 / 3000, 1, "<0.1 %"),
        (1e-9, 1, "<0.1 %"),
        (1 / 1500, 1, "0.1 %"),
        (0.256, 1, "25.6 %"),
        (None, 1, UNKNOWN),
    ],
)
def test_only_all_are_100_percent_and_only_none_are_0(share: float | None, digits: int, shown: str) -> None:
    assert percent(share, digits) == shown
