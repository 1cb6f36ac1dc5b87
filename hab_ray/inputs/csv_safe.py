"""Tables as CSV can hold them, and without formulas for the spreadsheets that open it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hab_ray.inputs.csv_text import FORMULA

_FORMULA = rf"\A({FORMULA})"


def without_lists(table: pa.Table) -> pa.Table:
    """The table with a text in the place of each list: its members, with a space between them."""
    for number, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            joined = [None if each is None else " ".join(each) for each in table.column(number).to_pylist()]
            table = table.set_column(number, field.name, pa.array(joined, pa.string()))
    return table


def without_formulas(table: pa.Table) -> pa.Table:
    """The table with a ' before what a spreadsheet would take for a formula."""
    for number, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            safe = pc.replace_substring_regex(table.column(number), _FORMULA, r"'\1")
            table = table.set_column(number, field, safe)
    return table
