"""Refusals in the same words, one after the other: the fault of a model, a setting or an endpoint, not of rows."""

from __future__ import annotations

import re

MIN_ALIKE = 10
_VARIABLE = re.compile(r"\w*\d\w*")


class AlikeRefusals:
    """The refusals of each model since it last answered. Words are alike if they differ in numbers and ids alone."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[str, int]] = {}

    def add(self, model: str, words: str) -> int:
        """Count a refusal; returns how many in a row were alike."""
        pattern = _VARIABLE.sub("#", words)
        before, count = self._newest.get(model, ("", 0))
        self._newest[model] = pattern, count + 1 if pattern == before else 1
        return self._newest[model][1]

    def answered(self, model: str) -> None:
        """The model has answered: what was refused before was refused for the rows' sake."""
        self._newest.pop(model, None)
