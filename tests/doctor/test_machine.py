"""What the doctor says of this machine and of the way to the vendors, without a call."""

import asyncio
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest
from aiohttp import web

from hab_ray.catalog.models import ModelEntry, ProviderEntry, Purpose
from hab_ray.doctor import endpoints, machine
from hab_ray.doctor.findings import Finding, Level
from hab_ray.errors import ConfigError
from hab_ray.executors import api_versions
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_simulator.sending import serving

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("theirs", "level"),
    [
        ([], Level.OK),
        ([timedelta(seconds=3)], Level.OK),
        ([timedelta(minutes=-4)], Level.WARN),
        ([timedelta(hours=2)], Level.WRONG),
        ([timedelta(hours=2), timedelta(seconds=1)], Level.OK),
    ],
)
def test_the_clock_is_compared_with_the_vendors(theirs: list[timedelta], level: Level) -> None:
    found = machine.clock(NOW, [(f"vendor-{n}", NOW + off) for n, off in enumerate(theirs)])
    assert found.level is level and (level is Level.OK) == (found.remedy == "")


def test_a_clock_before_this_version_was_made_is_wrong() -> None:
    assert machine.clock(NOW.replace(year=1970), []).level is Level.WRONG


def test_python_must_be_new_enough() -> None:
    assert machine.python((3, 10, 9)).level is Level.WRONG
    assert machine.python((3, 11, 0)).level is Level.OK


def test_a_folder_that_does_not_exist_yet_is_looked_at_where_it_will_be(tmp_path: Path) -> None:
    assert machine.room("store", Location.of(tmp_path / "not" / "yet")).level is Level.OK
    (tmp_path / "file").write_text("")
    found = machine.room("run", Location.of("/proc/1/nothing"))
    assert found.level is Level.WRONG and "/proc/1" in found.remedy


def _seen_of(store: Location, gemini: ProviderEntry) -> list[Finding]:
    assert api_versions.remembered(open_folder(store), "lab", gemini) is None
    return [machine.room("store", store), *machine.free_store(store, store)]


def test_a_folder_below_one_closed_to_the_user_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    is_root = os.geteuid() == 0  # whom no mode shuts out
    become_nobody = partial(os.setuid, 65534) if is_root else None
    with ProcessPoolExecutor(1, get_context("fork"), become_nobody) as pool:
        store, gemini = Location.of(tmp_path / "closed" / "deep" / "store"), ProviderEntry(kind="google")
        found = pool.submit(_seen_of, store, gemini).result()
    assert [each.level for each in found] == [Level.WRONG, Level.WRONG]
    assert all("Permission denied" in each.seen for each in found)


def test_weights_that_are_not_here_are_named_and_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAB_CACHE", str(tmp_path))
    entry = ModelEntry(provider="local", wire="smollm2-135m-instruct")
    (found,) = machine.weights([("small", entry)])
    assert found.level is Level.WARN and "no weights at" in found.seen
    assert found.remedy.endswith("`hab local pull smollm2-135m-instruct`")
    assert list(tmp_path.rglob("*.gguf")) == []


@pytest.mark.parametrize(
    ("wire", "seen", "remedy"),
    [
        ("/no/such.gguf", "/no/such.gguf: there is no such file", "correct the path"),
        ("typo-model", "typo-model: unknown weights", "Name one of smollm2-135m-instruct"),
        ("hf:a.gguf", "hf:a.gguf: write hf:<owner>/<repo>/<file>.gguf", "correct the name"),
    ],
)
def test_weights_that_no_run_can_fetch_are_wrong(wire: str, seen: str, remedy: str) -> None:
    (found,) = machine.weights([("mine", ModelEntry(provider="local", wire=wire))])
    assert (found.level, found.seen) == (Level.WRONG, seen) and found.remedy.startswith(remedy)


def test_weights_on_this_machine_are_ok(tmp_path: Path) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF")
    (found,) = machine.weights([("mine", ModelEntry(provider="local", wire=str(own)))])
    assert found.level is Level.OK and str(own) in found.seen


def test_an_embedding_model_that_no_run_can_fetch_is_wrong() -> None:
    (found,) = machine.weights([("mine", ModelEntry(provider="local", wire="other", purpose=Purpose.EMBEDDING))])
    assert found.level is Level.WRONG and ".[local]" in found.remedy and "hab run" not in found.remedy


async def test_endpoints_are_asked_at_once_and_within_bounds() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 No\r\nDate: Sun, 22 Nov 2026 12:00:00 GMT\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    servers = [await asyncio.start_server(each, "127.0.0.1", 0) for each in (answer, silent, silent)]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    servers[2].close()
    entries = {f"p{n}": ProviderEntry(kind="openai", url=f"http://127.0.0.1:{port}/v1") for n, port in enumerate(ports)}
    started = time.monotonic()
    answers = {one.provider: one for one in await endpoints.ask_all(entries, within_s=1.0)}
    assert time.monotonic() - started < 3
    assert answers["p0"].status == 401 and answers["p0"].date == NOW
    refused = endpoints.reachable(answers["p0"], entries["p0"])
    assert refused.level is Level.WARN and "`key_env: VARIABLE` to `providers.p0`" in refused.remedy
    assert endpoints.reachable(answers["p0"], entries["p0"].model_copy(update={"key_env": "K"})).level is Level.OK
    assert answers["p1"].problem == "no answer within 1 s"
    down = endpoints.reachable(answers["p2"], entries["p2"])
    assert answers["p2"].status is None and down.level is Level.WRONG
    assert "start the server" in down.remedy and "proxy" not in down.remedy
    elsewhere = endpoints.reachable(replace(answers["p2"], url="http://vendor.invalid/v1"), entries["p2"])
    assert "proxy" in elsewhere.remedy
    servers[0].close()
    servers[1].close()


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"data": [{"id": "alpha"}, {"id": "beta:latest"}]}', "gamma"),
        (b'{"data": [{"id": "gamma"}, {"id": "beta-2026-01-01"}]}', "alpha"),
        (b'{"data": [{"id": "gamma"}, {"id": "alpha"}, {"id": "beta"}]}', ""),
        (b'{"data": []}', "alpha, beta, gamma"),
        (b'{"data": null}', "alpha, beta, gamma"),
        (b'{"data": [7]}', ""),
        (b"<html>", ""),
    ],
)
async def test_models_that_an_endpoint_does_not_list_are_named_and_no_key_is_sent(
    monkeypatch: pytest.MonkeyPatch, body: bytes, told: str
) -> None:
    monkeypatch.setenv("LAB_KEY", "sk-hush-hush-1")
    asked: list[web.BaseRequest] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(request)
        return web.Response(body=body)

    async with serving(answer) as url:
        entry = ProviderEntry(kind="openai", url=f"{url}/v1/", key_env="LAB_KEY")
        (answered,) = await endpoints.ask_all({"lab": entry})
    found = endpoints.unlisted(answered, [ModelEntry(provider="lab", wire=wire) for wire in ("alpha", "beta", "gamma")])
    assert [(each.level, each.seen.rpartition("list ")[2]) for each in found] == ([(Level.WARN, told)] if told else [])
    assert (asked[0].method, asked[0].path) == ("GET", "/v1/models") and "Authorization" not in asked[0].headers


async def test_an_endpoint_that_lists_its_models_slowly_is_reachable() -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        await asyncio.sleep(5 * request.path.endswith("/models"))
        return web.Response(status=404)

    async with serving(answer) as url:
        entry = ProviderEntry(kind="openai", url=f"{url}/v1")
        (answered,) = await endpoints.ask_all({"slow": entry}, within_s=0.5)
    assert endpoints.reachable(answered, entry).level is Level.OK


@pytest.mark.parametrize(("status", "remedy"), [(404, "lack /v1"), (502, "does the server run")])
async def test_an_address_that_answers_with_an_error_is_warned_of(status: int, remedy: str) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(status=status)

    async with serving(answer) as url:
        entry = ProviderEntry(kind="openai", url=url)
        (answered,) = await endpoints.ask_all({"lab": entry})
    found = endpoints.reachable(answered, entry)
    assert found.level is Level.WARN and remedy in found.remedy


@pytest.mark.parametrize("kind", ["openai", "google"], ids=["asked for its models", "asked at its address"])
async def test_a_web_page_instead_of_an_answer_is_warned_of(kind: str) -> None:
    async def login(request: web.BaseRequest) -> web.Response:
        return web.Response(text="\n<!DOCTYPE html><title>Sign in</title>", content_type="text/html")

    async with serving(login) as url:
        entry = ProviderEntry(kind=kind, url=f"{url}/v1")
        (answered,) = await endpoints.ask_all({"lab": entry})
    found = endpoints.reachable(answered, entry)
    assert found.level is Level.WARN and "HTTP 200" in found.seen and "login page" in found.remedy


async def test_an_answer_that_breaks_off_is_told_in_words() -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Len")
        await writer.drain()
        writer.transport.abort()

    async with await asyncio.start_server(half, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        (answered,) = await endpoints.ask_all({"half": ProviderEntry(kind="openai", url=url)}, within_s=5)
    assert answered.problem == "the connection broke"


async def test_certificates_that_cannot_be_read_are_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/certificates.pem")
    with pytest.raises(ConfigError, match=r"SSL_CERT_FILE=/no/certificates.pem: .*Correct or unset it"):
        await endpoints.ask_all({})


def test_keys_are_shown_by_name_only(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = ProviderEntry(kind="openai", url="http://h/v1", key_env="LAB_KEY", headers_env={"X-Team": "LAB_TEAM"})
    monkeypatch.setenv("LAB_KEY", "sk-hush-hush-1")
    (found,) = endpoints.keys("lab", entry)
    assert found.level is Level.WRONG and "LAB_TEAM" in found.seen
    monkeypatch.setenv("LAB_TEAM", "blue\x07bell")
    (found,) = endpoints.keys("lab", entry)
    assert found.level is Level.WRONG and "no header may have" in found.seen
    monkeypatch.setenv("LAB_TEAM", "bluebell")
    (found,) = endpoints.keys("lab", entry)
    assert found.level is Level.OK and "bluebell" not in found.seen and "hush" not in found.seen


def test_a_local_model_without_the_package_that_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    (found,) = machine.weights([("mine", ModelEntry(provider="local", wire="smollm2-135m-instruct"))])
    assert found.seen == "the package xllamacpp is not installed" and "'.[local]'" in found.remedy
