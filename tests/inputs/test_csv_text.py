"""Tables of comma-separated values: what is refused, and with which remedy."""

from __future__ import annotations

import pytest

from hab_ray.inputs.csv_text import csv_names
from hab_ray.inputs.files import BadInput


@pytest.mark.parametrize(("separator", "noun"), [(";", "semicolons"), ("\t", "tabs")])
def test_a_table_with_other_separators_is_refused_with_the_remedy(separator: str, noun: str) -> None:
    data = separator.join(("dimension", "prompt")) + "\n" + separator.join(("a", "Is it, say, prime?")) + "\n"
    with pytest.raises(BadInput, match=f"has {noun} between the names of columns; save the table with commas"):
        csv_names(data.encode())


def test_a_semicolon_in_one_of_several_names_is_part_of_it() -> None:
    assert csv_names(b"dimension,prompt;context\n") == ("dimension", "prompt;context")
