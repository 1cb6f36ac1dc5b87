"""Lines of batches: the body is the wire's, and nothing but a newline ends one; results as each vendor sends them.

Errors and bodies are as they would be online.
"""

import asyncio
import base64
import importlib
import json
from collections.abc import AsyncGenerator, Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from hab_ray.calls import EmbedCall, Finish
from hab_ray.errors import (
    CallError,
    FailureKind,
    Intercepted,
    ModelError,
    Overloaded,
    ProviderError,
    RateLimited,
    RowError,
    TransientError,
)
from hab_ray.providers import batch_lines
from hab_ray.providers.base import BrokenReader, Endpoint, JsonObject
from hab_ray.providers.batch_lines import read_lines, read_record
from hab_ray.providers.batching import BatchRefused, BatchStatus, Line, ResultsGone
from tests.distributions import Distributions
from tests.providers.batch_vendor import HANG, KINDS, RESET, Scripted, answered, jsonl, patience_s, sent_results, vendor
from tests.providers.conftest import KEY, candidate, choice, entry, message, reader
from tests.providers.wire_cases import CASES, Case

OPENAI, ANTHROPIC, GOOGLE, XAI = "openai", "anthropic", "google", "xai"
IN_FILES = (OPENAI, ANTHROPIC, GOOGLE)
TEXT = "one\u2028two\u0085three"
BODIES = {OPENAI: choice(TEXT) | {"new": 1}, ANTHROPIC: message(TEXT), GOOGLE: candidate(TEXT, newField=1)}
BODIES[XAI] = BODIES[OPENAI]


async def results(kind: str, *records: object) -> list[Line]:
    async with vendor(kind) as line:
        line.says(line.at.one, line.at.ended)
        line.says(line.at.results, sent_results(kind, *records))
        return await line.lines()


@pytest.mark.parametrize("kind", KINDS)
async def test_bodies_come_as_they_would_online_in_whatever_order(kind: str) -> None:
    lines = await results(kind, *(answered(kind, custom_id, BODIES[kind]) for custom_id in ("b", "c", "a", "c")))
    assert [line.custom_id for line in lines] == ["b", "c", "a", "c"]
    assert all(line.body == BODIES[kind] and line.error is None for line in lines)
    assert lines[0].body is not None
    answer = reader(kind).read_chat(lines[0].body)
    assert (answer.finish, answer.text) == (Finish.OK, TEXT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", ["moved", ["moved"], 7])
async def test_a_body_that_is_no_object_spoils_only_its_line(kind: str, body: Any) -> None:
    """Taken for a fault of hab_ray's own, it would keep the whole batch, which is paid for, from being read."""
    whole, bad = answered(kind, "a", BODIES[kind]), answered(kind, "b", body)
    first, second = await results(kind, whole, bad)
    assert first == Line("a", body=BODIES[kind])
    assert (second.custom_id, second.body, type(second.error)) == ("b", None, TransientError)
    assert second.error is not None and second.error.kind is FailureKind.MALFORMED


def refused(status: int, code: str | int, message: str = "No.", **more: Any) -> dict[str, Any]:
    problem = {"error": {"message": message, "code": code, "type": "t", "param": None, **more}}
    return answered_with(status, problem)


def answered_with(status: int, body: object) -> dict[str, Any]:
    return {"custom_id": "x", "response": {"status_code": status, "request_id": "r", "body": body}, "error": None}


def left(code: str) -> dict[str, Any]:
    return {"custom_id": "x", "response": None, "error": {"code": code, "message": "Not done."}}


def errored(kind: str, message: str = "No.", **more: Any) -> dict[str, Any]:
    problem = {"type": "error", "error": {"type": kind, "message": message, **more}, "request_id": "r"}
    return {"custom_id": "x", "result": {"type": "errored", "error": problem}}


def turned_down(code: int | None, message: str = "No.") -> dict[str, Any]:
    return {"batch_request_id": "x", "batch_result": {"error": {"code": code, "message": message}}}


def status(code: int | None, message: str = "No.", **more: Any) -> dict[str, Any]:
    return {"key": "x", "error": {"code": code, "message": message, **more}}


def in_words(message: str) -> dict[str, Any]:
    return {"batch_request_id": "x", "batch_result": {"error": message}}


ERRORS: list[tuple[str, dict[str, Any], type[CallError], FailureKind]] = [
    (OPENAI, refused(400, "invalid_value"), RowError, FailureKind.BAD_REQUEST),
    (OPENAI, refused(404, "model_not_found"), ModelError, FailureKind.MODEL_UNKNOWN),
    (OPENAI, refused(429, "rate_limit_exceeded"), RateLimited, FailureKind.RATE_LIMITED),
    (OPENAI, refused(500, "server_error"), TransientError, FailureKind.SERVER),
    (OPENAI, answered_with(503, None), Overloaded, FailureKind.OVERLOADED),
    (OPENAI, answered_with(502, "<p>"), TransientError, FailureKind.SERVER),
    (OPENAI, answered_with(200, None), TransientError, FailureKind.MALFORMED),
    (OPENAI, {"custom_id": "x", "response": {"status_code": 200}}, TransientError, FailureKind.MALFORMED),
    (OPENAI, refused(200, 503), Overloaded, FailureKind.OVERLOADED),
    (OPENAI, left("batch_expired"), TransientError, FailureKind.TIMEOUT),
    (OPENAI, left("batch_cancelled"), TransientError, FailureKind.STOPPED),
    (OPENAI, left("request_timeout"), TransientError, FailureKind.TIMEOUT),
    (OPENAI, left("something_new"), TransientError, FailureKind.SERVER),
    (OPENAI, {"custom_id": "x"}, TransientError, FailureKind.MALFORMED),
    (ANTHROPIC, errored("invalid_request_error"), RowError, FailureKind.BAD_REQUEST),
    (ANTHROPIC, errored("not_found_error", "retired"), ModelError, FailureKind.MODEL_RETIRED),
    (ANTHROPIC, errored("billing_error"), ProviderError, FailureKind.NO_QUOTA),
    (ANTHROPIC, errored("overloaded_error"), Overloaded, FailureKind.OVERLOADED),
    (ANTHROPIC, {"custom_id": "x", "result": {"type": "expired"}}, TransientError, FailureKind.TIMEOUT),
    (ANTHROPIC, {"custom_id": "x", "result": {"type": "canceled"}}, TransientError, FailureKind.STOPPED),
    (ANTHROPIC, {"custom_id": "x", "result": {"type": "new"}}, TransientError, FailureKind.MALFORMED),
    (ANTHROPIC, {"custom_id": "x", "result": {"type": "succeeded"}}, TransientError, FailureKind.MALFORMED),
    (GOOGLE, status(3), RowError, FailureKind.BAD_REQUEST),
    (GOOGLE, status(400), RowError, FailureKind.BAD_REQUEST),
    (GOOGLE, status(5), ModelError, FailureKind.MODEL_UNKNOWN),
    (GOOGLE, status(8), RateLimited, FailureKind.RATE_LIMITED),
    (GOOGLE, status(429, status="RESOURCE_EXHAUSTED"), RateLimited, FailureKind.RATE_LIMITED),
    (GOOGLE, status(13), TransientError, FailureKind.SERVER),
    (GOOGLE, status(None), TransientError, FailureKind.SERVER),
    (GOOGLE, {"key": "x"}, TransientError, FailureKind.MALFORMED),
    (GOOGLE, {"key": "x", "response": None}, TransientError, FailureKind.MALFORMED),
    (XAI, turned_down(3), RowError, FailureKind.BAD_REQUEST),
    (XAI, turned_down(8), RateLimited, FailureKind.RATE_LIMITED),
    (XAI, turned_down(16), ProviderError, FailureKind.BAD_KEY),
    (XAI, turned_down(1), TransientError, FailureKind.STOPPED),
    (XAI, turned_down(99), TransientError, FailureKind.SERVER),
    (XAI, turned_down(None), TransientError, FailureKind.SERVER),
    (XAI, {"batch_request_id": "x", "error_message": "No."}, TransientError, FailureKind.SERVER),
    (XAI, {"batch_request_id": "x", "error": {"code": 3, "message": "No."}}, RowError, FailureKind.BAD_REQUEST),
    (XAI, {"batch_request_id": "x", "batch_result": {}}, TransientError, FailureKind.MALFORMED),
    (XAI, in_words("Batch cancelled"), TransientError, FailureKind.STOPPED),
    (XAI, in_words("Maximum number of tokens max_tokens must be positive"), RowError, FailureKind.BAD_REQUEST),
    (XAI, in_words("Something went wrong"), TransientError, FailureKind.SERVER),
    (XAI, in_words("The model m does not exist"), ModelError, FailureKind.MODEL_UNKNOWN),
    (XAI, in_words("Model m is not supported for batch processing."), BatchRefused, FailureKind.BAD_REQUEST),
    (XAI, {"batch_request_id": "x", "batch_result": {"response": {"new": 1}}}, TransientError, FailureKind.MALFORMED),
]


@pytest.mark.parametrize(("kind", "record", "error", "meaning"), ERRORS)
async def test_error_lines(kind: str, record: dict[str, Any], error: type[CallError], meaning: FailureKind) -> None:
    bad, good = await results(kind, record, answered(kind, "y", BODIES[kind]))
    assert (bad.custom_id, bad.body, good.custom_id, good.error) == ("x", None, "y", None)
    assert type(bad.error) is error and bad.error.kind is meaning


@pytest.mark.parametrize(
    ("kind", "record", "reason"),
    [
        (OPENAI, refused(400, "content_policy_violation", "Blocked."), "Blocked."),
        (OPENAI, refused(403, "403", "Flagged.", metadata={"reasons": ["x"]}), "Flagged."),
        (ANTHROPIC, errored("invalid_request_error", "Output blocked by content filtering policy"), "Output blocked"),
        (XAI, in_words("Content violates usage guidelines: SAFETY_CHECK_TYPE_BIO"), "Content violates"),
        (GOOGLE, answered(GOOGLE, "x", {"promptFeedback": {"blockReason": "SAFETY"}}), "prompt blocked: SAFETY"),
    ],
)
async def test_blocked_content_is_a_refusal_as_online(kind: str, record: dict[str, Any], reason: str) -> None:
    (line,) = await results(kind, record)
    assert line.error is None and line.body is not None
    answer = reader(kind).read_chat(line.body)
    assert answer.finish is Finish.REFUSED and answer.text.startswith(reason)


async def test_openais_two_files_are_both_read() -> None:
    expired = {"id": "batch_1", "status": "expired", "output_file_id": "out", "error_file_id": "err"}
    async with vendor(OPENAI) as line:
        line.says(line.at.one, expired)
        line.says(line.at.results, jsonl(answered(OPENAI, "a", BODIES[OPENAI])))
        line.says("GET /files/err/content", jsonl(left("batch_expired"), refused(400, "bad")))
        read = await line.lines()
        assert [type(found.error) for found in read] == [type(None), TransientError, RowError]
        line.says(line.at.one, {**expired, "status": "completed", "output_file_id": None})
        read = await line.lines()
        assert [type(found.error) for found in read] == [TransientError, RowError]
        line.says(line.at.one, {**expired, "output_file_id": "", "error_file_id": ""})
        assert await line.lines() == []


VECTOR = [0.25, -0.5, 1.0]
PACKED = base64.b64encode(np.asarray(VECTOR, "<f4").tobytes()).decode()


@pytest.mark.parametrize(
    ("kind", "body", "tokens"),
    [
        (OPENAI, {"data": [{"index": 0, "embedding": VECTOR}], "usage": {"prompt_tokens": 4}}, 4),
        (OPENAI, {"data": [{"index": 0, "embedding": PACKED}]}, 0),
        (GOOGLE, {"embedding": {"values": VECTOR}, "usageMetadata": {"promptTokenCount": 4}}, 4),
        (GOOGLE, {"embedding": {"values": VECTOR}, "tokenCount": "4"}, 4),
        (GOOGLE, {"embedding": {"values": VECTOR}}, 0),
    ],
)
async def test_embeddings_are_read_as_online(kind: str, body: dict[str, Any], tokens: int) -> None:
    (line,) = await results(kind, answered(kind, "e", body))
    assert line.body is not None
    answer = reader(kind).read_embeddings(line.body, 1)
    assert np.frombuffer(answer.vectors[0], "<f4").tolist() == VECTOR
    assert answer.usage.input == tokens


@pytest.mark.parametrize("name", ["inlinedResponses", "inlinedEmbedContentResponses"])
async def test_gemini_may_send_results_within_the_batch(name: str) -> None:
    inlined = [
        {"metadata": {"key": "a"}, "response": BODIES[GOOGLE]},
        {"key": "b", "error": {"code": 8, "message": "Full."}},
        {"response": BODIES[GOOGLE]},
    ]
    batch = {"metadata": {"state": "BATCH_STATE_SUCCEEDED", "output": {name: {"inlinedResponses": inlined}}}}
    async with vendor(GOOGLE) as line:
        line.says(line.at.one, batch)
        read = await line.lines()
    assert [found.custom_id for found in read] == ["a", "b", ""]
    assert read[0].body == BODIES[GOOGLE] and type(read[1].error) is RateLimited and read[2].error is not None


async def test_xais_pages_are_read_one_after_the_other() -> None:
    pages = [
        {"results": [answered(XAI, str(n), BODIES[XAI])], "pagination_token": token}
        for n, token in enumerate(("a", "b", ""))
    ]
    async with vendor(XAI) as line:
        line.says(line.at.one, line.at.ended)
        line.says(line.at.results, *pages)
        found = await line.poll()
        read = [(one.custom_id, len(line.sent(line.at.results))) async for one in line.api.results(found)]
        assert read == [("0", 1), ("1", 2), ("2", 3)]
        queries = [got.query for got in line.sent(line.at.results)]
        assert queries == [
            {"limit": "1000", **more} for more in ({}, {"pagination_token": "a"}, {"pagination_token": "b"})
        ]


@pytest.mark.parametrize("kind", KINDS)
async def test_results_that_are_gone(kind: str) -> None:
    async with vendor(kind) as line:
        found = await line.ended()
        with pytest.raises(ResultsGone):
            await line.lines(found)


async def test_gemini_has_another_word_for_a_file_that_is_gone() -> None:
    words = "You do not have permission to access the File out or it may not exist."
    async with vendor(GOOGLE) as line:
        line.says(line.at.one, line.at.ended)
        for said, error in ((words, ResultsGone), ("Bad key.", ProviderError)):
            line.says(line.at.results, Scripted({"error": {"status": "PERMISSION_DENIED", "message": said}}, 403))
            with pytest.raises(error):
                await line.lines()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("answer", [RESET, HANG, Scripted({}, 503), Scripted(b"{}", 503, missing_bytes=9)])
async def test_results_that_cannot_be_had_now_are_transient(kind: str, answer: Scripted) -> None:
    async with vendor(kind, patience_s(answer)) as line:
        found = await line.ended()
        line.says(line.at.results, answer)
        with pytest.raises(TransientError):
            await line.lines(found)


@pytest.mark.parametrize("kind", IN_FILES)
async def test_a_stream_that_breaks_gives_what_came_and_then_an_error(kind: str) -> None:
    async with vendor(kind) as line:
        found = await line.ended()
        whole = jsonl(*(answered(kind, name, BODIES[kind]) for name in "ab"))
        line.says(line.at.results, Scripted(whole[:-9], missing_bytes=9))
        read = []
        with pytest.raises(TransientError) as caught:
            async for one in line.api.results(found):
                read.append(one)
    assert [one.custom_id for one in read] == ["a"] and caught.value.kind is FailureKind.CONNECTION


@pytest.mark.parametrize("kind", IN_FILES)
async def test_results_at_another_address_are_not_said_to_be_at_a_wrong_url(kind: str) -> None:
    """A gateway may redirect to its file store; the key is not sent there."""
    async with vendor(kind) as line, vendor(kind) as elsewhere:
        found = await line.ended()
        line.says(line.at.results, Scripted("", 307, {"location": f"{elsewhere.url}/blob"}))
        with pytest.raises(ProviderError, match="send files of results itself") as caught:
            await line.lines(found)
        assert elsewhere.got == [] and "the provider's url" not in str(caught.value)


@pytest.mark.parametrize("kind", IN_FILES)
async def test_lines_come_while_the_rest_is_still_on_its_way(kind: str) -> None:
    """The second line is sent only when the first one has been read; then silence is a timeout."""
    read = asyncio.Event()

    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(jsonl(answered(kind, "a", BODIES[kind])))
        await read.wait()
        await response.write(jsonl(answered(kind, "b", BODIES[kind])))
        await asyncio.sleep(30)
        return response

    async with vendor(kind, timeout_s=0.4) as line:
        line.handle = slow  # type: ignore[method-assign]
        found = BatchStatus(line.at.id, "", True, results=("files/out",))
        seen = []
        with pytest.raises(TransientError) as caught:
            async for one in line.api.results(found):
                seen.append(one.custom_id)
                read.set()
    assert seen == ["a", "b"] and caught.value.kind is FailureKind.TIMEOUT


@pytest.mark.parametrize("kind", IN_FILES)
async def test_results_that_drip_for_ever_end_with_what_came(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def drip(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(jsonl(answered(kind, "a", BODIES[kind])))
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.05)

    monkeypatch.setattr(batch_lines, "SLACK_S", 0.2)
    async with vendor(kind, timeout_s=0.4) as line, asyncio.timeout(20):
        monkeypatch.setattr(line, "handle", drip)
        seen = []
        with pytest.raises(TransientError, match="come more slowly than 4,096 bytes per second") as caught:
            async for one in line.api.results(BatchStatus(line.at.id, "", True, results=("files/out",))):
                seen.append(one.custom_id)
    assert seen == ["a"] and caught.value.kind is FailureKind.TIMEOUT


@pytest.mark.parametrize(
    ("line_s", "reader_s", "rate"), [(0.1, 0.0, 10.0), (0.0, 0.1, 1e12)], ids=["a slow line", "a slow store"]
)
async def test_pauses_may_add_up(line_s: float, reader_s: float, rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    async def chunks() -> AsyncGenerator[bytes, None]:
        for n in range(20):
            await asyncio.sleep(line_s)
            yield jsonl({"id": str(n)})

    monkeypatch.setattr(batch_lines, "SLACK_S", 0.2)
    monkeypatch.setattr(batch_lines, "MIN_BYTES_PER_S", rate)
    seen = []
    async for one in read_lines(ENDPOINT, chunks(), lambda record: record["id"], lambda record: record):
        seen.append(one.custom_id)
        await asyncio.sleep(reader_s)
    assert seen == [str(n) for n in range(20)]


@pytest.mark.parametrize("kind", IN_FILES)
async def test_a_reader_may_stop_early(kind: str) -> None:
    async with vendor(kind) as line:
        line.says(line.at.one, line.at.ended)
        line.says(line.at.results, jsonl(*(answered(kind, str(n), BODIES[kind]) for n in range(5000))))
        found = await line.poll()
        async for one in line.api.results(found):
            assert json.dumps(one.body)
            break
        assert len(await line.lines(found)) == 5000


ENDPOINT = Endpoint("p", "openai", "http://127.0.0.1:1", KEY, 1.0)
SPLITTERS = "a\u2028b\u2029c\u0085d\x0be\x1cf\rg"


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
async def test_a_line_carries_the_wires_body_unchanged_and_in_order(case: Case) -> None:
    wire = reader(case.kind).chat(case.call, case.model)
    async with vendor(case.kind) as line:
        raw = line.api.line("row-1", wire)
    told = json.loads(raw)
    envelope: dict[str, tuple[str, dict[str, Any]]] = {
        "openai": ("body", {"custom_id": "row-1", "method": "POST", "url": "/v1/chat/completions"}),
        "anthropic": ("params", {"custom_id": "row-1"}),
        "google": ("request", {"key": "row-1"}),
    }
    name, around = envelope[case.kind]
    assert told == {**around, name: wire.body}
    assert list(told[name]) == list(wire.body)
    assert raw.isascii() and b"\n" not in raw


async def test_an_embedding_line_is_a_request_of_one_text() -> None:
    call = EmbedCall("p", "m", None, f"red {SPLITTERS}", dimensions=128)
    bodies = {}
    for kind in ("openai", "google"):
        wire = reader(kind).embed([call], entry("e"))
        async with vendor(kind) as line:
            raw = line.api.line("row-1", wire)
        assert len(raw.decode().splitlines()) == 1
        bodies[kind] = json.loads(raw)
    assert bodies["openai"]["url"] == "/v1/embeddings"
    assert bodies["openai"]["body"]["input"] == [call.text]
    content = {"parts": [{"text": call.text}]}
    assert bodies["google"]["request"] == {"model": "models/e", "content": content, "outputDimensionality": 128}


def read_id(record: JsonObject) -> object:
    return record["id"]


def read_body(record: JsonObject) -> JsonObject:
    body: JsonObject = record["body"]
    return body


async def read(pieces: Iterable[bytes]) -> list[Line]:
    async def chunks() -> AsyncGenerator[bytes, None]:
        for piece in pieces:
            yield piece

    return [line async for line in read_lines(ENDPOINT, chunks(), read_id, read_body)]


@pytest.mark.parametrize("end", [b"\n", b"", b"\r\n", b"\n\n"])
async def test_wherever_the_stream_is_cut_the_lines_are_the_same(end: bytes) -> None:
    whole = jsonl({"id": "1", "body": {"t": SPLITTERS}}, {"id": "2", "body": {"t": "ü😀"}}).rstrip(b"\n") + end
    for cut in range(len(whole) + 1):
        lines = await read([whole[:cut], whole[cut:]])
        assert [line.custom_id for line in lines] == ["1", "2"]
        assert lines[0].body == {"t": SPLITTERS} and lines[1].body == {"t": "ü😀"}
    assert await read(whole[i:j] for i, j in pairwise(range(len(whole) + 1))) == lines
    assert await read([]) == []


@pytest.mark.parametrize(
    "bad",
    [b"html", b'{"half": ', b"[1]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"body": {}}', b'{"id": ""}', b'{"id": 7}'],
)
async def test_a_line_that_cannot_be_assigned_is_counted_and_the_rest_is_read(bad: bytes) -> None:
    lines = await read([jsonl({"id": "1", "body": {}}), bad, b"\n", jsonl({"id": "2", "body": {}})])
    assert [line.custom_id for line in lines] == ["1", "", "2"]
    assert type(lines[1].error) is TransientError and lines[1].error.kind is FailureKind.MALFORMED
    assert lines[2] == Line("2", body={})


async def test_a_line_that_would_fill_the_memory_cannot_be_assigned(monkeypatch: pytest.MonkeyPatch) -> None:
    """However it is cut, and without most of it; the lines beside it are read."""
    monkeypatch.setattr("hab_ray.providers.batch_lines.MAX_LINE_BYTES", 1 << 20)
    one, two = jsonl({"id": "1", "body": {}}), jsonl({"id": "2", "body": {}})
    long = jsonl({"id": "3", "body": {"t": "x" * (8 << 20)}})
    whole = one + long + two
    for size in (1 << 16, len(whole)):
        lines = await read(whole[start : start + size] for start in range(0, len(whole), size))
        assert [line.custom_id for line in lines] == ["1", "", "2"]
        assert type(lines[1].error) is TransientError and lines[1].error.kind is FailureKind.MALFORMED
        assert "a line of more than 1 MB" in str(lines[1].error)


async def test_a_web_page_among_the_results_is_a_line_that_cannot_be_assigned() -> None:
    lines = await read([b"<html>\n", jsonl({"id": "2", "body": {}})])
    assert lines[0].custom_id == "" and isinstance(lines[0].error, Intercepted)
    assert lines[1] == Line("2", body={})


THEIRS = """
import json
from hab_ray.providers.openai.batch import OpenAIBatches

def typo(record): return record["outcom"]
def library(record): return json.loads("{")
def forgotten(record): record["body"]
def signature(): return {}
def ours(record): return OpenAIBatches.body(None, {"response": {"status": 200}})
"""


@pytest.mark.parametrize("name", ["typo", "library", "forgotten", "signature"])
async def test_a_package_that_cannot_read_a_line_is_named(name: str, distributions: Distributions) -> None:
    """As a malformed line, the paid answer would be lost."""
    distributions.install("acme-hab", "0.3", "acme_hab", THEIRS, acme="acme_hab:VENDOR")
    theirs = importlib.import_module("acme_hab")
    with pytest.raises(BrokenReader, match=r"acme-hab 0\.3.* cannot read an answer .* batches stay at the vendor"):
        read_record({"id": "1", "body": {}}, read_id, getattr(theirs, name))
    line = read_record({"id": "1"}, read_id, theirs.ours)
    assert line.error is not None and line.error.kind is FailureKind.MALFORMED


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_an_error_instead_of_results_is_quoted(kind: str) -> None:
    async with vendor(kind) as line:
        line.says(line.at.one, line.at.ended)
        line.says(line.at.results, jsonl({"error": {"message": "sign in again"}}))
        (read_line,) = await line.lines(await line.poll())
    assert read_line.custom_id == "" and "sign in again" in str(read_line.error)


async def test_a_line_without_a_body_keeps_its_id() -> None:
    (line,) = await read([b'{"id": "1"}\n'])
    assert line.custom_id == "1" and line.body is None
    assert line.error is not None and line.error.kind is FailureKind.MALFORMED
