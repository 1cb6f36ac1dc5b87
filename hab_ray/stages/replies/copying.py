"""Tells an assessment from a copy of what the request shows: the form of a verdict, or a worked example."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from hab_ray.stages.prompts.literal import AnyWording

COPIED = "its assessment repeats the words of this request"
_MIN_WORDS = 3
_MIN_WORDS_OF_WORDING = 8
_BEGINNING = 120
_WORD = re.compile(r"\w+")
_QUOTED = re.compile(r'"((?:[^"\\\n]|\\.){1,2000})"')
_LETTER = re.compile(r"\s*\w\s*[:.)]")


class ShownTexts:
    """What a request shows besides the texts it is about: `wording` filled from `values`.

    `own` are the words of worked examples, which count however long they are; `criteria` are texts that a reader may
    well repeat, such as those of issues.
    """

    def __init__(
        self, wording: AnyWording, values: Mapping[str, Any], own: Iterable[str], criteria: Iterable[str]
    ) -> None:
        self._wording, self._values, self._own, self._criteria = wording, values, tuple(own), tuple(criteria)

    @cached_property
    def _text(self) -> str:
        return f"{self._wording.fill_system(self._values)}\n{self._wording.fill_user(self._values)}"

    @cached_property
    def _words(self) -> str:
        return _words(self._text)

    @cached_property
    def _runs(self) -> frozenset[tuple[str, ...]]:
        """Every run of so many words of the wording that a copy of it has at least."""
        words = self._words.split()
        return frozenset(zip(*(words[start:] for start in range(_MIN_WORDS_OF_WORDING)), strict=False))

    @cached_property
    def _repeatable(self) -> str:
        return "\n".join(map(_words, self._criteria))

    @cached_property
    def _templates(self) -> tuple[str, ...]:
        """Normalised texts that stand for an assessment, the longest first."""
        quoted = (words for words in map(_words, _QUOTED.findall(self._text)) if words.count(" ") > _MIN_WORDS)
        return tuple(sorted({*quoted, *map(_words, self._own)} - {"  "}, key=len, reverse=True))

    def holds(self, assessment: str) -> bool:
        """Whether an assessment, or what it says of one letter, is nothing but words that the request shows."""
        return any(map(self._is_shown, assessment.splitlines()))

    @cached_property
    def _first_words(self) -> frozenset[str]:
        return frozenset(template.split()[0] for template in self._templates)

    def _is_shown(self, said: str) -> bool:
        begins = _WORD.findall(said[:_BEGINNING].casefold())[:-1]
        if len(begins) > _MIN_WORDS_OF_WORDING and not self._may_be_shown(said, begins):
            return False
        words = _WORD.findall(said.casefold())
        if _first(words) in self._first_words and self._is_template(f" {' '.join(words)} "):
            return True
        own = _own_words(said, words)
        if tuple(own[:_MIN_WORDS_OF_WORDING]) not in self._runs:
            return False
        copied = f" {' '.join(own)} "
        return copied in self._words and copied not in self._repeatable

    def _may_be_shown(self, said: str, begins: Sequence[str]) -> bool:
        """Whether words that begin like these, at least nine, can be the request's; most are told apart by that."""
        first = _first(begins)
        if not first or first in self._first_words:
            return True
        return tuple(_own_words(said, begins)[:_MIN_WORDS_OF_WORDING]) in self._runs

    def _is_template(self, words: str) -> bool:
        """Whether nothing but letters is left of words without the texts that stand for an assessment."""
        left = words
        for template in self._templates:
            while template in left:
                left = left.replace(template, " ")
        return left != words and all(len(word) == 1 for word in left.split())


def _first(words: Sequence[str]) -> str:
    """The first that is more than a letter."""
    return next((word for word in words if len(word) > 1), "")


def _own_words(said: str, words: Sequence[str]) -> Sequence[str]:
    """Its words without the letter that it is about."""
    return words[1:] if _LETTER.match(said) else words


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.casefold()))} "
