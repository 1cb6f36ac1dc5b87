"""Serves recorded exchanges again: the same answers to the same requests.

A file is JSON lines, as `hab doctor --live` writes it: a head with its format, then an exchange each. A request is
matched by account, method, path and body. Where a body is told by what was asked before (files and batches), the next
one recorded at that path is taken, and at the end the last once more. Names that a client makes anew for each batch or
request (tags, custom ids, codes of fences) count as the same, and answers carry those of the present request.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from hab_simulator.sending import serving
from hab_simulator.settings import first_problem

FORMAT = "hab-doctor-1"
UNRECORDED = "x-hab-unrecorded"
_MADE_ANEW = re.compile(r"hab-[0-9a-f]{24}|\b[0-9a-f]{64}\b|\b[0-9a-f]{16}\b|\(\d{10,}\)")
_IN_ORDER = re.compile(r"(^|/)(files|batches|upload)\b|atch\w*Content$")
_BOUNDARY = re.compile(r"^--[\w-]{16,}(--)?\r?$", re.M)
_MULTIPART = re.compile(r"^content-[\w-]+: .*\r?$", re.I | re.M)
# What belongs to the recorded connection.
_NOT_SENT = {"content-length", "content-encoding", "transfer-encoding", "connection", "date", "server", "keep-alive"}
_UPLOAD_URL = "x-goog-upload-url"
_MAX_SHOWN = 200


class Recorded(BaseModel):
    """One exchange of a file; see the doctor's own record for what its fields mean."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    account: str
    method: str
    path: str
    request: str
    status: int | None
    headers: dict[str, str]
    body: str


class RecordingUnusable(ValueError):
    """A file that cannot be served; the message says which line, and why."""


def load_recording(path: Path) -> list[Recorded]:
    """Read a file of exchanges.

    Raises:
        RecordingUnusable: it is none.
        OSError, UnicodeDecodeError: it cannot be read.
    """
    return parse_recording(path.read_text("utf-8"))


def parse_recording(text: str) -> list[Recorded]:
    """The exchanges in the text of such a file.

    Raises:
        RecordingUnusable: it is none.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    try:
        head = json.loads(lines[0])["format"] if lines else None
    except (ValueError, LookupError, TypeError, RecursionError):
        head = None
    if head != FORMAT:
        raise RecordingUnusable(f"it is no file of exchanges (its first line must say format {FORMAT})")
    found = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            found.append(Recorded.model_validate_json(line))
        except ValidationError as error:
            where, problem, _ = first_problem(error)
            raise RecordingUnusable(f"line {number}: {where or 'the line'}: {problem}") from None
    return found


@dataclass
class _Place:
    """The exchanges of one account, method and path, and how many answers were given there."""

    recorded: list[Recorded] = field(default_factory=list)
    left: list[int] = field(default_factory=list)

    def add(self, exchange: Recorded) -> None:
        self.left.append(len(self.recorded))
        self.recorded.append(exchange)

    def next(self, body: str) -> Recorded | None:
        wanted = canonical(body)
        same = [number for number, one in enumerate(self.recorded) if canonical(one.request) == wanted]
        fitting = same or (range(len(self.recorded)) if _IN_ORDER.search(self.recorded[0].path) else [])
        left = [number for number in fitting if number in self.left]
        if left:
            self.left.remove(left[0])
        return self.recorded[left[0] if left else fitting[-1]] if fitting else None


class Replay:
    """Answers HTTP requests from a recording."""

    def __init__(self, recorded: list[Recorded]) -> None:
        self._places: defaultdict[tuple[str, str, str], _Place] = defaultdict(_Place)
        for exchange in recorded:
            self._places[exchange.account, exchange.method, _known(exchange.path)].add(exchange)
        self._accounts = sorted({exchange.account for exchange in recorded}, key=len, reverse=True)
        self._names: dict[str, str] = {}

    @property
    def accounts(self) -> list[str]:
        """The accounts that were asked, as the simulator calls them."""
        return sorted(self._accounts)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = (await request.content.read()).decode("utf-8", "replace")  # `read()` refuses more than 1 MiB
        back = {new: old for old, new in self._names.items()}
        for account, path in self._below(request.path_qs):
            place = self._places.get((account, request.method, _renamed(_known(path), back)))
            exchange = place.next(body) if place else None
            if exchange is not None:
                self._names |= _pairs(exchange.request, body)
                return self._answer(exchange, account, request)
        said = f"nothing was recorded of {request.method} {request.path_qs[:_MAX_SHOWN]}"
        return web.json_response({"error": {"message": said}}, status=404, headers={UNRECORDED: "yes"})

    def _below(self, path: str) -> Iterator[tuple[str, str]]:
        """The accounts a path may be of, and what is below their URL, which may end in a version."""
        for account in self._accounts:
            prefix = f"/{account}/"
            if path.startswith(prefix):
                below = path.removeprefix(prefix)
                yield account, below
                yield account, below.removeprefix("v1/")

    def _answer(self, exchange: Recorded, account: str, request: web.BaseRequest) -> web.StreamResponse:
        if exchange.status is None:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        headers = {name: value for name, value in exchange.headers.items() if name.lower() not in _NOT_SENT}
        if _UPLOAD_URL in headers:
            headers[_UPLOAD_URL] = f"http://{request.host}/{account}/{headers[_UPLOAD_URL]}"
        return web.Response(status=exchange.status, body=_renamed(exchange.body, self._names).encode(), headers=headers)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return _MADE_ANEW.sub(lambda found: names.get(found[0], found[0]), text)


def canonical(body: str) -> str:
    """A request's body as it is compared: JSON in one spelling, without what clients make anew each time."""
    try:
        text = json.dumps(json.loads(body), sort_keys=True)
    except ValueError:
        text = _MULTIPART.sub("", _BOUNDARY.sub("", body))
    return _MADE_ANEW.sub("*", text)


def _known(path: str) -> str:
    """A path without the values that a recording hides."""
    bare, _, query = path.partition("?")
    hidden = sorted(name for name, _ in parse_qsl(query, keep_blank_values=True))
    return f"{bare}?{'&'.join(hidden)}" if hidden else bare


def _pairs(recorded: str, asked: str) -> dict[str, str]:
    """What a client made anew, as it was recorded and as it is now, in the order in which both stand."""
    old, new = _MADE_ANEW.findall(recorded), _MADE_ANEW.findall(asked)
    return dict(zip(old, new, strict=True)) if len(old) == len(new) else {}


def replaying(recorded: list[Recorded], port: int = 0, host: str = "127.0.0.1") -> AbstractAsyncContextManager[str]:
    """Serve a recording in this event loop, on a port of a host (0: a free one); gives its URL."""
    return serving(Replay(recorded).handle, host, port)
