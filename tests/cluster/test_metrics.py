"""What is reported of a run as metrics; that Ray exports it is in test_jobs."""

import json
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
import ray
from ray.util.metrics import Counter as RayCounter
from ray.util.metrics import Gauge

from hab_ray.catalog.prices import Mode
from hab_ray.cluster import metrics as module
from hab_ray.cluster.metrics import Kind, Metric, Reading, RunMetrics, readings
from hab_ray.engine.jobs import Counters, Traffic
from hab_ray.executors.protocol import Channel
from hab_ray.progress import BatchProgress, Progress, StageProgress

ROOT = Path(__file__).parent.parent.parent
NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
METRICS = [found for found in vars(module).values() if isinstance(found, Metric)]
RUN, PROVIDERS = "s3://bucket/runs/one", {("respond", "kind"): "acme"}
PROGRESS = Progress("now", 1.0, (StageProgress("respond", "kind", 9, 5, 1, 2),), 0, 0, 0, ())


def counted(sent: int, in_flight: int = 0) -> Counters:
    counters = Counters(in_flight=Counter({"m": in_flight}))
    counters.traffic["m"] = Traffic(sent, sent // 10, 7 * sent, 3 * sent, 20_000_000 * sent, sent, sent / 4)
    return counters


def shown(*found: Reading) -> dict[tuple[str, ...], float]:
    return {(reading.metric.name, *reading.tags): reading.value for reading in found}


def test_lanes_of_one_account_add_up_and_batches_stand_apart() -> None:
    online, by_batch = Channel("acme", Mode.ONLINE), Channel("acme", Mode.BATCH)
    counters = {online: counted(100) + counted(20, in_flight=2), by_batch: counted(50)}
    told = shown(*readings(PROVIDERS, counters, PROGRESS, NOW))
    assert told["hab_calls", "acme", "m", "online"] == 120 and told["hab_calls", "acme", "m", "batch"] == 50
    assert told["hab_tokens", "acme", "m", "online", "input"] == 840
    assert told["hab_tokens", "acme", "m", "online", "output"] == 360
    assert told["hab_dollars", "acme", "m", "online"] == pytest.approx(2.4)
    assert told["hab_rate_limited", "acme", "m", "online"] == 12
    assert told["hab_queue_wait_seconds", "acme", "m", "online"] / told["hab_admitted", "acme", "m", "online"] == 0.25
    assert told["hab_in_flight", "acme", "m", "online"] == 2
    assert [told[f"hab_rows_{kind}", "acme", "kind", "respond"] for kind in ("settled", "failed", "known")] == [5, 1, 9]


def test_the_oldest_batch_of_a_model_gives_the_age() -> None:
    ages = ("2026-11-22T11:59:00+00:00", "2026-11-22T11:00:00+00:00")
    batches = tuple(BatchProgress(f"acme/00000{n}", None, "m", 40, 0, since, "open") for n, since in enumerate(ages))
    progress = Progress("now", 1.0, (), 0, 0, 0, (), batches=batches)
    told = shown(*readings(PROVIDERS, {}, progress, NOW))
    assert told == {
        ("hab_batch_age_seconds", "acme", "m", "batch"): 3600.0,
        ("hab_batch_rows_open", "acme", "m", "batch"): 80,
    }


def test_the_dashboard_uses_every_metric_by_the_name_and_the_tags_that_ray_exports() -> None:
    dashboard = json.loads((ROOT / "jobs/grafana.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = {name for expression in expressions for name in re.findall(r"ray_\w+", expression)}
    assert used == {metric.exported for metric in METRICS}
    tags = {metric.exported: set(metric.tags) for metric in METRICS}
    for expression in expressions:
        (name, *_), (by, *_) = re.findall(r"ray_\w+", expression), re.findall(r"by \(([^)]*)\)", expression)
        filters = re.findall(r"(\w+)=~", expression)
        assert {*by.split(", "), *filters} <= tags[name], expression
    queries = [one["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    assert set(queries) == {f"label_values(ray_hab_calls_total, {tag})" for tag in ("run", "provider", "model")}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float, str]]:
    """What Ray is told, as it is told."""
    found: list[tuple[str, float, str]] = []

    def note(metric: RayCounter | Gauge, value: float, tags: dict[str, str]) -> None:
        found.append((metric.info["name"], value, tags["model"]))
        assert set(tags) == set(metric.info["tag_keys"]) and tags["run"] == RUN

    monkeypatch.setattr(RayCounter, "inc", note)
    monkeypatch.setattr(Gauge, "set", note)
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    return found


def test_ray_is_told_the_growth_of_totals_and_zero_for_what_has_ended(told: list[tuple[str, float, str]]) -> None:
    metrics, channel = RunMetrics(RUN, PROVIDERS, lambda: NOW), Channel("acme", Mode.ONLINE)
    batch = BatchProgress("acme/000001", None, "m", 40, 0, "2026-11-22T11:00:00+00:00", "open")
    metrics.report({channel: counted(100, 3)}, Progress("", 0, (), 0, 0, 0, (), batches=(batch,)), is_last=False)
    assert ("hab_calls", 100, "m") in told and ("hab_batch_age_seconds", 3600, "m") in told
    told.clear()
    metrics.report({channel: counted(200)}, PROGRESS, is_last=False)
    assert told == []
    metrics.report({channel: counted(130)}, PROGRESS, is_last=True)
    assert ("hab_calls", 30, "m") in told and ("hab_in_flight", 0, "m") in told
    assert ("hab_batch_age_seconds", 0, "m") in told and ("hab_batch_rows_open", 0, "m") in told
    told.clear()
    metrics.report({channel: counted(130)}, PROGRESS, is_last=True)
    counters = {metric.name for metric in METRICS if metric.kind is Kind.COUNTER}
    assert told and not any(name in counters for name, _, _ in told)


def test_a_call_that_was_not_sent_after_all_is_counted_once(told: list[tuple[str, float, str]]) -> None:
    """A refused connection is taken off the calls sent; the next attempt is no further call."""
    metrics, channel = RunMetrics(RUN, PROVIDERS, lambda: NOW), Channel("acme", Mode.ONLINE)
    for sent in (7, 6, 7, 6, 8):
        metrics.report({channel: counted(sent)}, PROGRESS, is_last=True)
    assert sum(value for name, value, _ in told if name == "hab_calls") == 8


def test_names_that_nobody_can_see_through_are_told_as_codes(told: list[tuple[str, float, str]]) -> None:
    counters = Counters()
    counters.traffic["m\ud800\n"] = Traffic(sent=1)
    metrics = RunMetrics(RUN, PROVIDERS, lambda: NOW)
    metrics.report({Channel("acme", Mode.ONLINE): counters}, PROGRESS, is_last=True)
    assert ("hab_calls", 1, "m[U+D800]") in told


def test_without_ray_nothing_is_reported(told: list[tuple[str, float, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    metrics = RunMetrics(RUN, PROVIDERS, lambda: NOW)
    metrics.report({Channel("acme", Mode.ONLINE): counted(100)}, PROGRESS, is_last=True)
    assert told == []
