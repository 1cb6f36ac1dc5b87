"""What goes over the wire: the built body and nothing else, which is also what a batch line carries; lists of texts."""

import json
from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hab_ray.calls import EmbedCall
from hab_ray.errors import ConfigError
from hab_ray.providers.base import Endpoint, ListLimits, Wire
from tests.loading import modules_after
from tests.providers.conftest import KEY, Connect, Play, Script, entry, reader, send
from tests.providers.wire_cases import CASES, FULL, Case
from tests.simulator.conftest import Start


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
async def test_the_body_is_built_sent_unchanged_and_taken(case: Case, simulate: Start, provider_of: Connect) -> None:
    lenient: dict[str, object] = {case.kind: {"models": {case.model.wire: {}}}}
    line = await simulate(accounts=lenient if case.call is FULL else {})
    provider = provider_of(case.kind, line.url)
    wire = provider.chat(case.call, case.model)
    assert wire == Wire(case.path, case.body, case.version)
    answer = provider.read_chat((await provider.send(wire)).body)
    assert answer.text and answer.model_reported == case.model.wire and answer.usage.output > 0
    sent = (await line.get("/_calls"))[-1]["body"]
    assert json.loads(sent) == wire.body
    assert list(json.loads(sent)) == list(wire.body)
    if case.call.schema_json:
        assert list(json.loads(answer.text)) == ["zeal", "issues"]


@pytest.mark.parametrize("name", ["openai thinking", "anthropic thinking", "google level"])
def test_an_effort_is_sent_as_vendors_spell_it(name: str, provider_of: Connect) -> None:
    case = CASES[name]
    loud = replace(case.call, params=replace(case.call.params, effort=str(case.call.params.effort).title()))
    assert provider_of(case.kind, "http://localhost:1").chat(loud, case.model).body == case.body
    assert loud.key != case.call.key


@pytest.mark.parametrize("kind", ["openai", "google"])
async def test_embeddings_go_out_as_one_list_and_come_back_in_order(kind: str, play: Play) -> None:
    line, provider = await play(kind, {"models": {"e": {"serves": ["embeddings"], "vector": 256}}})
    calls = [EmbedCall("p", "m", None, text, dimensions=128) for text in ("red cats", "blue dogs", "red cats")]
    wire = provider.embed(calls, entry("e"))
    answer = provider.read_embeddings((await provider.send(wire)).body, 3)
    assert json.loads((await line.get("/_calls"))[-1]["body"]) == wire.body
    assert [len(vector) for vector in answer.vectors] == [4 * 128] * 3
    assert answer.vectors[0] == answer.vectors[2] != answer.vectors[1]


def test_anthropic_has_no_embeddings() -> None:
    with pytest.raises(ConfigError, match=r"select\.embedding"):
        reader("anthropic").embed([EmbedCall("p", "m", None, "text")], entry())


async def test_the_version_of_the_catalogue_is_asked_for(script: Script, provider_of: Connect) -> None:
    for provided in (None, "2024-01-01"):
        anthropic = provider_of("anthropic", script.url, api_version=provided)
        for version in (None, "2023-06-01"):
            await send(anthropic, api_version=version)
    told = [headers.get("anthropic-version") for headers in script.sent_headers]
    assert told == ["2026-10-21", "2023-06-01", "2024-01-01", "2023-06-01"]


@pytest.mark.parametrize(
    ("model", "provider", "environment", "expected"),
    [
        (None, None, None, "v1beta"),
        (None, None, "v1", "v1"),
        (None, None, "beta", "v1beta"),
        (None, "v1", "v1alpha", "v1"),
        ("v1alpha", "v1", "v9", "v1alpha"),
    ],
)
async def test_gemini_is_asked_under_one_version_by_every_verb(
    model: str | None,
    provider: str | None,
    environment: str | None,
    expected: str,
    script: Script,
    provider_of: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GOOGLE_GENAI_API_VERSION", raising=False)
    if environment:
        monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", environment)
    google = provider_of("google", script.url, api_version=provider)
    await send(google, api_version=model)
    await google.send(google.embed([EmbedCall("p", "m", None, "red cats")], entry(api_version=model)))
    assert script.paths == [
        f"/google/{expected}/models/some-model:generateContent",
        f"/google/{expected}/models/some-model:batchEmbedContents",
    ]


async def test_google_is_asked_with_the_time_limit_and_this_key_whatever_the_environment_says(
    script: Script, provider_of: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_API_KEY", "other")
    await send(provider_of("google", script.url, timeout_s=7.5))
    assert script.paths == ["/google/v1beta/models/some-model:generateContent"]
    (sent,) = script.sent_headers
    assert sent["x-server-timeout"] == "8" and sent["content-type"] == "application/json"
    assert sent["x-goog-api-key"] == KEY and "authorization" not in sent
    assert sent["user-agent"] == "hab-ray"


TEXTS = ["plain", "\x7f", "don\u2019t \u2014 \u6f22 \U0001f600", "\\u2019", "\n\t\x00"]


def calls(texts: list[str]) -> list[EmbedCall]:
    return [EmbedCall("p", "m", None, text) for text in texts]


@given(st.lists(st.text(max_size=30), max_size=30), st.integers(1, 6), st.integers(1, 60))
def test_lists_keep_order_and_limits(texts: list[str], most: int, size: int) -> None:
    packed = list(ListLimits(most, size).packed(calls(texts)))
    assert [call.text for taken in packed for call in taken] == texts
    for taken in packed:
        assert 1 <= len(taken) <= most
        assert len(taken) == 1 or sum(len(call.text.encode()) for call in taken) <= size


@given(st.one_of(st.text(), st.sampled_from(TEXTS)))
def test_size_and_hash(text: str) -> None:
    """The hash is that of escaped JSON in the order sent, which steers generation; the size is that of UTF-8 JSON."""
    body = {"z": [{"content": text}], text: 0.5, "model": "m"}
    wire = Wire("/path", body)
    assert wire.sha256 == sha256(json.dumps(body, separators=(",", ":")).encode()).hexdigest()
    assert wire.utf8_bytes == len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())
    assert wire.sha256 is wire.sha256  # every text of a list of embeddings asks for it


def test_lists_are_as_long_as_they_may_be() -> None:
    packed = ListLimits(3, 8).packed(calls(["ab", "cd", "ef", "gh", "ijklmnop", "q", "ééééé"]))
    assert [[c.text for c in taken] for taken in packed] == [["ab", "cd", "ef"], ["gh"], ["ijklmnop"], ["q"], ["ééééé"]]


def test_a_key_is_hidden_and_a_local_placeholder_is_not_hunted() -> None:
    endpoint = Endpoint("p", "openai", "http://h", KEY, 1.0)
    assert KEY not in repr(endpoint)
    assert endpoint.without_key(f"bad key {KEY}!") == "bad key [key]!"
    assert Endpoint("p", "openai", "http://h", "none", 1.0).without_key("none left") == "none left"
    assert Endpoint("p", "openai", "http://h", "", 1.0).without_key("abc") == "abc"


def test_importing_the_package_imports_no_sdk() -> None:
    loaded = modules_after("import hab_ray.providers, hab_ray.providers.openai.errors, hab_ray.providers.google.chat")
    assert not loaded & {"openai", "anthropic", "google.genai", "ray"}
