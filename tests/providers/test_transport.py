"""Connections that fail, each told apart, each request sent once."""

import asyncio
import gzip
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from hab_ray.errors import (
    CallError,
    ConfigError,
    FailureKind,
    Intercepted,
    ProviderError,
    TransientError,
    Unreachable,
    Untrusted,
)
from hab_ray.providers.http import SUSPENDED_S
from tests.cli.hostile_vendor import serving
from tests.providers.conftest import KINDS, Connect, Script, send
from tests.simulator.conftest import Start

MORE_THAN_AIOHTTP_GIVES = 130
MAX_S = 6.0
LONG = "Hello. " * 100_000


Fail = Callable[..., Awaitable[CallError]]


@pytest.fixture
def failure(provider_of: Connect) -> Fail:
    """What one call ends with: `failure(kind, url, timeout_s=...)`."""

    async def of(kind: str, url: str, timeout_s: float = 20.0) -> CallError:
        provider = provider_of(kind, url, timeout_s)
        with pytest.raises(CallError) as caught:
            async with asyncio.timeout(MAX_S):
                await send(provider)
        return caught.value

    return of


@pytest.mark.parametrize("kind", KINDS)
async def test_a_closed_port_is_unreachable_at_once(kind: str, failure: Fail) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        error = await failure(kind, f"http://{address}")
    assert isinstance(error, Unreachable)
    assert str(error) == f"cannot connect: connection refused at {address}"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_connection_that_is_never_made_has_sent_nothing(kind: str, failure: Fail) -> None:
    """A server that does not speak TLS waits, too; a call that may have been sent would be booked."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        error = await failure(kind, f"https://127.0.0.1:{silent.getsockname()[1]}", 2.0)
    assert isinstance(error, Unreachable)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_proxy_that_is_down_is_named(kind: str, failure: Fail, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    error = await failure(kind, "http://vendor.invalid")
    assert isinstance(error, Unreachable)
    assert "the proxy at 127.0.0.1:9" in str(error) and "NO_PROXY" in str(error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("status", "remedy"), [(403, "allow the endpoint's host"), (407, "USER:PASSWORD@"), (503, "into NO_PROXY")]
)
async def test_a_proxy_that_refuses_to_connect_has_sent_nothing_on(
    kind: str, status: int, remedy: str, failure: Fail, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with always_writing(b"HTTP/1.1 %d Refused\r\nContent-Length: 0\r\n\r\n" % status) as proxy:
        monkeypatch.setenv("https_proxy", proxy)
        error = await failure(kind, "https://vendor.invalid")
    assert isinstance(error, Unreachable)
    assert f"(HTTP {status} Refused)" in str(error) and remedy in str(error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_certificates_that_cannot_be_read_are_named(
    kind: str, content: str | None, failure: Fail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content:
        (tmp_path / "ca.pem").write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with pytest.raises(ConfigError, match=r"SSL_CERT_FILE=.*ca.pem: no certificates can be read there .*unset"):
        await failure(kind, "https://vendor.invalid")


Certify = Callable[[], Path]


@pytest.fixture
def certify(tmp_path: Path) -> Certify:
    """Writes a new self-signed certificate of 127.0.0.1 with its key, and gives its file."""

    def written() -> Path:
        key = ec.generate_private_key(ec.SECP256R1())
        name, today = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")]), datetime.now(UTC)
        addresses = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        certificate = x509.CertificateBuilder(
            issuer_name=name,
            subject_name=name,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=today - timedelta(days=1),
            not_valid_after=today + timedelta(days=1),
        ).add_extension(addresses, critical=False)
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(certificate.sign(key, SHA256()).public_bytes(Encoding.PEM) + private)
        return file

    return written


@asynccontextmanager
async def over_tls(script: Script, context: ssl.SSLContext) -> AsyncIterator[str]:
    """Serves a script over TLS, each request on a connection of its own."""
    runner = web.ServerRunner(web.Server(script.handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_certificate_that_cannot_be_verified_stops_the_provider_and_its_remedy_helps(
    kind: str, certify: Certify, script: Script, failure: Fail, provider_of: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, context = certify(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    script.says(200, {}, connection="close")
    async with over_tls(script, context) as url:
        error = await failure(kind, url)
        assert type(error) is Untrusted and "SSL_CERT_FILE" in str(error)
        where = url.removeprefix("https://")
        assert f"the certificate of {where} cannot be verified (self-signed certificate)" in str(error)
        assert not script.paths

        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        provider = provider_of(kind, url)
        assert (await send(provider)).body == {}

        context.load_cert_chain(certify())
        with pytest.raises(Unreachable, match="cannot be verified"):  # one machine of many may have a wrong one
            await send(provider)


NO_ANSWERS = {
    "no status line": b'{"choices": []}\r\n\r\n',
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}",
    "an endless header": b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 100_000 + b"\r\n\r\n{}",
    "another protocol": b"\x16\x03\x01\x02\x00" * 20,
}


@asynccontextmanager
async def always_writing(raw: bytes) -> AsyncIterator[str]:
    """The address of a server that reads a request and writes these bytes, whether or not they are HTTP."""

    async def write(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(write, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("raw", NO_ANSWERS.values(), ids=NO_ANSWERS)
@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_no_http_is_a_broken_connection(kind: str, raw: bytes, failure: Fail) -> None:
    async with always_writing(raw) as url:
        error = await failure(kind, url)
    assert isinstance(error, TransientError) and error.kind is FailureKind.CONNECTION
    assert str(error).startswith("the connection broke: ")


@pytest.mark.parametrize("kind", KINDS)
async def test_an_unknown_host_is_unreachable(kind: str, failure: Fail) -> None:
    assert isinstance(await failure(kind, "http://no-such-host.invalid"), Unreachable)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("fault", "meaning"),
    [
        ({"kind": "reset"}, FailureKind.CONNECTION),
        ({"kind": "truncated"}, FailureKind.CONNECTION),
        ({"kind": "hang"}, FailureKind.TIMEOUT),
        ({"kind": "slow", "seconds": 8}, FailureKind.TIMEOUT),
        *(({"kind": "status", "status": status}, None) for status in (408, 409, 429, 500, 502, 503, 504, 529)),
    ],
)
async def test_what_may_pass_is_transient_and_not_sent_again(
    kind: str, fault: dict[str, object], meaning: FailureKind | None, simulate: Start, failure: Fail
) -> None:
    """The SDKs would. A body that keeps dribbling is bounded too, not each read by itself."""
    line = await simulate(faults=[fault | {"probability": 1}], accounts={kind: {}})
    error = await failure(kind, line.url, timeout_s=1.2 if meaning is FailureKind.TIMEOUT else 20.0)
    assert isinstance(error, TransientError)
    assert meaning is None or (type(error), error.kind) == (TransientError, meaning)
    assert error.is_answer == (fault["kind"] == "truncated")
    assert (await line.get("/_meter"))["received"] == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("body", "told"),
    [
        (" \n", "it is empty"),
        (': wait\n\ndata: {"choices": []}\n\n', "it is an event stream"),
        ("event: message_start\ndata: {}\n\n", "it is an event stream"),
        ('{"half": ', ""),
        ("[1, 2]", ""),
        ("null", ""),
        (b"\xff\xfe\xfa", ""),
    ],
)
async def test_no_json_is_malformed(kind: str, body: str | bytes, told: str, script: Script, failure: Fail) -> None:
    script.says(200, body)
    error = await failure(kind, script.url)
    assert type(error) is TransientError
    assert error.kind is FailureKind.MALFORMED and told in str(error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_a_body_that_would_fill_the_memory_is_not_read_on(
    kind: str, status: int, encoding: str, script: Script, failure: Fail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compressed, it may be short on the wire. What it says may be billed."""
    monkeypatch.setattr("hab_ray.providers.http.MAX_BODY_MB", 1)
    body = b" " * (8 << 20)
    script.says(status, gzip.compress(body) if encoding == "gzip" else body, content_encoding=encoding)
    error = await failure(kind, script.url)
    assert type(error) is TransientError and error.kind is FailureKind.MALFORMED
    assert "it has more than 1 MB; check the provider's url" in str(error) and len(script.paths) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_a_compressed_answer_is_read(kind: str, script: Script, provider_of: Connect) -> None:
    script.says(200, gzip.compress(json.dumps({"answer": LONG}).encode()), content_encoding="gzip")
    assert (await send(provider_of(kind, script.url))).body == {"answer": LONG}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("charset", ["utf-8", "utf-16", "hex"])
async def test_an_error_is_read_behind_a_byte_order_mark_and_whatever_its_charset(
    kind: str, charset: str, script: Script, failure: Fail
) -> None:
    """As of gateways. Without its code, an account without credit would look like one that is asked too fast."""
    code = {"code": "insufficient_quota", "type": "billing_error", "status": "RESOURCE_EXHAUSTED"}
    body = json.dumps({"error": {**code, "message": "Your credits are depleted"}})
    script.says(429, f"\ufeff{body}", content_type=f"application/json; charset={charset}")
    error = await failure(kind, script.url)
    assert isinstance(error, ProviderError) and error.kind is FailureKind.NO_QUOTA


@pytest.mark.parametrize("kind", KINDS)
async def test_a_web_page_with_status_200_cost_nothing(kind: str, script: Script, failure: Fail) -> None:
    """A gateway's login page, or the web site at a url that lacks /v1."""
    script.says(200, "<!doctype html><html><title>Sign in</title></html>")
    error = await failure(kind, script.url)
    assert isinstance(error, Intercepted) and error.kind is FailureKind.SERVER
    assert "Sign in" in str(error) and "the provider's url" in str(error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content_type", ["text/html", "application/json"])
async def test_an_error_page_is_a_servers_failure(kind: str, content_type: str, script: Script, failure: Fail) -> None:
    script.says(502, "<html>bad gateway</html>", content_type=content_type)
    assert type(await failure(kind, script.url)) is TransientError


@pytest.mark.parametrize("kind", KINDS)
async def test_the_transport_does_not_bound_calls_in_flight(kind: str, simulate: Start, provider_of: Connect) -> None:
    line = await simulate(latency={"kind": "fixed", "value_s": 2.0}, accounts={kind: {"models": {"m": {}}}})
    provider = provider_of(kind, line.url)
    await asyncio.gather(*(send(provider, "m") for _ in range(MORE_THAN_AIOHTTP_GIVES)))
    assert (await line.get("/_meter"))["in_flight_max"] == MORE_THAN_AIOHTTP_GIVES


ASK = """
import asyncio, sys
from hab_ray.providers import connect
from hab_ray.providers.base import Endpoint
from tests.providers.conftest import send

async def ask(kind, url):
    print(len((await send(connect(Endpoint("p", kind, url, "a-key", 1.0)))).body["answer"]))

asyncio.run(ask(*sys.argv[1:]))
"""


@pytest.mark.parametrize("kind", ["openai", "google"])  # Anthropic's client is made as OpenAI's
def test_an_answer_that_arrives_while_the_process_is_suspended_is_read(kind: str) -> None:
    """After Ctrl-Z for longer than the time limit it lies in the socket: it is billed, and would be asked for again."""
    was_asked = threading.Event()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        was_asked.set()
        await asyncio.sleep(0.3)
        return web.json_response({"answer": LONG})

    with serving(handle) as url:
        asking = subprocess.Popen([sys.executable, "-c", ASK, kind, url], stdout=subprocess.PIPE, text=True)
        assert was_asked.wait(60)
        asking.send_signal(signal.SIGSTOP)
        time.sleep(1.0 + SUSPENDED_S + 0.2)
        asking.send_signal(signal.SIGCONT)
        assert asking.communicate(timeout=60)[0] == f"{len(LONG)}\n"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_no_redirect_is_followed(kind: str, status: int, script: Script, simulate: Start, failure: Fail) -> None:
    """Keys in headers of the vendor's own, other headers and prompts would go where nobody chose."""
    elsewhere = await simulate(accounts={kind: {}})
    script.says(status, "<html>moved</html>", location=elsewhere.url.replace("127.0.0.1", "localhost"))
    error = await failure(kind, script.url)
    assert isinstance(error, ProviderError)
    assert "redirects to another address" in str(error) and "url" in str(error)
    assert len(script.paths) == 1
    assert await elsewhere.get("/_requests") == []
