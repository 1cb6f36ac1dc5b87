"""Prepares tables for CSV: without lists, and without formulas that a spreadsheet would run."""

import pyarrow as pa
import pyarrow.compute as pc

from hab_ray.inputs.csv_text import FORMULA, NO_ISSUES

_FORMULA = rf"\A({FORMULA})"


def without_lists(table: pa.Table) -> pa.Table:
    """Replace each list by its members, joined by spaces, or by `none` if it has none; an unknown one stays null."""
    for number, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            joined = pc.binary_join(table.column(number), " ")
            table = table.set_column(number, field.name, pc.if_else(pc.equal(joined, ""), NO_ISSUES, joined))
    return table


def without_formulas(table: pa.Table) -> pa.Table:
    """Put a ' before each text that a spreadsheet would take for a formula."""
    for number, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            safe = pc.replace_substring_regex(table.column(number), _FORMULA, r"'\1")
            table = table.set_column(number, field, safe)
    return table
