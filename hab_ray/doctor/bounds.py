"""The upper bound of an examination's cost, computed before anything is sent."""

from __future__ import annotations

from hab_ray.calls import ChatCall
from hab_ray.catalog.models import ModelEntry
from hab_ray.catalog.prices import Mode, rate
from hab_ray.doctor.examination import ROWS_OF_A_BATCH, Visit
from hab_ray.doctor.questions import Question
from hab_ray.providers import connect
from hab_ray.providers.access import endpoint_of
from hab_ray.providers.base import Provider

# What a line of a batch file adds to the request.
_LINE_BYTES = 256


async def upper_bound(visit: Visit) -> int:
    """Return the most a visit can cost in nano-dollars; raise ConfigError if a key or a model's price is missing."""
    total = 0
    for name in dict.fromkeys(question.provider for question in visit.questions):
        provider = connect(endpoint_of(name, visit.work.catalog.providers[name], visit.url(name)))
        try:
            for question in visit.questions:
                if question.provider == name:
                    total += _bound(question, visit.work.models[question.model].entry, provider, visit.by_batch)
        finally:
            await provider.close()
    return total


def _bound(question: Question, entry: ModelEntry, provider: Provider, by_batch: bool) -> int:
    call = question.numbered(epoch=0, number=0)
    if isinstance(call, ChatCall):
        size, output = provider.chat(call, entry).utf8_bytes, entry.output_limit(call.params.max_tokens)
    else:
        size, output = provider.embed([call], entry).utf8_bytes, 0
    total = rate(entry, Mode.ONLINE).bound(size, output)
    if by_batch and entry.batch:
        total += ROWS_OF_A_BATCH * rate(entry, Mode.BATCH).bound(size + _LINE_BYTES, output)
    return total
