"""Refusals in the same words, one after the other: the fault of a model, a setting or an endpoint, not of rows."""

from __future__ import annotations

import re

MIN_ALIKE = 10
_VARIABLE = re.compile(r"\w*\d\w*")


class AlikeRefusals:
    """The refusals of each model since it last answered. Words are alike if they differ in numbers and ids alone."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[str, set[str]]] = {}

    def add(self, model: str, row: str, words: str) -> int:
        """Count a refusal; returns how many rows in a row were refused alike. One that is tried again counts once."""
        pattern = _VARIABLE.sub("#", words)
        before, rows = self._newest.get(model, ("", set()))
        self._newest[model] = pattern, rows | {row} if pattern == before else {row}
        return len(self._newest[model][1])

    def answered(self, model: str) -> None:
        """The model has answered: what was refused before was refused for the rows' sake."""
        self._newest.pop(model, None)
