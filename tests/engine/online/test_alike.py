"""Calls that keep ending in the same way (refused, answered malformed, timed out) stop their model."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from hab_ray.catalog.models import Limits
from hab_ray.engine.alike import MIN_ALIKE, AlikeRefusals, SilentCalls
from hab_ray.engine.jobs import Counters, OpenKind
from hab_ray.engine.online import retries
from hab_ray.errors import FailureKind
from hab_simulator.sending import serving
from tests.engine.bench import Told, budget_of, chat, completion, engine_at, engine_before

ONE_AT_A_TIME = Limits(concurrent=1, patience_s=5, timeout_s=10)
ANSWER = completion({"prompt_tokens": 3, "completion_tokens": 1})


def refusal(words: str) -> dict[str, Any]:
    return {"error": {"message": words, "type": "invalid_request_error"}}


@dataclass
class Asked:
    """The result of some calls: the number of requests, the engine's counters and the stored outcomes."""

    requests: int
    counters: Counters
    stored: dict[str, Any]


async def asked(
    folder: Path, questions: int, script: Callable[[int], tuple[int, Any]], limits: Limits = ONE_AT_A_TIME
) -> Asked:
    """Send calls to a vendor that answers the n-th request (from 0) with the status and body of `script`."""
    requests = 0

    def answering(_: dict[str, Any]) -> Told:
        nonlocal requests
        requests += 1
        return *script(requests - 1), {}

    async with engine_before(answering, folder, limits) as b:
        counters = await b.complete([chat("a", f"question {n}") for n in range(questions)])
        return Asked(requests, counters, b.stored("a"))


async def test_calls_refused_alike_stop_the_model(tmp_path: Path) -> None:
    """Messages that differ only in ids and numbers are alike; the reason names the vendor's message and the remedy."""
    words = "tools.0: unexpected field in req_{0}ab, {0} bytes"
    of = await asked(tmp_path, 40, lambda n: (400, refusal(words.format(n))))
    assert of.requests == MIN_ALIKE
    assert (of.counters.failed[0], len(of.counters.open)) == (MIN_ALIKE - 1, 40 - MIN_ALIKE + 1)
    assert "unexpected field" in of.counters.stops["a"] and "--retry-failed" in of.counters.stops["a"]


async def test_rows_refused_among_good_ones_stop_nothing(tmp_path: Path) -> None:
    of = await asked(tmp_path, 40, lambda n: (200, ANSWER) if n % 8 == 7 else (400, refusal("no")))
    assert (of.counters.finished[0], of.counters.failed[0], of.counters.stops) == (40, 35, {})


async def test_texts_that_are_too_long_stop_nothing(tmp_path: Path) -> None:
    of = await asked(tmp_path, 20, lambda n: (413, refusal("request too large")))
    assert (of.counters.failed[0], of.counters.stops) == (20, {})
    assert {outcome.kind for outcome in of.stored.values()} == {FailureKind.TOO_LONG}


async def test_answers_that_cannot_be_read_stop_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.001)
    of = await asked(tmp_path, 600, lambda n: (200, {"answer": "yes"}))
    assert of.requests == MIN_ALIKE
    assert (of.counters.finished[0], len(of.counters.open)) == (0, 600)
    assert "not as documented" in of.counters.stops["a"]


ABORTED = completion({"prompt_tokens": 3, "completion_tokens": 1})
ABORTED["choices"][0]["finish_reason"] = "error"


@pytest.mark.parametrize(
    ("unusable", "encoding", "cause"),
    [
        ({"answer": "yes"}, {}, "2 answers to a call could not be read, and may be billed: the response body is not"),
        (ABORTED, {}, "2 tries of a call timed out or broke off, and may be billed: the server aborted the answer"),
        (ANSWER, {"Content-Encoding": "gzip"}, "2 tries of a call timed out or broke off, and may be billed: the con"),
    ],
    ids=["unread", "aborted", "not compressed"],
)
async def test_a_call_whose_answers_cannot_be_used_among_others_is_bought_twice(
    unusable: Any, encoding: dict[str, str], cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.001)
    tries = 0

    async def answering(request: web.BaseRequest) -> web.Response:
        nonlocal tries
        if b"question 0" not in await request.read():
            return web.json_response(ANSWER)
        tries += 1
        return web.json_response(unusable, headers=encoding)

    async with serving(answering) as url, engine_at(url, tmp_path, "a", limits=ONE_AT_A_TIME) as b:
        counters = await b.complete([chat("a", f"question {n}") for n in range(40)])
    assert (tries, counters.finished[0], counters.stops) == (2, 39, {})
    (row,) = counters.open
    assert row.reason.startswith(cause)


async def test_impossible_bills_stop_the_model_and_are_booked(tmp_path: Path) -> None:
    of = await asked(tmp_path, 40, lambda n: (200, completion({"prompt_tokens": -3, "completion_tokens": 1})))
    assert of.requests == of.counters.failed[0] == len(of.stored) == MIN_ALIKE
    assert sum(outcome.cost_nanousd for outcome in of.stored.values()) == of.counters.spent_nanousd > 0


@pytest.mark.parametrize(("own", "sent"), [(0, MIN_ALIKE), (8, 40)])
async def test_a_model_that_another_one_keeps_answering_for_is_stopped(own: int, sent: int, tmp_path: Path) -> None:
    """The answers are kept, for whoever accepts them; an answer of its own between them begins the count anew."""
    requests = 0

    async def answering(_: web.BaseRequest) -> web.Response:
        nonlocal requests
        requests += 1
        return web.json_response(ANSWER | {"model": "a" if own and requests % own == 0 else "another-2"})

    async with serving(answering) as url, engine_at(url, tmp_path, "a", limits=ONE_AT_A_TIME, reports=("a-*",)) as b:
        counters = await b.complete([chat("a", f"question {n}") for n in range(40)])
    assert requests == counters.finished[0] == len(b.stored("a")) == sent
    assert len(counters.open) == 40 - sent and bool(counters.stops) == (sent < 40)
    for row in counters.open:
        assert "answered by another-2, asked a;" in row.reason
        assert "`reports`" in row.reason and "`accept_substitutes: true`" in row.reason


async def test_a_model_whose_gateway_times_out_on_every_call_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.001)
    monkeypatch.setattr("hab_ray.engine.alike.SLOW_S", 0.0)
    of = await asked(tmp_path, 40, lambda n: (504, refusal(f"upstream {n}")))
    assert of.requests == MIN_ALIKE
    assert (of.counters.finished[0], len(of.counters.open)) == (0, 40)
    assert "HTTP 504" in of.counters.stops["a"] and "the gateway's" in of.counters.stops["a"]


async def test_calls_slower_than_the_limit_stop_their_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is not bought six times; the reason names the limit with its value."""
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.001)
    monkeypatch.setattr("hab_ray.engine.alike.SLOW_S", 0.2)
    requests = 0

    async def silent(_: web.BaseRequest) -> web.Response:
        nonlocal requests
        requests += 1
        await asyncio.sleep(5)
        return web.Response()

    limits = Limits(concurrent=4, patience_s=5, timeout_s=0.25)
    async with serving(silent) as url, engine_at(url, tmp_path, "a", limits=limits) as b:
        counters = await b.complete([chat("a", f"question {n}") for n in range(40)])
    assert MIN_ALIKE <= requests <= 3 * limits.concurrent + MIN_ALIKE
    assert "no answer within 0.25 s (`limits: {timeout_s: ...}`" in counters.stops["a"]
    assert counters.lost_nanousd > 0 == counters.cost_nanousd and len(counters.open) == 40


async def test_a_few_calls_that_all_time_out_are_bought_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are too few to stop their model; the reason names the remedy, and the vendor's words."""
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.001)
    monkeypatch.setattr("hab_ray.engine.alike.SLOW_S", 0.0)
    of = await asked(tmp_path, 5, lambda n: (504, refusal("slow")))
    assert (of.requests, len(of.counters.open), of.counters.stops) == (10, 5, {})
    assert "HTTP 504" in of.counters.open[0].reason and "may be billed" in of.counters.open[0].reason


async def test_a_wave_of_quick_timeouts_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway sends some while its vendor is down: no call takes too long."""
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.001)
    limits = Limits(concurrent=20, patience_s=5, timeout_s=10)
    of = await asked(tmp_path, 20, lambda n: (504, refusal("upstream")) if n < 40 else (200, ANSWER), limits)
    assert (of.requests, of.counters.finished[0], of.counters.stops) == (60, 20, {})


async def test_timeouts_among_answers_stop_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.001)
    monkeypatch.setattr("hab_ray.engine.alike.SLOW_S", 0.0)
    of = await asked(tmp_path, 40, lambda n: (200, ANSWER) if n % 8 == 7 else (504, refusal("slow")))
    assert of.counters.finished[0] > 0 and of.counters.stops == {}


@pytest.mark.parametrize("slow_s", [0.0, 10.0])
@pytest.mark.parametrize(("ends", "cause"), [(True, "HTTP 504"), (False, "the connection broke: ")])
async def test_a_slow_row_among_answers_is_bought_twice(
    ends: bool, cause: str, slow_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway ends its calls, or only their connections. The answers to other rows in between do not make it shorter.

    A row whose calls end sooner is tried as often as any.
    """
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.001)
    monkeypatch.setattr("hab_ray.engine.alike.SLOW_S", slow_s)
    tries: list[int] = []
    requests = 0

    async def answering(request: web.BaseRequest) -> web.Response:
        nonlocal requests
        requests += 1
        if b"question 0" not in await request.read():
            return web.json_response(ANSWER)
        tries.append(requests)
        if not ends and request.transport:
            request.transport.abort()
        return web.json_response(refusal("slow"), status=504)

    async with serving(answering) as url, engine_at(url, tmp_path, "a", limits=ONE_AT_A_TIME) as b:
        counters = await b.complete([chat("a", f"question {n}") for n in range(40)])
    assert len(tries) == (retries.ATTEMPTS if slow_s else 2)
    assert tries[1] > tries[0] + 1 and (counters.finished[0], counters.stops) == (39, {})
    (row,) = counters.open
    said = f"2 tries of a call timed out or broke off, and may be billed: {cause}"
    assert row.reason.startswith(cause if slow_s else said)


async def test_a_budget_that_ends_the_retries_leaves_the_last_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.001)
    budget = budget_of(2_000_000)
    async with engine_before(lambda _: (504, refusal("slow"), {}), tmp_path, ONE_AT_A_TIME, budget=budget) as b:
        (row,) = (await b.complete([chat("a", "question")])).open
    assert row.kind is OpenKind.BUDGET
    assert "budget reached" in row.reason and "its last error: HTTP 504" in row.reason


@pytest.mark.parametrize("page", ["404 page not found\n", "<html><h1>404 Not Found</h1></html>"])
async def test_a_missing_page_among_answers_is_tried_again(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A router whose servers restart sends some, as for an address or model that it never had."""
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.001)
    monkeypatch.setattr("hab_ray.engine.limits.limiter.FIRST_PROBE_S", 0.001)
    of = await asked(tmp_path, 20, lambda n: (404, page) if n in (5, 6, 12) else (200, ANSWER))
    assert (of.requests, of.counters.finished[0], of.counters.stops) == (23, 20, {})
    assert of.counters.lost_nanousd == 0
    never = await asked(tmp_path / "never", 20, lambda n: (404, page))
    assert (never.requests, len(never.counters.open)) == (1, 20) and never.counters.stops


async def test_a_model_that_a_gateway_does_not_route_stops_alone_and_at_once(tmp_path: Path) -> None:
    """The gateway's words are the reason, although other models answer at the same address."""
    words = "No matching route found. The model may not be configured in the Gateway."
    asked: list[str] = []

    async def gateway(request: web.BaseRequest) -> web.Response:
        asked.append(json.loads(await request.read())["model"])
        if asked[-1] == "a":
            return web.json_response(ANSWER)
        while asked.count("a") < 2:
            await asyncio.sleep(0.01)
        return web.Response(status=404, text=words)

    async with serving(gateway) as url, engine_at(url, tmp_path, "a", "b", limits=ONE_AT_A_TIME) as b:
        counters = await b.complete([chat(model, f"question {n}") for model in "ab" for n in range(5)])
    assert (asked.count("b"), counters.finished[0], len(counters.open)) == (1, 5, 5)
    assert words in counters.stops["b"] and "wire name" in counters.stops["b"] and len(counters.stops) == 1


async def test_an_overloaded_model_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many more refusals than the retries of a server error, then an answer; the limiter times the pauses."""
    monkeypatch.setattr("hab_ray.engine.limits.limiter.FIRST_PROBE_S", 0.001)
    monkeypatch.setattr("hab_ray.engine.limits.limiter.SLOWEST_PROBE_S", 0.01)
    limits = Limits(concurrent=20, patience_s=5, timeout_s=10)
    of = await asked(tmp_path, 3, lambda n: (529, refusal("overloaded")) if n < 30 else (200, ANSWER), limits)
    assert of.counters.finished[0] == 3 and not of.counters.open and of.requests == 33


async def test_an_overload_beyond_patience_stops_the_model_in_the_vendors_words(tmp_path: Path) -> None:
    limits = Limits(concurrent=2, patience_s=1, timeout_s=10)
    of = await asked(tmp_path, 50, lambda n: (503, refusal("no capacity today")), limits)
    assert len(of.counters.open) == 50 and "no capacity today" in of.counters.stops["a"]
    assert of.requests < 20


def test_what_is_alike() -> None:
    alike = AlikeRefusals()
    words = ("no 12", "no 345", "never", "no 1")
    assert [alike.add("a", str(row), said) for row, said in enumerate(words)] == [1, 2, 1, 1]
    assert [alike.add("b", "0", "no"), alike.add("a", "4", "no 2")] == [1, 2]
    alike.answered("a")
    assert [alike.add("a", "5", "no 3"), alike.add("b", "1", "no")] == [1, 2]


def test_calls_that_time_out_together_count_once() -> None:
    """A suspended machine ends all calls in flight; those sent after the first timeout count one by one."""
    silent = SilentCalls(patience_s=900)
    assert {silent.add("a", f"row-{n}", sent=n / 100, now=100 + n) for n in range(90)} == {(1, True)}
    later = [silent.add("a", f"row-{n}", sent=100 + n, now=200) for n in (1, 2, 1)]
    assert later == [(2, True), (3, True), (3, True)]
    silent.answered("a")
    assert silent.add("a", "row-3", sent=150, now=250) == (1, True)


def test_quick_timeouts_count_only_after_patience() -> None:
    silent = SilentCalls(patience_s=900)
    assert {silent.add("a", f"row-{n}", sent=n, now=n + 1) for n in range(900)} == {(1, False)}
    assert [silent.add("a", f"row-{n}", sent=n, now=n + 1) for n in (901, 902)] == [(2, True), (3, True)]


def test_a_row_that_is_tried_again_counts_once() -> None:
    """Two rows with six malformed replies each do not stop a model."""
    alike = AlikeRefusals()
    assert {alike.add("a", f"row-{n % 2}", "not as documented") for n in range(12)} == {1, 2}
