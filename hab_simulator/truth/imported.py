"""Requests for a verdict in fixed words, without a schema and without marks around what is judged.

A form says which words stand around test, context and answer. Texts are compared in normal form, in which indentation
and line breaks are single spaces: a client may take the common margin off a request once its values are in. A text may
hold the words that stand between two values; of all ways to read a request that one counts which shows a known test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import islice
from typing import Literal

from pydantic import Field, model_validator

from hab_simulator.settings import Settings
from hab_simulator.truth.judging import normal

_MAX_WAYS = 10_000
Slot = Literal["prompt", "context", "response"]


class Place(Settings):
    """Where a value stands in a form."""

    value: Slot


class PlantedForm(Settings):
    """The words and places of a request, in their order, and its whole system text.

    The verdict that it wants lists its letters under `key`.
    """

    pieces: tuple[str | Place, ...]
    system: str = ""
    key: str = Field(default="issues", min_length=1)

    @model_validator(mode="after")
    def _shows_test_and_answer(self) -> PlantedForm:
        if not {"prompt", "response"} <= set(self.slots):
            raise ValueError("pieces: have no place for the prompt or for the response")
        return self

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The values in the order of their places."""
        return tuple(piece.value for piece in self.pieces if isinstance(piece, Place))

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words before, between and behind the places, in normal form."""
        found = [""]
        for piece in self.pieces:
            if isinstance(piece, str):
                found[-1] += piece
            else:
                found.append("")
        return tuple(map(normal, found))


class GivenTest(Settings):
    """A test that given answers answer: its dimension, and the fingerprint of its context, "" for none."""

    dimension: str
    context: str = ""


def exactly(text: str) -> str:
    """The digest (hex) of a text as it is, to the byte."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def mark_of_given(dimension: str, prompt: str, response: str) -> str:
    """What a given answer is known by, of whose test and text these are the fingerprints."""
    return f"{dimension}:{prompt}:{response}"


def ways_to_read(form: PlantedForm, shown: str) -> Iterator[Mapping[Slot, str]]:
    """What a request in normal form may show, by where its values can end; nothing where its words are others."""
    words = form.words
    if shown.startswith(words[0]):
        yield from islice(_values(shown, len(words[0]), form.slots, words[1:], {}), _MAX_WAYS)


def _values(
    shown: str, at: int, slots: Sequence[Slot], words: Sequence[str], found: Mapping[Slot, str]
) -> Iterator[Mapping[Slot, str]]:
    """The values of places from a position on, each followed by its words."""
    if not slots:
        if at == len(shown):
            yield found
        return
    for end in _ends(shown, at, words[0], len(slots) == 1):
        value = shown[at:end].strip()
        if found.get(slots[0], value) == value:
            yield from _values(shown, end + len(words[0]), slots[1:], words[1:], {**found, slots[0]: value})


def _ends(shown: str, at: int, words: str, is_last: bool) -> Iterator[int]:
    """Where a value that begins at a position can end; before blanks alone it ends at any of them."""
    if is_last:
        end = len(shown) - len(words)
        if end >= at and shown.endswith(words):
            yield end
        return
    end = shown.find(words or " ", at)
    while end >= 0:
        yield end
        end = shown.find(words or " ", end + 1)
