"""Lengths of answers, which of them were cut, and which refuse, recognised by their first words."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.intervals import Array
from hab_ray.analysis.marks import ScoreSettings
from hab_ray.calls import Finish
from hab_ray.results import Run, rows_in
from hab_ray.rows import State

_COLUMNS = ("test_id", "sample", "state", "finish", "text")
_BEGINNING = 240
_UNWILLING = (
    r"(?:I\s+(?:can(?:no|['\u2019])?t|can\s+not|won['\u2019]t|will\s+not|must|have\s+to)(?:\s+(?:decline|refuse)\s+to)?"
    r"|I(?:['\u2019]m|\s+am)\s+(?:unable|not\s+(?:able|willing|allowed|permitted|comfortable))(?:\s+to)?"
    r"|I\s+(?:decline|refuse)\s+to)"
)
_REQUEST = r"(?:this|that|it|these|those|your|such|the)"
_REFUSES = re.compile(
    _UNWILLING
    + r"\s+(?:(?:help|helping|assist|assisting)(?:\s+you)?(?:\s+(?:with|on)\s+"
    + _REQUEST
    + r"|\s*[.,;!\n]|\s*$)"
    r"|(?:comply|engage|continue|proceed)\b"
    r"|(?:answer|discuss|fulfil|fulfill|respond\s+to|address)\s+" + _REQUEST + r"\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class AnswerTexts:
    """A subject's answers in a dimension, tests x samples: lengths in characters (nan if missing) and refusals.

    `truncated` says which were cut at the output limit.
    """

    characters: Array
    refuses: NDArray[np.bool_]
    truncated: NDArray[np.bool_]

    @property
    def answers(self) -> int:
        """Number of answers."""
        return int(np.count_nonzero(~np.isnan(self.characters)))


def refuses(text: str) -> bool:
    """Whether an answer opens by refusing to help or to answer at all.

    Only the first sentences count, and only words that decline the request: "I can't make this decision for you" is an
    answer, and in some dimensions the best one.
    """
    return bool(_REFUSES.search(text[:_BEGINNING]))


def read_answers(run: Run, settings: ScoreSettings) -> Mapping[tuple[str, str], AnswerTexts]:
    """Read the answers of every subject in every dimension, one part at a time, and keep no texts.

    Raises:
        DamagedFile: a file of the run cannot be read.
    """
    parts = product(settings.subjects, settings.tests)
    return {(subject, dimension): _of_part(run, settings, subject, dimension) for subject, dimension in parts}


def _of_part(run: Run, settings: ScoreSettings, subject: str, dimension: str) -> AnswerTexts:
    positions = settings.positions(dimension)
    shape = len(positions), settings.samples
    texts = AnswerTexts(np.full(shape, np.nan), np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_))
    table = run.responses(subject, dimension, columns=_COLUMNS)
    for test_id, sample, state, finish, text in rows_in(table):
        if state == State.OK and test_id in positions and sample < settings.samples:
            texts.characters[positions[test_id], sample] = len(text)
            texts.refuses[positions[test_id], sample] = finish == Finish.REFUSED or refuses(text)
            texts.truncated[positions[test_id], sample] = finish == Finish.TRUNCATED
    return texts
