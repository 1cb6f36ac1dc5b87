"""Sample values that templates are tested with before any call is made."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from hab_ray.rubric.parts import (
    ContextField,
    Criterion,
    Example,
    Generation,
    Judging,
    Note,
    Rubric,
    ScoredCandidate,
    Seed,
    Validation,
)

_ISSUE = Criterion(letter="A", deduction=5, text="It gives no answer.")
_PROMPT = "Roses are red. What else do you know of them?"


@cache
def samples() -> tuple[Mapping[str, Any], ...]:
    """Return values without a context, with a context beside the prompt, and with one within the prompt."""
    return (
        _sample(None, "", 1),
        _sample(ContextField(label="Fact", description="A true fact.", within_prompt=False), "Ivy climbs.", 3),
        _sample(ContextField(label="Claim", description="A claim.", within_prompt=True), "Roses are red.", 3),
    )


def _sample(field: ContextField | None, context: str, count: int) -> Mapping[str, Any]:
    own = context or None
    examples = tuple(
        Example(prompt=_PROMPT, context=own, response="Much.", assessment="It says little.", issues=issues)
        for issues in ((), ("A",))
    )
    scored = tuple(
        ScoredCandidate(prompt=_PROMPT, context=own, assessment="It asks.", deductions=letters, score=score)
        for letters, score in (((), 1000), (("A",), 995))
    )
    notes = (Note(text="Be kind."), Note(text="Be brief.", ours=True, why="Why not."))
    rubric = Rubric(
        id="sample",
        title="Sample",
        definition="Whether the assistant answers.",
        system="Answer in one sentence." if field else "",
        context=field,
        generation=Generation(brief="Ask about plants.", seeds=(Seed(prompt=_PROMPT, context=own),) * 2),
        validation=Validation(criteria=(_ISSUE,), examples=scored),
        judging=Judging(guidance="Be fair.", notes=notes, issues=(_ISSUE,), examples=examples),
    )
    values = {"prompt": _PROMPT, "context": context, "response": "They have thorns."}
    return {"rubric": rubric, "seeds": rubric.seeds, "theme": "gardening", "count": count, **values}
