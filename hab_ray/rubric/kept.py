"""The user's own texts as a run has used them, whose files may change afterwards."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from hab_ray.inputs.origin import Origin
from hab_ray.rubric.parts import LiteralRubric, Rubric

_LINE = re.compile(r"([^\n]*\n|[^\n]+\Z)\n?")


@dataclass(frozen=True)
class KeptTexts:
    """A run's copies of the user's own texts. `read` returns the one with a digest; None if the run does not hold it.

    `hashes` and `origins` are those in the run's record. A rubric's digest leaves its origin out, and so does the copy.
    """

    read: Callable[[str], bytes | None]
    hashes: Mapping[str, str]
    origins: Mapping[str, Origin]

    def text(self, name: str) -> bytes | None:
        """Return the text with this name in the record."""
        return self.read(self.hashes.get(name, ""))

    def rubric(self, name: str) -> Rubric | None:
        """Return the rubric of a dimension, without what only readers see."""
        return self._rubric(f"rubric {name}", f"rubric {name}")

    def wordings(self, judge: str, dimensions: Iterable[str]) -> dict[str, Rubric]:
        """Return a varied judge's rubrics for those dimensions in which it has its own; {} if one is missing."""
        own = f"wording of {judge}"
        names = {name: f"{own}: {name}" for name in dimensions if f"{own}: {name}" in self.hashes}
        found = {name: rubric for name in names if (rubric := self._rubric(names[name], own))}
        return found if len(found) == len(names) else {}

    def _rubric(self, name: str, origin: str) -> Rubric | None:
        text = self.text(name)
        if text is None:
            return None
        with suppress(ValueError, TypeError, KeyError, RecursionError):  # a text that somebody else wrote
            rubric = json.loads(text)
            if "literal" not in rubric:
                return Rubric.model_validate(rubric)
            rubric["literal"]["origin"] = self.origins[origin]
            return LiteralRubric.model_validate(rubric)
        return None

    def themes(self) -> tuple[str, ...] | None:
        """Return the themes. Imported ones are lines, which include their line breaks."""
        text = self.text("themes")
        if text is None:
            return None
        shown = text.decode("utf-8", "replace")
        return tuple(_LINE.findall(shown) if "\n\n" in shown or shown.endswith("\n") else shown.split("\n"))


NO_TEXTS = KeptTexts(lambda digest: None, {}, {})
