"""Rejects candidates that repeat an earlier one's words."""

from collections.abc import Sequence
from dataclasses import replace

from hab_ray.rows import Candidate, State


def without_duplicates(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates, with those that repeat an earlier one's words rejected, so that none is validated twice.

    Case and white space do not count.
    """
    first: dict[str, str] = {}
    found = []
    for candidate in candidates:
        words = " ".join(candidate.prompt.casefold().split())
        original = first.setdefault(words, candidate.id) if candidate.state is State.OK else candidate.id
        if original != candidate.id:
            candidate = replace(candidate, state=State.REJECTED, reason=f"same words as {original}")
        found.append(candidate)
    return found
