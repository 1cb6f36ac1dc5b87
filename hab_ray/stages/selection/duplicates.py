"""Rejects candidates that repeat an earlier one's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hab_ray.rows import Candidate, State


def without_duplicates(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The same candidates, each that repeats an earlier one's words rejected before its validation is paid for."""
    first: dict[str, str] = {}
    kept = []
    for candidate in candidates:
        words = " ".join(candidate.prompt.casefold().split())
        original = first.setdefault(words, candidate.id) if candidate.state is State.OK else candidate.id
        repeated = original != candidate.id
        reason = f"same words as {original}"
        kept.append(replace(candidate, state=State.REJECTED, reason=reason) if repeated else candidate)
    return kept
