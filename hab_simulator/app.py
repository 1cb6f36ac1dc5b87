"""The HTTP server: routes a request to its vendor, decides its fate, meters it, sends what is left of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from time import monotonic

from aiohttp import web

from hab_simulator import control
from hab_simulator.accounts import OPENAI, vendors
from hab_simulator.asks import Ask, Refused, WireAnswer
from hab_simulator.faults import DelayFault, Fault, StatusFault, charges, loses
from hab_simulator.limits import Verdict
from hab_simulator.meter import CallRecord, Outcome, ReceivedRequest, call_label
from hab_simulator.playing import played, route
from hab_simulator.profile import Profile
from hab_simulator.sending import json_response, response, send, serving
from hab_simulator.state import SimulatorState
from hab_simulator.vendor import Route

_NOTHING = WireAnswer(0, b"")


class Server:
    """Answers HTTP requests by the state of one simulator."""

    def __init__(self, state: SimulatorState) -> None:
        self._state = state

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.startswith("/_"):
            return await control.handle(self._state, request)
        found = route(request.path, self._state.profile.kind)
        if found is None:
            return json_response({"error": f"no vendor lives at {request.path}"}, 404)
        place, played = found
        now = datetime.now(UTC).timestamp()
        self._state.meter.requests.append(ReceivedRequest(now, place.account, request.method, place.path))
        if request.method == "GET" and place.path == "models":
            refusal = self._key_refusal(place, request)
            return response(refusal or place.vendor.models(self._state.profile.account(place.account)))
        batches = played.batches if played.is_about_batches(place.path) else None
        if batches is not None and not self._state.profile.account(place.account).batch_api:
            return json_response({"error": {"message": "Not Found"}}, 404)
        if batches is not None:
            refusal = None if played.is_keyless(place.path, request.query) else self._key_refusal(place, request)
            return response(refusal) if refusal else await batches(self._state.batches, place, request)
        meter = self._state.meter
        meter.enter()
        try:
            raw = await request.content.read()
            try:
                ask, headers = self._admit(place, request, raw)
            except Refused as refused:
                self._record(place, refused.model, raw, b"", refused.answer, Outcome.REFUSED)
                return response(refused.answer)
            return await self._serve(place, request, ask, headers, raw)
        finally:
            meter.leave()

    def _key_refusal(self, place: Route, request: web.BaseRequest) -> WireAnswer | None:
        sent = place.vendor.key(request.headers, request.query)
        accepted = self._state.profile.account(place.account).keys
        allowed = bool(sent) and (not accepted or sent in accepted)
        return None if allowed else place.vendor.bad_key(sent)

    def _admit(self, place: Route, request: web.BaseRequest, raw: bytes) -> tuple[Ask, dict[str, str]]:
        """The request if key, body, quota and rate limits are in order, and headers for its answer."""
        vendor, name = place.vendor, place.account
        refusal = self._key_refusal(place, request)
        if refusal is not None:
            raise Refused(refusal)
        account = self._state.profile.account(name)
        try:
            body = json.loads(raw)
        except ValueError:
            raise vendor.no_json(place.path) from None
        ask = vendor.check(place.path, request.headers, account, body)
        if self._state.exhausted(name):
            raise Refused(vendor.no_quota(ask.name), ask.name)
        verdict: Verdict | None = self._state.limiter.take(name, ask.name, ask.model, ask.reserved_tokens)
        if verdict is None:
            return ask, {}
        if not verdict.allowed:
            raise Refused(vendor.too_fast(ask.name, verdict, account.says_retry_after), ask.name)
        return ask, vendor.limit_headers(verdict)

    async def _serve(
        self, place: Route, request: web.BaseRequest, ask: Ask, headers: dict[str, str], raw: bytes
    ) -> web.StreamResponse:
        label = call_label(place.account, place.path, ask.identity)
        attempt = self._state.plan.attempt(label)
        fault = self._state.plan.strike(place.account, ask.name, place.path, label, attempt)
        answer, outcome = self._decide(place, ask, fault)
        if headers:
            answer = replace(answer, headers={**headers, **answer.headers})
        self._record(place, ask.name, raw, label, answer, outcome)
        latency = ask.model.latency or self._state.profile.latency
        wait = latency.seconds(self._state.profile.seed, "latency", label, attempt)
        if isinstance(fault, DelayFault):
            wait += fault.seconds
        if wait:
            await asyncio.sleep(wait)
        self._state.meter.unread += request.transport is None
        return await send(request, answer, fault)

    def _decide(self, place: Route, ask: Ask, fault: Fault | None) -> tuple[WireAnswer, Outcome]:
        """The answer and what becomes of it, under this fault."""
        if isinstance(fault, StatusFault):
            return place.vendor.fault(fault.status, fault.retry_after_s), Outcome.FAULTED
        if not charges(fault):
            return _NOTHING, Outcome.FAULTED
        answer = place.vendor.reply(self._state.mind, ask)
        self._state.bill(place.account)
        if loses(fault):
            return answer, Outcome.LOST
        self._state.hear(answer.exchange)
        return answer, Outcome.BILLED

    def _record(self, place: Route, model: str, raw: bytes, label: bytes, answer: WireAnswer, outcome: Outcome) -> None:
        call = CallRecord(
            number=len(self._state.meter.calls) + 1,
            account=place.account,
            model=model,
            path=place.path,
            digest=sha256(raw).digest(),
            status=answer.status or None,
            outcome=outcome,
            label=label,
            body=raw if self._state.profile.keep_bodies else None,
        )
        self._state.meter.record(call, answer.bill)


@asynccontextmanager
async def simulator(profile: Profile | None = None, port: int = 0) -> AsyncIterator[str]:
    """Run a simulator in this event loop, on a port of its host (0: a free one); gives its URL.

    It loads what it plays before it listens, so that it outlives a new installation of this package.
    """
    for account in vendors().values():
        played(account.kind or OPENAI)
    settings = profile or Profile()
    state = SimulatorState(settings, monotonic)
    try:
        async with serving(Server(state).handle, settings.host, port) as url:
            yield url
    finally:
        state.close()
