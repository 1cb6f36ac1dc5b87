"""Detects consecutive calls that end alike: the fault of a model, setting or endpoint, not of single rows."""

import re

MIN_ALIKE = 10
MAX_SILENT = 2
SLOW_S = 10.0
_VARIABLE = re.compile(r"\w*\d\w*")


class AlikeRefusals:
    """Each model's refusals since its last answer. Messages are alike if they differ only in numbers and ids."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[str, set[str]]] = {}

    def add(self, model: str, row: str, message: str) -> int:
        """Count a refusal; return how many different rows were refused alike in succession."""
        pattern = _VARIABLE.sub("#", message)
        latest = self._latest.get(model)
        rows = latest[1] if latest and latest[0] == pattern else set()
        rows.add(row)
        self._latest[model] = pattern, rows
        return len(rows)

    def answered(self, model: str) -> None:
        """Forget a model's refusals once it answers: they were the fault of their rows."""
        self._latest.pop(model, None)


class SilentCalls:
    """Each model's rows whose calls timed out or broke off since its last answer.

    Calls that were in flight together count as one row: a broken network or a suspended machine ends all of them. Calls
    that ended in less than `SLOW_S` count only after `patience_s` without an answer: a gateway whose vendor is down for
    a moment sends such.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._latest: dict[str, tuple[float, set[str]]] = {}

    def add(self, model: str, row: str, sent: float, now: float) -> tuple[int, bool]:
        """Count a call sent at `sent` that ended `now`.

        Returns:
            How many different rows' calls ended so in succession, and whether this call counts.
        """
        first, rows = self._latest.setdefault(model, (now, {row}))
        counts = now - sent >= SLOW_S or now - first > self._patience_s
        if counts and sent >= first:
            rows.add(row)
        return len(rows), counts

    def answered(self, model: str) -> None:
        """Forget a model's calls once it answers."""
        self._latest.pop(model, None)
