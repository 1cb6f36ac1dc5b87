"""Rubrics: reads, checks and hashes the files that define dimensions.

Everything specific to a dimension is data in `rubrics/<dimension>.yaml`; a new dimension needs no code. A mistake in a
rubric costs thousands of calls, so `check` reports all problems of all files before anything is sent.
"""

from hab_ray.rubric.checks import RubricProblem, short_assessments
from hab_ray.rubric.files import (
    KeptTexts,
    RubricLibrary,
    check,
    load_rewordings,
    load_rubrics,
    read_library,
    read_library_of_run,
    rubric_names,
    unknown_dimensions,
)
from hab_ray.rubric.literal import (
    LiteralJudging,
    LiteralPrompts,
    LiteralRequest,
    LiteralValues,
    Reading,
    RubricPart,
    imported_note,
    rendered,
)
from hab_ray.rubric.parts import SCORE_START, VALIDATION_START, Criterion, Fidelity, LiteralRubric, Rubric, Themes

__all__ = [
    "SCORE_START",
    "VALIDATION_START",
    "Criterion",
    "Fidelity",
    "KeptTexts",
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
    "read_library_of_run",
    "rendered",
    "rubric_names",
    "short_assessments",
    "unknown_dimensions",
]
