"""The user's own rubrics and themes as a run has used them, whose files may change afterwards."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from hab_ray.inputs.origin import Origin
from hab_ray.rubric.parts import LiteralRubric, Rubric

_LINE = re.compile(r"([^\n]*\n|[^\n]+\Z)\n?")


@dataclass(frozen=True)
class KeptTexts:
    """A run's copies of the user's own texts. `read` returns the one with a digest; None if the run does not hold it.

    `origins` are those in the run's record. A rubric's digest leaves its origin out, and so does the copy.
    """

    read: Callable[[str], bytes | None]
    origins: Mapping[str, Origin]

    def rubric(self, name: str, digest: str) -> Rubric | None:
        """Return the rubric of a dimension with this digest, without what only readers see."""
        text = self.read(digest)
        if text is None:
            return None
        with suppress(ValueError, TypeError, KeyError, RecursionError):  # a text that somebody else wrote
            rubric = json.loads(text)
            if "literal" not in rubric:
                return Rubric.model_validate(rubric)
            rubric["literal"]["origin"] = self.origins[f"rubric {name}"]
            return LiteralRubric.model_validate(rubric)
        return None

    def themes(self, digest: str) -> tuple[str, ...] | None:
        """Return the themes with this digest. Imported ones are lines, which include their line breaks."""
        text = self.read(digest)
        if text is None:
            return None
        shown = text.decode("utf-8", "replace")
        return tuple(_LINE.findall(shown) if "\n\n" in shown or shown.endswith("\n") else shown.split("\n"))
