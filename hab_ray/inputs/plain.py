"""Says in plain words what pydantic finds wrong with a value in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_TEXT, _WHOLE, _NUMBER, _TRUTH = "must be text", "must be a whole number", "must be a number", "must be true or false"
_LIST, _SECTION, _CHOICE = (
    "must be a list, such as [a, b]",
    "must be a section, such as {{key: value}}",
    "must be {expected}",
)
_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not known; correct its name, or remove it",
    "string_type": _TEXT,
    "string_too_short": "must have {min_length} or more characters",
    "string_too_long": "must have at most {max_length} characters",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), _WHOLE),
    **dict.fromkeys(("float_type", "float_parsing"), _NUMBER),
    "finite_number": "must be a finite number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    **dict.fromkeys(("bool_type", "bool_parsing"), _TRUTH),
    **dict.fromkeys(("tuple_type", "list_type"), _LIST),
    "too_short": "must have {min_length} or more entries, and has {actual_length}",
    "too_long": "must have at most {max_length} entries",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type", "dataclass_type"), _SECTION),
    **dict.fromkeys(("literal_error", "enum"), _CHOICE),
    "path_type": "must be a path",
}


def plain_words(error: ErrorDetails) -> str:
    """Return what is wrong with the value, without its place; an error of a validator of ours keeps its words."""
    if words := _WORDS.get(error["type"]):
        return words.format_map(error.get("ctx", {}))
    return error["msg"].removeprefix("Value error, ")
