"""Tables of comma-separated values: which separators are read, and what is refused with which remedy."""

import pytest

from hab_ray.inputs.csv_text import csv_names, csv_numbers, csv_rows
from hab_ray.inputs.files import BadInput


def test_a_table_with_tabs_is_refused_with_the_remedy() -> None:
    with pytest.raises(BadInput, match="has tabs between the names of columns; save the table with commas"):
        csv_names(b"dimension\tprompt\na\tIs it, say, prime?\n")


@pytest.mark.parametrize("header", ["\ufeffitem;issues", '"item";"issues"'])
def test_a_spreadsheet_may_save_semicolons_between_cells(header: str) -> None:
    data = f'{header}\r\n1;A, C\r\n"2;b";none\r\n'.encode()
    assert csv_names(data) == ("item", "issues")
    assert [row for _, row in csv_rows(data)] == [{"item": "1", "issues": "A, C"}, {"item": "2;b", "issues": "none"}]
    with pytest.raises(BadInput, match=r"line 2: has 3 cells.*; separate cells as in the first line"):
        list(csv_rows(b"item;issues\n1;A;C\n"))


def test_without_a_header_a_semicolon_is_text() -> None:
    data = b"Is it prime; or not?\n"
    assert csv_numbers(data) == ("1",)
    assert [row for _, row in csv_rows(data, ("1",))] == [{"1": "Is it prime; or not?"}]


def test_a_semicolon_in_one_of_several_names_is_part_of_it() -> None:
    assert csv_names(b"dimension,prompt;context\n") == ("dimension", "prompt;context")


def test_a_long_answer_is_read_and_an_unclosed_quotation_mark_is_not_read_to_the_end() -> None:
    ((_, row),) = csv_rows(b'text\n"' + b"x" * 4_000_000 + b'"\n')
    assert len(row["text"]) == 4_000_000
    with pytest.raises(BadInput, match="line 2: its row has more than 4,194,304 characters; look for a quotation mark"):
        list(csv_rows(b'text\n"' + b"x" * 5_000_000))
