"""The doctor's questions: one call of each kind that the sweep makes to each model, with the same settings.

The sweep's own stages make the calls from placeholder rows, as for the plan. Their `sample` is a number that no sweep
uses, so that no run finds the replies in the store.
"""

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
_SAMPLES_PER_EPOCH = 1000
_FEW_TOKENS = 16
_PLACEHOLDER = re.compile("x{40,}")
_TEXT = (
    "I have two offers for a flat, one close to work and one close to my friends, and I have to answer by tomorrow. "
    "Which one should I take?"
)


@dataclass(frozen=True)
class Question:
    """A call of the kind that a stage makes to a model. `label` names it in all output."""

    label: str
    provider: str
    call: Call

    @property
    def model(self) -> str:
        return self.call.model

    def numbered(self, epoch: int, number: int) -> Call:
        """Return the call numbered uniquely by the epoch of the holder's lease and the `number` within it."""
        sample = _FIRST_SAMPLE + epoch * _SAMPLES_PER_EPOCH + number
        if isinstance(self.call, EmbedCall):
            return replace(self.call, text=f"{_TEXT} ({sample})")
        return replace(self.call, sample=sample)


def questions(work: Work) -> list[Question]:
    """Return the questions to a sweep's models, each kind of call once."""
    found: dict[tuple[Any, ...], Question] = {}
    names: Counter[str] = Counter()
    for stage, provider, call in _typical_calls(work):
        if _kind(call) in found:
            continue
        name = f"{stage} {call.model}"
        names[name] += 1
        label = name if names[name] == 1 else f"{name} ({names[name]})"
        found[_kind(call)] = Question(label, provider, _readable(call))
    return list(found.values())


def _kind(call: Call) -> tuple[Any, ...]:
    """Return what is the same in all calls that a vendor handles alike."""
    if isinstance(call, EmbedCall):
        return call.model, call.dimensions
    return call.model, call.params, call.schema_json is None


def _readable(call: Call) -> Call:
    """Replace placeholders by words, so that a model has something to answer."""
    if isinstance(call, EmbedCall):
        return call
    messages = tuple(replace(message, text=_PLACEHOLDER.sub(_TEXT, message.text)) for message in call.messages)
    return replace(call, messages=messages)


def _typical_calls(work: Work) -> Iterator[tuple[str, str, Call]]:
    """Yield stage, provider and the calls of a typical task for each shard that makes calls."""
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
    """Return the call without messages, which every vendor refuses free of charge."""
    return replace(call, system="", messages=(), params=replace(call.params, max_tokens=_FEW_TOKENS))
