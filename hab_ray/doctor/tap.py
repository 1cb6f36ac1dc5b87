"""A proxy on this machine that forwards requests to vendors and records the exchanges.

Clients get its address instead of the vendor's and need no change, so it also records clients of other distributions.
It forwards bodies unchanged and holds each in memory.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from hab_ray.catalog.addresses import ONE_HOP
from hab_ray.errors import ConfigError
from hab_ray.providers.access import proxy_bypassed
from hab_ray.providers.base import NO_KEY, Endpoint
from hab_ray.providers.http import new_session
from hab_ray.providers.redaction import Redactor
from hab_ray.visible import one_line

FORMAT = "hab-doctor-1"


@dataclass(frozen=True)
class Exchange:
    """One HTTP exchange, redacted.

    `label` names its question, `account` the simulator's account that stands in for the provider. `path` is relative to
    the provider's URL. Without an answer `status` is None and `problem` says why.
    """

    label: str
    provider: str
    account: str
    method: str
    path: str
    request_headers: Mapping[str, str]
    request: str
    status: int | None
    headers: Mapping[str, str]
    body: str
    seconds: float
    problem: str = ""


def refuse_unwritable_file(path: Path) -> None:
    """Raise ConfigError if a file of exchanges cannot be written, before any request is sent."""
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path}: cannot write the exchanges, since this is not a file; name another by --out")
        _part(path).write_text("", "utf-8")
        _part(path).unlink()
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        problem = f"{path}: cannot write the exchanges ({cause}); nothing was sent"
        raise ConfigError(one_line(f"{problem}; name a file in a writable folder by --out")) from None


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def write_exchanges(path: Path, about: Mapping[str, str], exchanges: Iterable[Exchange]) -> None:
    """Write a file of exchanges atomically."""
    lines = [json.dumps({"format": FORMAT, **about})]
    lines += [json.dumps(asdict(exchange)) for exchange in exchanges]
    part = _part(path)
    part.write_text("\n".join(lines) + "\n", "utf-8")
    part.replace(path)


_UNSENT = ONE_HOP | {"accept-encoding"}
_RECODED = _UNSENT | {"content-encoding"}
_UPLOAD_URL = "x-goog-upload-url"
_UPLOADS = "uploads"
_HOST = "127.0.0.1"
_QUIET_S, _MAX_S = 0.1, 10.0


@dataclass(frozen=True)
class Tapped:
    """An endpoint as one question calls it."""

    label: str
    account: str
    endpoint: Endpoint
    redactor: Redactor


@dataclass
class Tap:
    """Records the requests at its addresses, one per question. `tapping()` runs one."""

    _session: aiohttp.ClientSession
    base_url: str = ""
    _tapped: list[Tapped] = field(default_factory=list)
    _uploads: list[str] = field(default_factory=list)
    _exchanges: list[Exchange] = field(default_factory=list)
    _in_flight: Counter[str] = field(default_factory=Counter)
    _last: dict[str, float] = field(default_factory=dict)

    @property
    def exchanges(self) -> Sequence[Exchange]:
        """All exchanges so far, in the order of the answers."""
        return tuple(self._exchanges)

    def address(self, label: str, account: str, endpoint: Endpoint) -> str:
        """Return the address that forwards to an endpoint and records under this label."""
        secrets = [value for value in (endpoint.key, *endpoint.headers.values()) if value != NO_KEY]
        self._tapped.append(Tapped(label, account, endpoint, Redactor(secrets)))
        return f"{self.base_url}/{len(self._tapped) - 1}"

    async def quiet(self, label: str) -> None:
        """Wait until there have been no requests under a label for `_QUIET_S`, at most `_MAX_S`."""
        end = time.monotonic() + _MAX_S
        while time.monotonic() < end:
            if not self._in_flight[label] and time.monotonic() - self._last.get(label, 0.0) >= _QUIET_S:
                return
            await asyncio.sleep(_QUIET_S / 4)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        number, _, below = request.path_qs.lstrip("/").partition("/")
        if not number.isdecimal() or int(number) >= len(self._tapped):
            return web.Response(status=404, text="no such address")
        tapped = self._tapped[int(number)]
        self._in_flight[tapped.label] += 1
        try:
            return await self._handle(request, tapped, f"{self.base_url}/{number}", below)
        finally:
            self._in_flight[tapped.label] -= 1
            self._last[tapped.label] = time.monotonic()

    async def _handle(self, request: web.BaseRequest, tapped: Tapped, address: str, below: str) -> web.StreamResponse:
        url, is_other_host = self._target(tapped, below)
        withheld = {name.lower() for name in tapped.endpoint.headers} if is_other_host else set()
        sent = {name: value for name, value in request.headers.items() if name.lower() not in _UNSENT | withheld}
        content = await request.content.read()  # `read()` refuses more than 1 MiB
        started = time.monotonic()
        try:
            async with asyncio.timeout(tapped.endpoint.timeout_s):
                answer = await self._forward(request.method, url, sent, content)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._record(tapped, request, url, content, None, time.monotonic() - started, str(error) or "no answer")
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        self._record(tapped, request, url, content, answer, time.monotonic() - started)
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in _RECODED}
        return web.Response(status=answer.status, body=answer.body, headers=self._redirect_upload(address, headers))

    async def _forward(self, method: str, url: str, headers: Mapping[str, str], content: bytes) -> _TappedAnswer:
        request = self._session.request(
            method, url, data=content or None, headers=headers, allow_redirects=False, skip_auto_headers=["User-Agent"]
        )
        async with request as response:
            return _TappedAnswer(response.status, response.headers, await response.read())

    def _target(self, tapped: Tapped, below: str) -> tuple[str, bool]:
        """Return the URL to forward to, and whether its host is not the endpoint's."""
        first, _, number = below.partition("/")
        if first == _UPLOADS and number.isdecimal() and int(number) < len(self._uploads):
            url = self._uploads[int(number)]
            return url, urlsplit(url).netloc != urlsplit(tapped.endpoint.url).netloc
        return f"{tapped.endpoint.url.rstrip('/')}/{below}", False

    def _redirect_upload(self, address: str, headers: dict[str, str]) -> dict[str, str]:
        """Replace the URL that the vendor gives for an upload by an address of the tap."""
        for name, value in headers.items():
            if name.lower() == _UPLOAD_URL:
                self._uploads.append(value)
                return headers | {name: f"{address}/{_UPLOADS}/{len(self._uploads) - 1}"}
        return headers

    def _record(
        self,
        tapped: Tapped,
        request: web.BaseRequest,
        url: str,
        content: bytes,
        answer: _TappedAnswer | None,
        seconds: float,
        problem: str = "",
    ) -> None:
        redactor = tapped.redactor
        headers = redactor.headers(answer.headers) if answer else {}
        if answer and _UPLOAD_URL in headers:
            headers[_UPLOAD_URL] = _below(tapped.endpoint.url, redactor.path(answer.headers[_UPLOAD_URL]))
        self._exchanges.append(
            Exchange(
                label=tapped.label,
                provider=tapped.endpoint.name,
                account=tapped.account,
                method=request.method,
                path=_below(tapped.endpoint.url, redactor.path(url)),
                request_headers=redactor.headers(request.headers),
                request=redactor.text(content.decode("utf-8", "replace")),
                status=answer.status if answer else None,
                headers=headers,
                body=redactor.text(answer.body.decode("utf-8", "replace")) if answer else "",
                seconds=round(seconds, 3),
                problem=redactor.text(problem),
            )
        )


@dataclass(frozen=True)
class _TappedAnswer:
    status: int
    headers: Mapping[str, str]
    body: bytes


def _below(base: str, path: str) -> str:
    """Return a path relative to an endpoint's URL."""
    prefix = urlsplit(base).path.rstrip("/")
    return path.removeprefix(prefix).lstrip("/")


@asynccontextmanager
async def tapping() -> AsyncIterator[Tap]:
    """Run a tap that listens on localhost only, until the end of the block."""
    with proxy_bypassed(_HOST):
        async with new_session(timeout=aiohttp.ClientTimeout(total=None)) as session:
            tap = Tap(session)
            server = web.Server(tap.handle, access_log=None)
            runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=0.2)
            await runner.setup()
            try:
                await web.TCPSite(runner, _HOST, 0).start()
                tap.base_url = f"http://{_HOST}:{runner.addresses[0][1]}"
                yield tap
            finally:
                await runner.cleanup()
