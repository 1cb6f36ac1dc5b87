"""What a vendor says of a batch; ending it and cleaning up after it."""

from dataclasses import replace
from typing import Any

import pytest

from hab_ray.errors import CallError, FailureKind, ModelError, ProviderError, RateLimited, RowError, TransientError
from hab_ray.providers.batching import BatchRefused, BatchStatus, QueueFull, ResultsGone
from tests.providers.batch_vendor import HANG, KINDS, RESET, ROUTES, Scripted, patience_s, vendor

OPENAI, ANTHROPIC, GOOGLE, XAI = "openai", "anthropic", "google", "xai"
STAMP = "2026-11-21T12:00:00Z"


def openai(word: str, **more: Any) -> dict[str, Any]:
    return {"id": "batch_1", "status": word, "input_file_id": "in", "errors": None, **more}


def anthropic(word: str, **more: Any) -> dict[str, Any]:
    counts = {"processing": 0, "succeeded": 4, "errored": 1, "canceled": 2, "expired": 3}
    return {"id": "msgbatch_1", "processing_status": word, "request_counts": counts, "results_url": None, **more}


def google(word: str, done: bool = False, operation: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    metadata = {"state": word, "batchStats": {"successfulRequestCount": "4", "failedRequestCount": "6"}, **more}
    return {"name": "batches/1", "metadata": metadata, "done": done, **(operation or {})}


def xai(pending: int = 0, rows: int = 10, **more: Any) -> dict[str, Any]:
    counts = {"num_success": 4, "num_error": 1, "num_cancelled": 5} if rows else {}
    state = {"num_requests": rows, "num_pending": pending, **counts}
    return {"batch_id": "batch_1", "cancel_time": None, "cancel_by_xai_message": None, "state": state, **more}


def refused_by_xai(message: str, **more: Any) -> dict[str, Any]:
    return xai(rows=0, cancel_time=STAMP, cancel_by_xai_message=message, **more)


FILE: dict[str, Any] = {"output": {"responsesFile": "files/out"}}
FOUND = {"results_url": "https://elsewhere/results"}
COUNTS = {"request_counts": {"total": 10, "completed": 4, "failed": 6}}
PARTIAL = {"output_file_id": "out", "error_file_id": "err", **COUNTS}
TABLE: list[tuple[str, dict[str, Any], bool, bool, tuple[str, ...]]] = [
    *((OPENAI, openai(word, **COUNTS), False, True, ()) for word in ("validating", "in_progress", "cancelling")),
    (OPENAI, openai("finalizing", **PARTIAL), False, True, ()),
    (OPENAI, openai("completed", output_file_id="out", error_file_id="", **COUNTS), True, True, ("out",)),
    *((OPENAI, openai(word, **PARTIAL), True, True, ("out", "err")) for word in ("completed", "expired", "cancelled")),
    (OPENAI, openai("queued", **COUNTS), False, False, ()),
    *((ANTHROPIC, anthropic(word), False, True, ()) for word in ("in_progress", "canceling")),
    (ANTHROPIC, anthropic("ended", **FOUND), True, True, ("msgbatch_1",)),
    (ANTHROPIC, anthropic("ended", archived_at=STAMP, **FOUND), True, True, ()),
    (ANTHROPIC, anthropic("paused"), False, False, ()),
    *((GOOGLE, google(f"BATCH_STATE_{word}"), False, True, ()) for word in ("PENDING", "RUNNING")),
    (GOOGLE, google("JOB_STATE_QUEUED"), False, True, ()),
    (GOOGLE, google("BATCH_STATE_RUNNING", error={"code": 8, "message": "later"}), False, True, ()),
    (GOOGLE, google("BATCH_STATE_SUCCEEDED", True, **FILE), True, True, ("files/out",)),
    (GOOGLE, google("BATCH_STATE_SUCCEEDED", True, {"response": FILE["output"]}), True, True, ("files/out",)),
    (GOOGLE, google("JOB_STATE_PARTIALLY_SUCCEEDED", **FILE), True, True, ("files/out",)),
    (GOOGLE, google("BATCH_STATE_EXPIRED", True, **FILE), True, True, ("files/out",)),
    (GOOGLE, google("BATCH_STATE_UNSPECIFIED"), False, False, ()),
    (GOOGLE, google("BATCH_STATE_NEW"), False, False, ()),
    (GOOGLE, google("BATCH_STATE_NEW", **FILE), True, False, ("files/out",)),
    (GOOGLE, google("", output={"inlinedResponses": {"inlinedResponses": [{}]}}), True, False, ("batches/1",)),
]


async def polled(kind: str, answer: Scripted | dict[str, Any]) -> BatchStatus:
    async with vendor(kind) as line:
        line.says(line.at.one, answer)
        return await line.poll()


@pytest.mark.parametrize(("kind", "batch", "ended", "known", "results"), TABLE)
async def test_all_states(kind: str, batch: dict[str, Any], ended: bool, known: bool, results: tuple[str, ...]) -> None:
    word = batch.get("status") or batch.get("processing_status") or batch.get("metadata", {}).get("state", "")
    assert await polled(kind, batch) == BatchStatus(ROUTES[kind].id, word, ended, known, 4, 6, None, results)


NONE_DONE = {"batchStats": {"failedRequestCount": "6"}}
LATE: list[tuple[str, dict[str, Any], tuple[str, ...], bool]] = [
    (OPENAI, openai("completed", output_file_id=None, error_file_id="err", **COUNTS), ("err",), True),
    (OPENAI, openai("completed", output_file_id="out", error_file_id=None, **COUNTS), ("out",), False),
    *((OPENAI, openai(word, **COUNTS), (), True) for word in ("completed", "expired", "cancelled")),
    (OPENAI, openai("completed"), (), True),
    (OPENAI, openai("completed", error_file_id="err", request_counts={"completed": 0, "failed": 6}), ("err",), False),
    *((OPENAI, openai(end, request_counts={"completed": 0}), (), False) for end in ("expired", "cancelled", "failed")),
    (ANTHROPIC, anthropic("ended"), (), True),
    (ANTHROPIC, anthropic("ended", archived_at=STAMP), (), False),
    (GOOGLE, google("BATCH_STATE_SUCCEEDED", True), (), True),
    (GOOGLE, google("BATCH_STATE_SUCCEEDED", True, **NONE_DONE), (), True),
    *((GOOGLE, google(f"BATCH_STATE_{word}", True), (), True) for word in ("EXPIRED", "CANCELLED", "NEW")),
    *((GOOGLE, google(f"BATCH_STATE_{end}", True, **NONE_DONE), (), False) for end in ("EXPIRED", "CANCELLED", "NEW")),
    (GOOGLE, google("BATCH_STATE_FAILED", True, {"error": {"code": 13, "message": "broken"}}), (), False),
]


@pytest.mark.parametrize(("kind", "batch", "results", "lacks"), LATE)
async def test_late_results_are_noted(kind: str, batch: dict[str, Any], results: tuple[str, ...], lacks: bool) -> None:
    status = await polled(kind, batch)
    assert status.ended and (status.results, status.lacks_results) == (results, lacks)
    assert status.counters == ((status.done, status.failed) if lacks and kind != ANTHROPIC else status.counters)
    assert (status.counters is not None) is lacks
    is_early = kind == GOOGLE and status.word in ("BATCH_STATE_EXPIRED", "BATCH_STATE_CANCELLED")
    assert status.lacks_some is (lacks and is_early)


@pytest.mark.parametrize(
    ("batch", "word", "ended", "known", "results"),
    [
        (xai(rows=0), "validating", False, True, ()),
        (xai(pending=3), "in_progress", False, True, ()),
        (xai(), "completed", True, True, ("batch_1",)),
        (xai(pending=3, cancel_time=STAMP), "cancelling", False, True, ()),
        (xai(cancel_time=STAMP), "cancelled", True, True, ("batch_1",)),
        (xai(rows=0, cancel_time=STAMP), "cancelled", True, True, ()),
        (xai(pending=3, cancel_time=STAMP, cancel_by_xai_message="Too long."), "rejected", True, True, ("batch_1",)),
        (xai(state={}), "without counters", False, False, ()),
        (xai(state=None, cancel_time=STAMP), "without counters", False, False, ()),
    ],
)
async def test_xai_states(batch: dict[str, Any], word: str, ended: bool, known: bool, results: tuple[str, ...]) -> None:
    status = await polled(XAI, batch)
    done, failed = (4, 6) if (batch["state"] or {}).get("num_requests") else (0, 0)
    counters = tuple(batch["state"].values()) if ended else None
    assert status == BatchStatus("batch_1", word, ended, known, done, failed, None, results, counters)


def all_cancelled(**more: Any) -> dict[str, Any]:
    counts = {"num_requests": 10, "num_pending": 0, "num_success": 0, "num_error": 0, "num_cancelled": 10}
    return xai(state=counts, **more)


NO_BATCHES = "Model grok-4.7 is not supported for batch processing"


async def test_a_batch_that_we_have_cancelled_is_no_refusal() -> None:
    assert (await polled(XAI, all_cancelled(cancel_time=STAMP))).problem is None


async def test_counts_that_are_missing_are_none() -> None:
    for kind, batch in ((OPENAI, openai("validating", request_counts=None)), (GOOGLE, {"metadata": {"state": "?"}})):
        status = await polled(kind, batch)
        assert (status.done, status.failed) == (0, 0)


@pytest.mark.parametrize("count", ["n/a", [], {"n": 2}])
async def test_counts_that_are_no_numbers_do_not_hide_the_end(count: object) -> None:
    """Otherwise results that are paid for would never be read."""
    counts = {"total": 3, "completed": count, "failed": "1"}
    status = await polled(OPENAI, openai("completed", output_file_id="out", request_counts=counts))
    assert (status.ended, status.results, status.done, status.failed) == (True, ("out",), 0, 1)
    stats = {"requestCount": "3", "successfulRequestCount": count, "failedRequestCount": "1"}
    status = await polled(GOOGLE, google("SUCCEEDED", output={"responsesFile": "files/out"}, batchStats=stats))
    assert (status.ended, status.results, status.done, status.failed) == (True, ("files/out",), 0, 1)


def failed(*problems: dict[str, Any]) -> dict[str, Any]:
    return openai("failed", errors={"object": "list", "data": list(problems)})


NOT_JSON = {"code": "invalid_json_line", "message": "This line is not JSON.", "line": 12, "param": None}
TOO_MANY = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached for m.", "line": None}
NO_MODEL = {"code": "model_not_found", "message": "No model m.", "line": 1}
PROBLEMS: list[tuple[str, dict[str, Any], type[CallError], tuple[str, ...]]] = [
    (OPENAI, failed(NOT_JSON, NOT_JSON), RowError, ("invalid_json_line", "not JSON", "line 12", "1 more")),
    (OPENAI, failed(TOO_MANY), QueueFull, ("token_limit_exceeded", "Enqueued token limit")),
    (OPENAI, failed(NOT_JSON, TOO_MANY), QueueFull, ("Enqueued",)),
    (OPENAI, failed(NO_MODEL), ModelError, ("model_not_found", "No model m", "line 1")),
    (OPENAI, failed({"code": "billing_hard_limit_reached", "message": "?"}), ProviderError, ("billing",)),
    (OPENAI, openai("failed"), TransientError, ("does not say why",)),
    (OPENAI, openai("failed", error="file too old"), TransientError, ("does not say why",)),
    (OPENAI, openai("failed", errors="file too old"), RowError, ("file too old",)),
    (OPENAI, openai("failed", errors={"data": ["file too old", "again"]}), RowError, ("file too old", "1 more")),
    (OPENAI, openai("failed", errors=[NO_MODEL]), ModelError, ("No model m",)),
    (GOOGLE, google("BATCH_STATE_FAILED", True, {"error": {"code": 8, "message": "Full."}}), RateLimited, ("Full",)),
    (GOOGLE, google("BATCH_STATE_FAILED", True, {"error": {"code": 5, "message": "No m."}}), ModelError, ("No m.",)),
    (GOOGLE, google("BATCH_STATE_FAILED", True, {"error": {"code": 3, "message": "Bad"}}), RowError, ("Bad",)),
    (GOOGLE, google("BATCH_STATE_FAILED", True, {"error": {"code": 13}}), TransientError, ("INTERNAL",)),
    (GOOGLE, google("BATCH_STATE_FAILED", error={"code": 429, "message": "x"}), RateLimited, ("x",)),
    (GOOGLE, google("BATCH_STATE_FAILED"), TransientError, ("does not say why",)),
    (GOOGLE, google("", True, {"error": {"code": 5, "message": "No m."}}), ModelError, ("No m.",)),
    (XAI, refused_by_xai("Line 3 is not JSON"), RowError, ("Line 3",)),
    (XAI, refused_by_xai("The model grok-9 does not exist"), ModelError, ("grok-9",)),
    # Dead on arrival: this says nothing of the model.
    (OPENAI, failed(NO_MODEL | {"message": "m is not supported by the Batch API."}), BatchRefused, ("Batch API",)),
    (XAI, refused_by_xai(f"JSONL file validation failed: line 1: {NO_BATCHES}"), BatchRefused, (NO_BATCHES,)),
    (XAI, all_cancelled(cancel_time=STAMP, cancel_by_xai_message=NO_BATCHES), BatchRefused, (NO_BATCHES,)),
    (XAI, all_cancelled(), BatchRefused, ()),
]


@pytest.mark.parametrize(("kind", "batch", "error", "words"), PROBLEMS)
async def test_why_it_failed(kind: str, batch: dict[str, Any], error: type[CallError], words: tuple[str, ...]) -> None:
    status = await polled(kind, batch)
    assert status.ended and type(status.problem) is error
    assert all(word in str(status.problem) for word in words)


@pytest.mark.parametrize(("stated", "limit"), [(" Limit: 2,000,000 enqueued tokens. Wait.", 2_000_000), ("", None)])
async def test_a_full_queues_limit_is_read(stated: str, limit: int | None) -> None:
    full = {**TOO_MANY, "message": f"Enqueued token limit reached for m in organization org-1.{stated}"}
    problem = (await polled(OPENAI, failed(full))).problem
    assert isinstance(problem, QueueFull) and problem.limit == limit


FAILS: list[tuple[Scripted, type[CallError], str]] = [
    *((Scripted({"error": {"message": "No such batch"}}, code), ResultsGone, r"/?1") for code in (404, 410)),
    *((answer, TransientError, ".") for answer in (RESET, HANG, Scripted({}, 500), Scripted("<html>"))),
    *((answer, TransientError, ".") for answer in (Scripted("<h1>Not Found</h1>", 404), Scripted({"metadata": 3}))),
    (Scripted({"error": {"message": "slow", "code": 429, "status": "RESOURCE_EXHAUSTED"}}), RateLimited, "slow"),
    (Scripted({"error": {"message": "who?"}}, 401), ProviderError, "who"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("answer", "error", "said"), FAILS)
async def test_a_poll_that_fails_is_no_state(kind: str, answer: Scripted, error: type[CallError], said: str) -> None:
    async with vendor(kind, patience_s(answer)) as line:
        line.says(line.at.one, answer)
        with pytest.raises(error, match=said) as caught:
            await line.poll()
        assert (caught.value.kind is FailureKind.BAD_KEY) == (error is ProviderError)


@pytest.mark.parametrize("kind", KINDS)
async def test_cancelling_is_asked_for_once_and_what_has_ended_is_fine(kind: str) -> None:
    async with vendor(kind) as line:
        line.says(line.at.cancel, {})
        await line.api.cancel(line.at.id)
        assert [got.route for got in line.got] == [line.at.cancel]
        line.says(line.at.one, line.at.ended)
        for status in (400, 409):
            line.says(line.at.cancel, Scripted({"error": {"message": "already ended"}}, status))
            await line.api.cancel(line.at.id)


OPEN = {
    OPENAI: openai("in_progress"),
    ANTHROPIC: anthropic("in_progress"),
    GOOGLE: google("BATCH_STATE_RUNNING"),
    XAI: xai(pending=1),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_refused_end_of_an_open_batch_is_an_error(kind: str) -> None:
    async with vendor(kind) as line:
        line.says(line.at.one, OPEN[kind])
        line.says(line.at.cancel, Scripted({"error": {"message": "no"}}, 400))
        with pytest.raises(CallError):
            await line.api.cancel(line.at.id)
        line.says(line.at.cancel, Scripted({}, 404))
        with pytest.raises(ResultsGone):
            await line.api.cancel(line.at.id)


DELETED = {
    OPENAI: ["DELETE /files/in", "DELETE /files/out"],
    ANTHROPIC: ["DELETE /v1/messages/batches/msgbatch_1"],
    GOOGLE: ["DELETE /v1beta/files/in", "DELETE /v1beta/files/out", "DELETE /v1beta/batches/1"],
    XAI: ["DELETE /files/in"],
}
READ = {
    OPENAI: BatchStatus(ROUTES[OPENAI].id, "completed", ended=True, results=("out", "err")),
    ANTHROPIC: BatchStatus(ROUTES[ANTHROPIC].id, "ended", ended=True, results=(ROUTES[ANTHROPIC].id,)),
    GOOGLE: BatchStatus(ROUTES[GOOGLE].id, "SUCCEEDED", ended=True, results=("files/out",)),
    XAI: BatchStatus(ROUTES[XAI].id, "completed", ended=True, results=(ROUTES[XAI].id,)),
}


@pytest.mark.parametrize("kind", [OPENAI, GOOGLE])
async def test_what_was_not_read_is_not_deleted(kind: str) -> None:
    async with vendor(kind) as line:
        line.says(line.at.one, line.at.ended)
        await line.api.clean_up(replace(READ[kind], results=()))
        assert not [got for got in line.got if got.route.startswith("DELETE")]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_the_vendor_stores_is_deleted(kind: str) -> None:
    async with vendor(kind) as line:
        line.says(line.at.one, line.at.ended)
        for route in DELETED[kind]:
            line.says(route, {})
        await line.api.clean_up(READ[kind])
        assert [got.route for got in line.got if got.route.startswith("DELETE")] == DELETED[kind]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_gone_already_is_fine(kind: str) -> None:
    async with vendor(kind) as line:
        await line.api.clean_up(READ[kind])
        line.says(line.at.one, line.at.ended)
        await line.api.clean_up(READ[kind])
        for route in DELETED[kind]:
            line.says(route, Scripted({}, 503))
        with pytest.raises(TransientError):
            await line.api.clean_up(READ[kind])


async def test_archived_results_are_gone() -> None:
    async with vendor(ANTHROPIC) as line:
        with pytest.raises(ResultsGone, match="29 days"):
            await line.lines(BatchStatus("msgbatch_1", "ended", True))
