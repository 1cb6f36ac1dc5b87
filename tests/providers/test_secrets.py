"""Secrets: where they are read and sent; none reaches an error, an answer, a log or a URL, even echoed by a vendor."""

import logging
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hab_ray.catalog.models import ProviderEntry
from hab_ray.errors import CallError, ConfigError
from hab_ray.providers import connect, connect_batch
from hab_ray.providers.access import endpoint_of, has_secret, secret_problem, variables_of
from hab_ray.providers.base import NO_KEY, Endpoint
from hab_ray.providers.batching import BatchApi
from hab_ray.providers.secrets import Secrets
from tests.hostile import SPELLINGS
from tests.providers.batch_vendor import KINDS as BATCH_KINDS
from tests.providers.batch_vendor import ROUTES, Scripted, answered, job, sent_results, vendor
from tests.providers.conftest import KEY, KINDS, Connect, Hear, Play, Script, candidate, choice, message, reader, send

ODD = "sk/proj+Ab12cd34==&'\"x y"


@pytest.mark.parametrize("name", SPELLINGS)
@pytest.mark.parametrize("secret", [KEY, ODD])
def test_a_secret_is_found_in_every_spelling(secret: str, name: str) -> None:
    secrets = Secrets([secret])
    written = SPELLINGS[name](secret)
    assert secrets.masked(f"<{written}> and {written}.") == "<[key]> and [key]."
    assert secrets.masked_bytes(f"é{written}".encode() + b"\xff") == "é[key]".encode() + b"\xff"


def test_a_header_is_masked_with_and_without_its_scheme_and_text_without_secrets_stays() -> None:
    secrets = Secrets(["Bearer abcdef123456", "short", ""])
    assert secrets.masked("Bearer abcdef123456, abcdef123456; Bearer; short") == "[key], [key]; Bearer; short"
    assert secrets.masked_bytes(b"nothing here \xff") == b"nothing here \xff"


def test_a_fingerprint_tells_two_keys_apart_and_many_keys_share_it() -> None:
    def fingerprint(key: str, secret: bytes = b"secret") -> str:
        return Endpoint("acme", "google", "http://localhost:1", key, 1.0).fingerprint(secret)

    assert fingerprint(ODD) == fingerprint(ODD) != fingerprint(KEY)
    assert fingerprint(ODD) != fingerprint(ODD, b"another store's secret")
    headers = [{}, {"api-key": "one"}, {"api-key": "two"}, {"API-Key": "two"}]
    told = [Endpoint("acme", "openai", "http://x", NO_KEY, 1.0, each).fingerprint(b"secret") for each in headers]
    assert len(set(told)) == 3 and told[2] == told[3], "keys in headers are not told apart"
    moved = [
        Endpoint("acme", "google", url, KEY, 1.0).fingerprint(b"s") for url in ("http://a", "http://a/", "http://b")
    ]
    assert moved[0] == moved[1] != moved[2], "what is sent to one address is unknown at another"
    found = [fingerprint(f"key {n}") for n in range(100_000)]
    assert {len(each) for each in found} == {4}, "a guessed key can be confirmed"
    assert len(set(found)) > 45_000, "it does not tell keys apart"


BODIES: dict[str, Callable[[str], dict[str, Any]]] = {
    "openai": lambda key: choice(f"It is {key}.") | {"model": key, "provider": key},
    "anthropic": lambda key: message(f"It is {key}.") | {"model": key},
    "google": lambda key: candidate(f"It is {key}.") | {"modelVersion": key},
}
REFUSED: dict[str, Callable[[str], dict[str, Any]]] = {
    "openai": lambda key: choice(None, refusal=key),
    "anthropic": lambda key: message(None, "refusal", stop_details={"explanation": key}),
    "google": lambda key: candidate(None, "SAFETY", finishMessage=key),
}


@pytest.mark.parametrize("bodies", [BODIES, REFUSED], ids=["answer", "refusal"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_key_in_a_good_answer_is_not_stored(
    kind: str, bodies: dict[str, Callable[[str], dict[str, Any]]], script: Script, provider_of: Connect
) -> None:
    provider = provider_of(kind, script.url, key=ODD)
    for spelling in (str, SPELLINGS["URL"], SPELLINGS["HTML"]):
        script.says(200, bodies[kind](spelling(ODD)))
        answer = provider.read_chat((await send(provider)).body)
        assert "[key]" in answer.text and "Ab12cd34" not in repr(answer)
    assert "Ab12cd34" in str(script.sent_headers)


@pytest.mark.parametrize("kind", BATCH_KINDS)
async def test_a_key_in_a_batchs_good_answer_is_not_stored(kind: str) -> None:
    spoken = "openai" if kind == "xai" else kind
    async with vendor(kind) as line:
        line.says(line.at.one, line.at.ended)
        line.says(line.at.results, sent_results(kind, answered(kind, "1", BODIES[spoken](KEY))))
        (found,) = await line.lines()
    assert found.body is not None
    answer = reader(kind).read_chat(found.body)
    assert answer.text == "It is [key]." and KEY not in repr(answer)


@pytest.mark.parametrize("name", ["\x1b[31m", "a\nb", "half \ud800", "x" * 70_000, "\u202e"])
@pytest.mark.parametrize("kind", BATCH_KINDS)
async def test_a_batch_by_a_name_that_no_address_can_hold_is_an_error_of_the_call(kind: str, name: str) -> None:
    async with vendor(kind) as line:
        with pytest.raises(CallError) as caught:
            await line.api.poll(name)
    assert str(caught.value).isprintable()


def account(kind: str, monkeypatch: pytest.MonkeyPatch, url: str, *, name: str = "X-Team-Token") -> Endpoint:
    monkeypatch.setenv("TEAM_TOKEN", "Bearer team-token-0123456789\n")
    monkeypatch.setenv("A_KEY", KEY)
    given = ProviderEntry.model_validate(
        {"kind": kind, "url": url, "key_env": "A_KEY", "headers_env": {name: "TEAM_TOKEN"}}
    )
    return endpoint_of("p", given, given.url or "")


@pytest.mark.parametrize("kind", KINDS)
async def test_headers_are_sent_online_and_masked(kind: str, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = account(kind, monkeypatch, script.url)
    assert "team-token" not in repr(endpoint)
    provider = connect(endpoint)
    script.says(200, BODIES[kind]("team-token-0123456789"))
    answer = provider.read_chat((await send(provider)).body)
    await provider.close()
    assert [sent["x-team-token"] for sent in script.sent_headers] == ["Bearer team-token-0123456789"]
    assert answer.text == "It is [key]."


@pytest.mark.parametrize("name", ["Authorization", "authorization"])
async def test_own_authorization_replaces_the_key(name: str, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = connect(account("openai", monkeypatch, script.url, name=name))
    script.says(200, BODIES["openai"]("x"))
    await send(provider)
    await provider.close()
    assert [sent["authorization"] for sent in script.sent_headers] == ["Bearer team-token-0123456789"]
    assert KEY not in str(script.sent_headers)


@pytest.mark.parametrize("kind", BATCH_KINDS)
async def test_headers_are_sent_with_every_batch_verb(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with vendor(kind) as line:
        line.takes_uploads()
        line.says(line.at.create, {"id": "batch_1", "batch_id": "batch_1", "name": "batches/1"})
        line.says(line.at.one, line.at.ended)
        line.says(line.at.cancel, {})
        line.says(line.at.results, sent_results(kind))
        api = connect_batch(account(kind, monkeypatch, line.url))
        await api.submit(job(kind))
        assert [one async for one in api.results(await api.poll(line.at.id))] == []
        await api.cancel(line.at.id)
        await api.close()
    assert {"POST /to-here"} <= {got.route for got in line.got} or kind != "google"
    assert len(line.got) >= 4 + bool(line.at.upload)
    assert {got.headers.get("x-team-token") for got in line.got} == {"Bearer team-token-0123456789"}


async def test_an_upload_to_another_host_carries_no_header_of_the_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with vendor("google") as line:
        line.takes_uploads()
        elsewhere = line.url.replace("127.0.0.1", "localhost")
        line.says(line.at.upload, Scripted(headers={"X-Goog-Upload-URL": f"{elsewhere}/to-here?upload_id=7"}))
        line.says(line.at.create, {"name": "batches/1"})
        api = connect_batch(account("google", monkeypatch, line.url))
        await api.submit(job("google"))
        await api.close()
    (there,) = line.sent("POST /to-here")
    assert "x-team-token" not in there.headers and KEY not in str(there.headers)


@pytest.mark.parametrize(("value", "cause"), [("", "is not set"), ("  \n", "is not set"), ("a\nb", "characters")])
@pytest.mark.parametrize("variable", ["A_KEY", "TEAM_TOKEN"])
def test_a_bad_header_is_not_repeated(variable: str, value: str, cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    account("openai", monkeypatch, "http://h")
    monkeypatch.setenv(variable, value)
    given = {"kind": "openai", "url": "http://h", "key_env": "A_KEY", "headers_env": {"X-Team": "TEAM_TOKEN"}}
    with pytest.raises(ConfigError) as caught:
        endpoint_of("p", ProviderEntry.model_validate(given), "http://h")
    assert variable in str(caught.value) and cause in str(caught.value) and "a\nb" not in str(caught.value)


def key_of_lab() -> str:
    return endpoint_of("lab", ProviderEntry(kind="openai", key_env="LAB_KEY"), "http://h/v1").key


def test_a_key_is_read_from_its_variable_or_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    monkeypatch.setenv("LAB_KEY_FILE", str(tmp_path / "key"))
    assert key_of_lab() == KEY
    monkeypatch.setenv("LAB_KEY", "  ")
    assert key_of_lab() == KEY
    monkeypatch.setenv("LAB_KEY", "sk-of-the-variable")
    assert key_of_lab() == "sk-of-the-variable"


def test_headers_are_read_from_files_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "team").write_text("red")
    monkeypatch.setenv("LAB_TEAM_FILE", str(tmp_path / "team"))
    entry = ProviderEntry(kind="openai", url="http://h/v1", headers_env={"X-Team": "LAB_TEAM"})
    assert endpoint_of("lab", entry, "http://h/v1").headers == {"X-Team": "red"} and variables_of(entry) == ["LAB_TEAM"]


def test_a_key_that_was_put_where_a_file_belongs_is_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (KEY, "x" * 5000 + KEY, "/"):
        monkeypatch.setenv("LAB_KEY_FILE", value)
        with pytest.raises(ConfigError, match="LAB_KEY_FILE does not name a readable file") as refused:
            key_of_lab()
        assert KEY not in str(refused.value) and refused.value.__cause__ is None
        assert not has_secret("LAB_KEY", {"LAB_KEY_FILE": value})
        told = secret_problem("LAB_KEY", {"LAB_KEY_FILE": value})
        assert told and told.startswith("LAB_KEY_FILE does not name a readable file (") and KEY not in told


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("two\nlines", "characters that no header may have"),
        ("schl\u00fcssel", "characters that no header may have"),
        ("\n", r"LAB_KEY is not set; .* LAB_KEY_FILE names"),
    ],
)
def test_a_bad_key_file_is_not_shown(content: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(content)
    monkeypatch.setenv("LAB_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(ConfigError, match=why) as refused:
        key_of_lab()
    assert content not in str(refused.value)
    assert has_secret("LAB_KEY", {"LAB_KEY_FILE": str(tmp_path / "key")}) == bool(content.strip())


ECHO = {"error": {"message": "x" * 470 + KEY, "code": KEY, "type": KEY, "status": KEY}}


def told(error: BaseException | None) -> str:
    assert error is not None
    return "".join(traceback.format_exception(error)) + repr(error) + str(error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, {"error": {"message": f"Incorrect API key provided: {KEY}.", "code": "invalid_api_key"}}),
        (403, {"error": {"message": "x" * 490 + KEY, "status": "PERMISSION_DENIED"}}),
        (400, {"error": {"message": "bad", "code": KEY, "type": KEY, "status": KEY}}),
        (500, f"<html>{KEY}</html>"),
        (200, f"not json {KEY}"),
        (200, {"error": {"message": f"key {KEY}", "code": 500}}),
    ],
    ids=["in words", "at the cut", "as code", "in a page", "in a success", "under 200"],
)
async def test_a_key_echoed_by_the_vendor_is_scrubbed(
    kind: str, status: int, body: object, hear: Hear, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(CallError) as caught:
        await hear(kind, status, body)
    assert KEY[:20] not in told(caught.value)
    assert KEY in str(script.sent_headers)
    assert KEY not in "".join(script.paths)
    assert KEY not in caplog.text


@pytest.mark.parametrize("kind", KINDS)
async def test_working_and_broken_calls_log_no_key(kind: str, play: Play, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    line, provider = await play(kind, {"models": {"m": {}}})
    await send(provider, "m")
    assert await line.control("/_faults", [{"kind": "reset", "probability": 1}]) == 200
    with pytest.raises(CallError) as caught:
        await send(provider, "m")
    assert KEY not in told(caught.value)
    assert KEY not in caplog.text
    assert KEY not in repr(provider)


@pytest.mark.parametrize("kind", BATCH_KINDS)
@pytest.mark.parametrize("status", [400, 401, 404, 500])
@pytest.mark.parametrize("body", [ECHO, f"<html>{KEY}</html>"], ids=["json", "page"])
async def test_refused_verbs_of_batches(
    kind: str, status: int, body: dict[str, object] | str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    verbs: list[Callable[[BatchApi], Awaitable[object]]] = [
        lambda api: api.submit(job(kind)),
        lambda api: api.since(None),
        lambda api: api.poll(ROUTES[kind].id),
        lambda api: api.cancel(ROUTES[kind].id),
    ]
    async with vendor(kind) as line:
        for route in (line.at.create, line.at.list, line.at.one, line.at.cancel, line.at.upload):
            line.says(route, Scripted(body, status))
        for verb in verbs:
            with pytest.raises(CallError) as caught:
                await verb(line.api)
            assert KEY[:20] not in told(caught.value)
    assert KEY in str(line.got[0].headers)
    assert all(KEY not in got.route and KEY not in str(got.query) for got in line.got)
    assert KEY not in caplog.text and KEY not in repr(line.api)


ERROR_LINES: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {"custom_id": "1", "response": {"status_code": 400, "body": ECHO}},
        {"custom_id": "2", "response": None, "error": {"code": "batch_expired", "message": KEY}},
    ],
    "anthropic": [
        {"custom_id": "1", "result": {"type": "errored", "error": {"type": "error", **ECHO}}},
        {"custom_id": "2", "result": {"type": "expired", "message": KEY}},
    ],
    "google": [
        {"key": "1", "error": {"code": 3, "message": "x" * 470 + KEY}},
        {"key": "2", "error": {"code": 429, "message": KEY, "status": KEY}},
    ],
    "xai": [
        {"batch_request_id": "1", "batch_result": {"error": {"code": 3, "message": "x" * 470 + KEY}}},
        {"batch_request_id": "2", "error_message": KEY},
        {"batch_request_id": KEY, "batch_result": {"error": {"code": 1, "message": KEY}}},
    ],
}


@pytest.mark.parametrize("kind", BATCH_KINDS)
async def test_error_lines_of_batches(kind: str) -> None:
    async with vendor(kind) as line:
        line.says(line.at.one, line.at.ended)
        results = sent_results(kind, *ERROR_LINES[kind])
        line.says(line.at.results, results + f"{KEY}\n".encode() if isinstance(results, bytes) else results)
        lines = await line.lines()
        line.says(line.at.results, Scripted(ECHO, 500))
        with pytest.raises(CallError) as caught:
            await line.lines()
    assert len(lines) == 3
    assert all(KEY[:20] not in told(error) for error in [one.error for one in lines] + [caught.value])


FAILED: dict[str, dict[str, Any]] = {
    "openai": {"status": "failed", "errors": {"data": [{"code": "invalid_json_line", "message": KEY}]}},
    "google": {"metadata": {"state": "BATCH_STATE_FAILED"}, "error": {"code": 3, "message": KEY}},
    "xai": {"state": {"num_requests": 0}, "cancel_by_xai_message": KEY},
}


@pytest.mark.parametrize("kind", FAILED)
async def test_why_a_batch_failed(kind: str) -> None:
    async with vendor(kind) as line:
        line.says(line.at.one, FAILED[kind])
        assert KEY[:20] not in told((await line.poll()).problem)
