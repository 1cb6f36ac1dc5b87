"""Detects assessments that are copied from the request: from the form of a verdict or from a worked example."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from hab_ray.stages.prompts.literal import AnyWording

COPIED = "its assessment repeats the words of this request"
_MIN_QUOTED_WORDS = 3
_RUN_WORDS = 8  # a copy of the wording has at least this many words
_PREFIX = 120
_WORD = re.compile(r"\w+")
_START = re.compile(r"\W*+" + r"\W++".join([r"(\w++)"] * (_RUN_WORDS + 1)) + r"\W")  # the last word is whole
_QUOTED = re.compile(r'"((?:[^"\\\n]|\\.){1,2000})"')
_LETTER_LABEL = re.compile(r"\s*\w\s*[:.)]")


class ShownTexts:
    """What a request shows besides the texts to assess: `wording`, filled from `values`.

    `examples` are assessments of worked examples: a copy of one is detected whatever its length. `criteria` are texts
    that an assessment may repeat, such as those of issues.
    """

    def __init__(
        self, wording: AnyWording, values: Mapping[str, Any], examples: Iterable[str], criteria: Iterable[str]
    ) -> None:
        self._wording, self._values, self._examples, self._criteria = wording, values, tuple(examples), tuple(criteria)

    @cached_property
    def _text(self) -> str:
        return f"{self._wording.fill_system(self._values)}\n{self._wording.fill_user(self._values)}"

    @cached_property
    def _words(self) -> str:
        return _words(self._text)

    @cached_property
    def _runs(self) -> frozenset[tuple[str, ...]]:
        """All runs of `_RUN_WORDS` words in the request."""
        words = self._words.split()
        return frozenset(zip(*(words[start:] for start in range(_RUN_WORDS)), strict=False))

    @cached_property
    def _repeatable(self) -> str:
        return "\n".join(map(_words, self._criteria))

    @cached_property
    def _assessments(self) -> tuple[str, ...]:
        """The normalized assessments that the request shows, quoted or in examples, the longest first."""
        quoted = (words for words in map(_words, _QUOTED.findall(self._text)) if words.count(" ") > _MIN_QUOTED_WORDS)
        return tuple(sorted({*quoted, *map(_words, self._examples)} - {"  "}, key=len, reverse=True))

    def holds(self, assessment: str) -> bool:
        """Whether an assessment, or its line on one letter, consists only of words that the request shows."""
        return any(map(self._is_copied, assessment.splitlines()))

    @cached_property
    def _first_words(self) -> frozenset[str]:
        return frozenset(shown.split()[0] for shown in self._assessments)

    def _is_copied(self, line: str) -> bool:
        start = _START.match(line[:_PREFIX].casefold())
        if start and not self._may_be_copied(line, start.groups()):
            return False
        words = _WORD.findall(line.casefold())
        if _first_word(words) in self._first_words and self._repeats_assessments(f" {' '.join(words)} "):
            return True
        own = _without_letter(line, words)
        if tuple(own[:_RUN_WORDS]) not in self._runs:
            return False
        copied = f" {' '.join(own)} "
        return copied in self._words and copied not in self._repeatable

    def _may_be_copied(self, line: str, start: Sequence[str]) -> bool:
        """Whether a line with these first words (over `_RUN_WORDS`) can be a copy; rules out most lines fast."""
        first = _first_word(start)
        if not first or first in self._first_words:
            return True
        return tuple(_without_letter(line, start)[:_RUN_WORDS]) in self._runs

    def _repeats_assessments(self, words: str) -> bool:
        """Whether words are shown assessments, one or several, and single letters only."""
        left = words
        for shown in self._assessments:
            while shown in left:
                left = left.replace(shown, " ")
        return left != words and all(len(word) == 1 for word in left.split())


def _first_word(words: Sequence[str]) -> str:
    """Return the first word of more than one letter, or ""."""
    return next((word for word in words if len(word) > 1), "")


def _without_letter(line: str, words: Sequence[str]) -> Sequence[str]:
    """Return a line's words without the letter that labels the line."""
    return words[1:] if _LETTER_LABEL.match(line) else words


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.casefold()))} "
