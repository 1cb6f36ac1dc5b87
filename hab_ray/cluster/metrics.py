"""Metrics of a run, exported by Ray for Prometheus and jobs/grafana.json. Ray prefixes each name with `ray_`.

They are derived once a second from the driver's counters, so that lanes spend no CPU on them. A process that is not
connected to Ray (all calls in the driver's process or by batch) reports nothing.
"""

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
_MODEL_TAGS = ("run", "provider", "model", "mode")
_ROW_TAGS = ("run", "provider", "model", "stage")


class Kind(StrEnum):
    """A counter, whose increments are reported to Ray, or a gauge."""

    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True)
class Metric:
    """A metric, with its name in Ray."""

    name: str
    kind: Kind
    description: str
    tags: tuple[str, ...] = _MODEL_TAGS

    @property
    def exported(self) -> str:
        """The name at Ray's Prometheus endpoint."""
        return f"ray_{self.name}" + ("_total" if self.kind is Kind.COUNTER else "")


CALLS = Metric("hab_calls", Kind.COUNTER, "Requests sent online, and rows sent by batch.")
TOKENS = Metric("hab_tokens", Kind.COUNTER, "Tokens of answers.", (*_MODEL_TAGS, "direction"))
DOLLARS = Metric("hab_dollars", Kind.COUNTER, "Dollars that answers cost.")
RATE_LIMITED = Metric("hab_rate_limited", Kind.COUNTER, "Requests refused as too fast (429).")
ADMITTED = Metric("hab_admitted", Kind.COUNTER, "Requests that have waited for a permit of the rate limiter.")
QUEUE_WAIT = Metric("hab_queue_wait_seconds", Kind.COUNTER, "Seconds that those requests have waited, added up.")
IN_FLIGHT = Metric("hab_in_flight", Kind.GAUGE, "Requests waiting for an answer.")
BATCH_AGE = Metric("hab_batch_age_seconds", Kind.GAUGE, "Age of the oldest open batch.")
BATCH_ROWS = Metric("hab_batch_rows_open", Kind.GAUGE, "Rows of open batches.")
SETTLED = Metric("hab_rows_settled", Kind.GAUGE, "Rows with an outcome in the store.", _ROW_TAGS)
FAILED = Metric("hab_rows_failed", Kind.GAUGE, "Rows whose outcome is a permanent failure.", _ROW_TAGS)
KNOWN = Metric("hab_rows_known", Kind.GAUGE, "Rows known so far.", _ROW_TAGS)

Tags = tuple[str, ...]
Providers = Mapping[tuple[str, str], str]
"""The providers of a run by stage and model."""


@dataclass(frozen=True)
class Reading:
    """The current value of a metric; `tags` are in the metric's order, without the run."""

    metric: Metric
    tags: Tags
    value: float


def readings(
    providers: Providers, counters: Mapping[Channel, Counters], progress: Progress, now: datetime
) -> Iterator[Reading]:
    """Yield all readings of a run at one moment."""
    for channel, counted in counters.items():
        yield from _channel_readings(channel, counted)
    yield from _batch_readings(progress.batches, now)
    for stage in progress.stages:
        tags = (providers.get((stage.stage, stage.model), ""), stage.model, stage.stage)
        yield Reading(SETTLED, tags, stage.done)
        yield Reading(FAILED, tags, stage.failed)
        yield Reading(KNOWN, tags, stage.total)


def _channel_readings(channel: Channel, counted: Counters) -> Iterator[Reading]:
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


def _batch_readings(batches: tuple[BatchProgress, ...], now: datetime) -> Iterator[Reading]:
    age: dict[Tags, float] = defaultdict(float)
    rows: dict[Tags, int] = defaultdict(int)
    for batch in batches:
        tags: Tags = (batch.name.split("/")[0], batch.model, "batch")
        age[tags] = max(age[tags], (now - datetime.fromisoformat(batch.since)).total_seconds())
        rows[tags] += batch.rows
    for tags, count in rows.items():
        yield Reading(BATCH_AGE, tags, age[tags])
        yield Reading(BATCH_ROWS, tags, count)


class RunMetrics:
    """A reporter of one run's metrics to the Ray that this process is connected to. Gauges without a reading are 0."""

    def __init__(self, run: str, providers: Providers, utc_now: Callable[[], datetime]) -> None:
        self._run, self._providers, self._utc_now = run, providers, utc_now
        self._reported_at = float("-inf")
        self._instruments: dict[Metric, Any] = {}
        self._last: dict[tuple[Metric, Tags], float] = {}

    def report(self, counters: Mapping[Channel, Counters], progress: Progress, is_last: bool) -> None:
        """Report all metrics, at most every `EVERY_S` unless `is_last`."""
        now = time.monotonic()
        if not _is_connected() or (now - self._reported_at < EVERY_S and not is_last):
            return
        self._reported_at = now
        current = list(readings(self._providers, counters, progress, self._utc_now()))
        for reading in current:
            self._report(reading)
        seen = {(reading.metric, reading.tags) for reading in current}
        for metric, tags in [key for key, value in self._last.items() if key not in seen and value]:
            if metric.kind is Kind.GAUGE:
                self._report(Reading(metric, tags, 0.0))

    def _report(self, reading: Reading) -> None:
        metric, key = reading.metric, (reading.metric, reading.tags)
        instrument = self._instruments.get(metric) or self._create(metric)
        tags = dict(zip(metric.tags, map(one_line, (self._run, *reading.tags)), strict=True))
        if metric.kind is Kind.GAUGE:
            self._last[key] = reading.value
            instrument.set(reading.value, tags=tags)
        elif reading.value > (before := self._last.get(key, 0.0)):  # a count falls if a connection is refused
            self._last[key] = reading.value
            instrument.inc(reading.value - before, tags=tags)

    def _create(self, metric: Metric) -> Any:
        from ray.util import metrics

        kind = metrics.Counter if metric.kind is Kind.COUNTER else metrics.Gauge
        return self._instruments.setdefault(metric, kind(metric.name, metric.description, metric.tags))


def _is_connected() -> bool:
    ray = sys.modules.get("ray")  # an import would take seconds
    return ray is not None and bool(ray.is_initialized())
