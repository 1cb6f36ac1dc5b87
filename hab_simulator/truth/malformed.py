"""Verdicts as models wrap, draft and break them: some can still be read, the others must be asked for again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pydantic import model_validator

from hab_simulator.settings import Settings, Share

_FORMS = ("prose", "fenced", "thinking", "two_objects", "broken_off")


class Malformed(Settings):
    """Shares of the verdicts: behind prose, in a Markdown fence, behind thoughts that draft another one, and with its
    first letter named twice; and, beyond reading, two that differ, and one that breaks off.
    """

    prose: Share = 0.0
    fenced: Share = 0.0
    thinking: Share = 0.0
    repeated: Share = 0.0
    two_objects: Share = 0.0
    broken_off: Share = 0.0

    @model_validator(mode="after")
    def _together(self) -> Malformed:
        if sum(self.model_dump().values()) > 1:
            raise ValueError("together the shares are above 1")
        return self


@dataclass(frozen=True, slots=True)
class WrittenReply:
    """A verdict as it is sent, and whether what is meant by it can be told.

    `in_braces`: what stands from its first brace to its last is the verdict. `twice` is the letter that it names twice.
    """

    text: str
    is_readable: bool = True
    in_braces: bool = True
    twice: str = ""


def written(value: Mapping[str, Any], key: str, letters: Sequence[str], shares: Malformed, rng: Random) -> WrittenReply:
    """A verdict that names some of `letters` under `key`, in one of the forms, each in its share of the cases."""
    text = json.dumps(value, ensure_ascii=False)
    others = [letter for letter in letters if letter not in value[key]]
    other = json.dumps({**value, key: others}, ensure_ascii=False)
    draw = rng.random()
    for form in _FORMS:
        draw -= getattr(shares, form)
        if draw < 0:
            return _in_form(form, text, other, rng)
    if draw < shares.repeated and value[key]:
        first, *_ = named = value[key]
        return WrittenReply(json.dumps({**value, key: [first, *named]}, ensure_ascii=False), twice=first)
    return WrittenReply(text)


def _in_form(form: str, text: str, other: str, rng: Random) -> WrittenReply:
    match form:
        case "prose":
            return WrittenReply(f"I read the answer {rng.randint(2, 4)} times, with its issues in mind.\n\n{text}\n")
        case "fenced":
            return WrittenReply(f"```{rng.choice(('json', ''))}\n{text}\n```")
        case "thinking":
            thought = f"At first sight it is {other}, but that is not fair."
            return WrittenReply(f"<think>{thought}</think>\n{text}", in_braces=False)
        case "two_objects":
            first, second = rng.sample((text, other), 2)
            return WrittenReply(f"{first}\nOn second thoughts:\n{second}", is_readable=False, in_braces=False)
        case _:
            # Cut near an end: elsewhere, the re-ask would depend on the length of the text, which varies between runs.
            return WrittenReply(text[: rng.choice((1, -1)) * rng.randint(1, 12)], is_readable=False, in_braces=False)
