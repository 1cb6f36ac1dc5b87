"""Metrics of a run through Ray, for Prometheus and jobs/grafana.json. Ray exports each name with `ray_` before it.

They come from the counters that the driver has anyway, once a second, so that lanes spend no CPU on them. Where this
process is connected to no Ray (calls in the driver's process, or all by batch) nothing is reported.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from hab_ray.catalog.prices import NANO
from hab_ray.engine.jobs import Counters
from hab_ray.executors.protocol import Channel
from hab_ray.progress import BatchProgress, Progress
from hab_ray.visible import one_line

EVERY_S = 1.0
_OF_MODEL = ("run", "provider", "model", "mode")
_OF_ROWS = ("run", "provider", "model", "stage")


class Kind(StrEnum):
    """A total that only grows, of which Ray is told the growth; or a value of the moment."""

    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True)
class Metric:
    """One metric by the name that Ray is told."""

    name: str
    kind: Kind
    description: str
    tags: tuple[str, ...] = _OF_MODEL

    @property
    def exported(self) -> str:
        """Its name at Ray's Prometheus endpoint."""
        return f"ray_{self.name}" + ("_total" if self.kind is Kind.COUNTER else "")


CALLS = Metric("hab_calls", Kind.COUNTER, "Requests sent online, and rows sent by batch.")
TOKENS = Metric("hab_tokens", Kind.COUNTER, "Tokens of answers.", (*_OF_MODEL, "direction"))
DOLLARS = Metric("hab_dollars", Kind.COUNTER, "Dollars that answers cost.")
RATE_LIMITED = Metric("hab_rate_limited", Kind.COUNTER, "Requests refused as too fast (429).")
ADMITTED = Metric("hab_admitted", Kind.COUNTER, "Requests that have waited for a permit of the rate limiter.")
QUEUE_WAIT = Metric("hab_queue_wait_seconds", Kind.COUNTER, "Seconds that those requests have waited, added up.")
IN_FLIGHT = Metric("hab_in_flight", Kind.GAUGE, "Requests waiting for an answer.")
BATCH_AGE = Metric("hab_batch_age_seconds", Kind.GAUGE, "Age of the oldest open batch.")
BATCH_ROWS = Metric("hab_batch_rows_open", Kind.GAUGE, "Rows of open batches.")
SETTLED = Metric("hab_rows_settled", Kind.GAUGE, "Rows with an outcome in the store.", _OF_ROWS)
FAILED = Metric("hab_rows_failed", Kind.GAUGE, "Rows whose outcome is a permanent failure.", _OF_ROWS)
KNOWN = Metric("hab_rows_known", Kind.GAUGE, "Rows known so far.", _OF_ROWS)

Tags = tuple[str, ...]


@dataclass(frozen=True)
class Reading:
    """The value of a metric now; `tags` in the order of the metric's, without the run."""

    metric: Metric
    tags: Tags
    value: float


@dataclass(frozen=True)
class Named:
    """A run and the providers of its stages and models, by which its metrics are told apart."""

    run: str
    providers: Mapping[tuple[str, str], str]


def readings(
    named: Named, counters: Mapping[Channel, Counters], progress: Progress, now: datetime
) -> Iterator[Reading]:
    """All that there is to report of a run at one moment."""
    for channel, counted in counters.items():
        yield from _of_channel(channel, counted)
    yield from _of_batches(progress.batches, now)
    for stage in progress.stages:
        of_stage = (named.providers.get((stage.stage, stage.model), ""), stage.model, stage.stage)
        yield Reading(SETTLED, of_stage, stage.done)
        yield Reading(FAILED, of_stage, stage.failed)
        yield Reading(KNOWN, of_stage, stage.total)


def _of_channel(channel: Channel, counted: Counters) -> Iterator[Reading]:
    for model, total in counted.traffic.items():
        tags: Tags = (channel.provider, model, channel.mode)
        yield Reading(CALLS, tags, total.sent)
        yield Reading(TOKENS, (*tags, "input"), total.input_tokens)
        yield Reading(TOKENS, (*tags, "output"), total.output_tokens)
        yield Reading(DOLLARS, tags, total.cost_nanousd / NANO)
        yield Reading(RATE_LIMITED, tags, total.rate_limited)
        yield Reading(ADMITTED, tags, total.admitted)
        yield Reading(QUEUE_WAIT, tags, total.queued_s)
    for model, count in counted.in_flight.items():
        yield Reading(IN_FLIGHT, (channel.provider, model, channel.mode), count)


def _of_batches(batches: tuple[BatchProgress, ...], now: datetime) -> Iterator[Reading]:
    age: dict[Tags, float] = defaultdict(float)
    rows: dict[Tags, int] = defaultdict(int)
    for batch in batches:
        tags: Tags = (batch.name.split("/")[0], batch.model, "batch")
        age[tags] = max(age[tags], (now - datetime.fromisoformat(batch.since)).total_seconds())
        rows[tags] += batch.rows
    for model, count in rows.items():
        yield Reading(BATCH_AGE, model, age[model])
        yield Reading(BATCH_ROWS, model, count)


class RunMetrics:
    """Reports the metrics of one run to the Ray that this process is connected to. A value that ended is 0."""

    def __init__(self, named: Named, utc_now: Callable[[], datetime]) -> None:
        self._named, self._utc_now = named, utc_now
        self._reported_at = float("-inf")
        self._instruments: dict[Metric, Any] = {}
        self._last: dict[tuple[Metric, Tags], float] = {}

    def report(self, counters: Mapping[Channel, Counters], progress: Progress, is_last: bool) -> None:
        """Report where the run is, at most every `EVERY_S`; the last time always."""
        now = time.monotonic()
        if not _is_connected() or (now - self._reported_at < EVERY_S and not is_last):
            return
        self._reported_at = now
        current = list(readings(self._named, counters, progress, self._utc_now()))
        for reading in current:
            self._tell(reading)
        seen = {(reading.metric, reading.tags) for reading in current}
        for metric, tags in [key for key, value in self._last.items() if key not in seen and value]:
            if metric.kind is Kind.GAUGE:
                self._tell(Reading(metric, tags, 0.0))

    def _tell(self, reading: Reading) -> None:
        metric, key = reading.metric, (reading.metric, reading.tags)
        instrument = self._instruments.get(metric) or self._made(metric)
        told = map(one_line, (self._named.run, *reading.tags))
        tags = dict(zip(metric.tags, told, strict=True))
        before, self._last[key] = self._last.get(key, 0.0), reading.value
        if metric.kind is Kind.GAUGE:
            instrument.set(reading.value, tags=tags)
        elif reading.value > before:
            instrument.inc(reading.value - before, tags=tags)

    def _made(self, metric: Metric) -> Any:
        from ray.util import metrics

        kind = metrics.Counter if metric.kind is Kind.COUNTER else metrics.Gauge
        return self._instruments.setdefault(metric, kind(metric.name, metric.description, metric.tags))


def _is_connected() -> bool:
    """Whether this process is connected to a Ray; it is not imported to find out."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())
