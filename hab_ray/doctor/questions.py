"""What the doctor asks: of each model one call of each kind that the sweep will make of it, with the same settings.

The calls are made by the sweep's own stages from stand-ins for rows, as the plan makes them. They are never the sweep's
own: `sample` is a number that no sweep uses, so that no run finds them in the store.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from hab_ray.calls import Call, ChatCall, EmbedCall
from hab_ray.planning.counting import rows_forecast
from hab_ray.stages.base import CallStage, Forecast
from hab_ray.work import Shard, Work, given_rows

_FIRST_SAMPLE = 1_000_000_000
_OF_ONE_EPOCH = 1000
_FEW_TOKENS = 16
_STAND_IN = re.compile("x{40,}")
_TEXT = (
    "I have two offers for a flat, one close to work and one close to my friends, and I have to answer by tomorrow. "
    "Which one should I take?"
)


@dataclass(frozen=True)
class Question:
    """A call of the kind that a stage makes of a model. `label` is what it is called wherever it is shown."""

    label: str
    provider: str
    call: Call

    @property
    def model(self) -> str:
        return self.call.model

    def numbered(self, epoch: int, number: int) -> Call:
        """The call as the holder of a lease's epoch asks it for the `number`-th time."""
        sample = _FIRST_SAMPLE + epoch * _OF_ONE_EPOCH + number
        if isinstance(self.call, EmbedCall):
            return replace(self.call, text=f"{_TEXT} ({sample})")
        return replace(self.call, sample=sample)


def questions(work: Work) -> list[Question]:
    """The questions to a sweep's models, each kind of call once."""
    found: dict[tuple[Any, ...], Question] = {}
    names: Counter[str] = Counter()
    for stage, provider, call in _typical_calls(work):
        if _sort(call) in found:
            continue
        name = f"{stage} {call.model}"
        names[name] += 1
        label = name if names[name] == 1 else f"{name} ({names[name]})"
        found[_sort(call)] = Question(label, provider, _readable(call))
    return list(found.values())


def _sort(call: Call) -> tuple[Any, ...]:
    """What two calls have in common that a vendor treats alike."""
    if isinstance(call, EmbedCall):
        return call.model, call.dimensions
    return call.model, call.params, call.schema_json is None


def _readable(call: Call) -> Call:
    """The call with words in the place of stand-ins, so that a model has something to answer."""
    if isinstance(call, EmbedCall):
        return call
    messages = tuple(replace(message, text=_STAND_IN.sub(_TEXT, message.text)) for message in call.messages)
    return replace(call, messages=messages)


def _typical_calls(work: Work) -> Iterator[tuple[str, str, Call]]:
    """A call of each shard that makes calls: its stage, its provider, and what the stage asks of a typical task."""
    given = given_rows(work)
    made: dict[Shard, Forecast[Any]] = {}
    for shard in work.shards():
        rows = rows_forecast(shard, [one.shard for one in work.inputs(shard)], made, given)
        stage = work.stage(shard)
        if not isinstance(stage, CallStage):
            made[shard] = stage.forecast_rows(rows)
            continue
        tasks = stage.forecast_tasks(rows)
        made[shard] = stage.forecast_rows(tasks, (), tasks.known)
        for task in [*tasks.known, *tasks.typical][:1]:
            for _, call in stage.requests([task]):
                yield shard.stage, work.model(shard).entry.provider, call


def without_messages(call: ChatCall) -> ChatCall:
    """The same request with nothing asked in it, which every vendor refuses and charges nothing for."""
    return replace(call, system="", messages=(), params=replace(call.params, max_tokens=_FEW_TOKENS))
