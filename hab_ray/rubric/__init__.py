"""Rubrics: the files that define a dimension, read, checked and hashed.

All that is particular to a dimension is data in `rubrics/<dimension>.yaml`, so that a seventh is one more file
and no code. As a slip in a rubric is paid for in thousands of calls, `check` reports everything that is wrong
in all files at once, before anything is sent.
"""

from hab_ray.rubric.base import RubricPart
from hab_ray.rubric.files import RubricLibrary, check, load_rewordings, load_rubrics, read_library
from hab_ray.rubric.literal import (
    LiteralJudging,
    LiteralPrompts,
    LiteralRequest,
    LiteralValues,
    Reading,
    imported_note,
    rendered,
)
from hab_ray.rubric.parts import SCORE_START, VALIDATION_START, Criterion, Fidelity, LiteralRubric, Rubric, Themes
from hab_ray.rubric.problems import RubricProblem

__all__ = [
    "SCORE_START",
    "VALIDATION_START",
    "Criterion",
    "Fidelity",
    "LiteralJudging",
    "LiteralPrompts",
    "LiteralRequest",
    "LiteralRubric",
    "LiteralValues",
    "Reading",
    "Rubric",
    "RubricLibrary",
    "RubricPart",
    "RubricProblem",
    "Themes",
    "check",
    "imported_note",
    "load_rewordings",
    "load_rubrics",
    "read_library",
    "rendered",
]
