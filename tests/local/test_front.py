import asyncio
import base64
import json
from collections.abc import AsyncIterator

import aiohttp
import jsonschema
import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from openai.types.chat import ChatCompletion
from openai.types.shared_params import ResponseFormatJSONSchema

from hab_ray.errors import CallError, Overloaded, RowError, TransientError
from hab_ray.local import LocalServer
from hab_ray.local.chat import ChatModel
from hab_ray.local.front import Front
from hab_ray.providers.openai.errors import classify

CHAT = "smollm2-135m-instruct"
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "issues": {"type": "array", "items": {"type": "string", "enum": ["A", "B", "C"]}, "maxItems": 3},
        "score": {"type": "integer", "minimum": 0, "maximum": 10},
    },
    "required": ["issues", "score"],
    "additionalProperties": False,
}
FORMAT: ResponseFormatJSONSchema = {
    "type": "json_schema",
    "json_schema": {"name": "verdict", "strict": True, "schema": SCHEMA},
}


@pytest.fixture
async def client(server: LocalServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as opened:
        yield opened


async def _judge(client: AsyncOpenAI, text: str, most: int = 80) -> ChatCompletion:
    return await client.chat.completions.create(
        model=CHAT,
        messages=[{"role": "system", "content": "You judge answers."}, {"role": "user", "content": text}],
        max_completion_tokens=most,
        temperature=0,
        response_format=FORMAT,
    )


async def test_cut_answer_says_so_and_has_logprobs(client: AsyncOpenAI) -> None:
    reply = await client.chat.completions.create(
        model=CHAT,
        messages=[{"role": "user", "content": "Count to one hundred."}],
        max_completion_tokens=5,
        temperature=0,
        logprobs=True,
        top_logprobs=2,
    )
    choice = reply.choices[0]
    assert choice.finish_reason == "length"
    assert choice.logprobs is not None and choice.logprobs.content is not None
    assert len(choice.logprobs.content) == 5
    assert all(token.logprob <= 0 and len(token.top_logprobs) == 2 for token in choice.logprobs.content)


async def test_parallel_calls_beyond_the_slots_are_all_answered_as_the_schema_says(client: AsyncOpenAI) -> None:
    replies = await asyncio.gather(*(_judge(client, f"Answer number {i}: {'x' * i}") for i in range(3)))
    for reply in replies:
        assert (reply.model, reply.choices[0].finish_reason) == (CHAT, "stop") and reply.usage is not None
        assert 0 < reply.usage.completion_tokens <= 80 and reply.usage.prompt_tokens > 10
        jsonschema.validate(json.loads(reply.choices[0].message.content or ""), SCHEMA)
    assert len({reply.id for reply in replies}) == 3


async def test_shared_prefix_is_not_read_again(client: AsyncOpenAI) -> None:
    rubric = "A rubric names the issues of an answer, each with points. " * 12
    await _judge(client, f"{rubric} First answer.", most=1)
    reply = await _judge(client, f"{rubric} Second answer.", most=1)
    assert reply.usage is not None and reply.usage.prompt_tokens_details is not None
    cached = reply.usage.prompt_tokens_details.cached_tokens or 0
    assert cached > 0.8 * reply.usage.prompt_tokens


async def test_hanging_up_frees_the_slots(client: AsyncOpenAI) -> None:
    endless = {"model": CHAT, "messages": [{"role": "user", "content": "Go on"}], "ignore_eos": True}
    async with aiohttp.ClientSession(base_url=f"{client.base_url}") as session:
        calls = [asyncio.ensure_future(session.post("chat/completions", json=endless)) for _ in range(8)]
        await asyncio.sleep(0.5)
        assert not any(call.done() for call in calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    async with asyncio.timeout(60):
        await _judge(client, "Still there?", most=1)


async def test_unknown_model_is_404(client: AsyncOpenAI) -> None:
    with pytest.raises(NotFoundError, match="serves: smollm2-135m-instruct") as chat:
        await client.chat.completions.create(model="nope", messages=[{"role": "user", "content": "x"}])
    with pytest.raises(NotFoundError) as embeddings:
        await client.embeddings.create(model=CHAT, input="x")
    assert chat.value.code == embeddings.value.code == "model_not_found"


async def test_too_long_a_prompt_is_named_so(client: AsyncOpenAI) -> None:
    with pytest.raises(BadRequestError) as refused:
        await client.chat.completions.create(model=CHAT, messages=[{"role": "user", "content": "word " * 5000}])
    assert refused.value.code == "context_length_exceeded"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("chat/completions", {"model": CHAT}, "messages"),
        ("chat/completions", {"model": CHAT, "messages": [{}], "stream": True}, "stream"),
        ("embeddings", {"model": "wordllama", "input": ""}, "input"),
        ("embeddings", {"model": "wordllama", "input": "x", "dimensions": 3}, "dimensions"),
    ],
)
async def test_bad_requests_name_the_field(client: AsyncOpenAI, path: str, body: dict[str, object], field: str) -> None:
    with pytest.raises(BadRequestError, match=field):
        await client.post(path, body=body, cast_to=object)


async def test_embeddings_agree_in_both_encodings(client: AsyncOpenAI) -> None:
    texts = ["first text", "second, somewhat longer text", "drei: ünïcödé 🙂"]
    plain = await client.embeddings.create(model="wordllama", input=texts, encoding_format="float")
    packed = await client.post(
        "embeddings",
        body={"model": "wordllama", "input": texts, "encoding_format": "base64"},
        cast_to=object,
    )
    assert isinstance(packed, dict)
    unpacked = [np.frombuffer(base64.b64decode(item["embedding"]), "<f4") for item in packed["data"]]
    assert [item.index for item in plain.data] == [0, 1, 2]
    for item, vector in zip(plain.data, unpacked, strict=True):
        assert np.array_equal(np.array(item.embedding, dtype=np.float32), vector)
    assert plain.usage.prompt_tokens == packed["usage"]["total_tokens"] > 10
    short = await client.embeddings.create(model="wordllama", input="same text", dimensions=64)
    assert len(short.data[0].embedding) == 64


async def test_models_are_listed(client: AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == [CHAT, "wordllama"]


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (413, "Payload Too Large", RowError),
        (400, "", RowError),
        (400, '{"error": "words"}', RowError),
        (400, "[]", RowError),
        (503, "", Overloaded),
        (500, "terminated", TransientError),
    ],
)
async def test_an_error_of_llama_cpp_that_is_not_json_keeps_its_status(
    status: int, body: str, kind: type[CallError]
) -> None:
    """As a plain 500, a request that can never succeed would be sent again by every run."""

    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    upstream = web.Application()
    upstream.router.add_post("/v1/chat/completions", refuse)
    async with TestServer(upstream) as llama:
        model = ChatModel(str(llama.make_url("/")).rstrip("/"), "key", None)
        front = Front({CHAT: model}, {}, slots=1).application("token")
        async with TestClient(TestServer(front)) as asking:
            asked = {"model": CHAT, "messages": [{"role": "user", "content": "Hello"}]}
            answer = await asking.post("/token/v1/chat/completions", json=asked)
            assert answer.status == status
            error = classify(status, await answer.json(), None)
    assert type(error) is kind and "llama.cpp answered" in str(error)
