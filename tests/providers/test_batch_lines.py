"""Lines: the body is the wire's, and nothing but a newline ends one."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable
from itertools import pairwise
from typing import Any

import pytest

from hab_ray.calls import EmbedCall
from hab_ray.errors import FailureKind, TransientError
from hab_ray.providers.base import Endpoint, JsonObject
from hab_ray.providers.batch_lines import read_lines
from hab_ray.providers.batching import Line
from tests.providers.batch_vendor import jsonl, vendor
from tests.providers.conftest import KEY, entry, reader
from tests.providers.wire_cases import CASES, Case

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
    assert bodies["google"]["request"] == {
        "model": "models/e",
        "content": {"parts": [{"text": call.text}]},
        "outputDimensionality": 128,
    }


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
    [
        b"<html>",
        b'{"half": ',
        b"[1]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"body": {}}',
        b'{"id": ""}',
        b'{"id": 7}',
    ],
)
async def test_a_line_that_cannot_be_assigned_is_counted_and_the_rest_is_read(bad: bytes) -> None:
    lines = await read([jsonl({"id": "1", "body": {}}), bad, b"\n", jsonl({"id": "2", "body": {}})])
    assert [line.custom_id for line in lines] == ["1", "", "2"]
    assert type(lines[1].error) is TransientError and lines[1].error.kind is FailureKind.MALFORMED
    assert lines[2] == Line("2", body={})


async def test_a_line_without_a_body_keeps_its_id() -> None:
    (line,) = await read([b'{"id": "1"}\n'])
    assert line.custom_id == "1" and line.body is None
    assert line.error is not None and line.error.kind is FailureKind.MALFORMED
