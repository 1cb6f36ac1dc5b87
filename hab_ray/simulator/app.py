"""The HTTP server: routes a request to its vendor, decides its fate, meters it, sends what is left of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from aiohttp import web

from hab_ray.simulator import control
from hab_ray.simulator.answers import Mind
from hab_ray.simulator.asks import Answer, Ask, Refused
from hab_ray.simulator.batch.clock import VendorClock
from hab_ray.simulator.batch.desk import Desk
from hab_ray.simulator.batch.jobs import Job
from hab_ray.simulator.batch.routes import handler, keyless
from hab_ray.simulator.batch.spool import Entry
from hab_ray.simulator.faults import DelayFault, Fault, FaultPlan, StatusFault, charges, loses
from hab_ray.simulator.limits import Limiter, Verdict
from hab_ray.simulator.meter import CallRecord, Meter, Outcome, Request, call_label
from hab_ray.simulator.planted import Ledger, Truth
from hab_ray.simulator.profile import Profile
from hab_ray.simulator.sending import json_response, response, send
from hab_ray.simulator.vendor import Route, route

_NOTHING = Answer(0, b"")


class Simulator:
    """The state of one simulator and its request handler. `clock` gives monotonic seconds."""

    def __init__(self, profile: Profile, clock: Callable[[], float] = monotonic) -> None:
        self.profile = profile
        self._clock = clock
        self._folder = TemporaryDirectory(prefix="hab-simulator-", dir=profile.folder)
        self._vendor_clock = VendorClock.start(datetime.now(UTC).timestamp(), profile.speed, clock)
        self._begin()

    def reset(self) -> None:
        """Forget everything and go back to the profile; the vendor's clock goes on."""
        self.desk.close()
        self._begin()

    def close(self) -> None:
        """End the batches and delete what is on disk."""
        self.desk.close()
        self._folder.cleanup()

    def _begin(self) -> None:
        seed = self.profile.seed
        self.meter = Meter(self._clock)
        self.plan = FaultPlan(seed, self.profile.faults)
        self.mind = Mind(seed, Truth.of(seed, self.profile.planted))
        self.ledger = Ledger()
        self.quota = {name: account.quota_calls for name, account in self.profile.accounts.items()}
        self._limiter = Limiter(self._clock, lambda: datetime.now(UTC))
        self._billed: Counter[str] = Counter()
        folder = Path(self._folder.name) / "batches"
        self.desk = Desk(
            self.profile, self.mind, self._vendor_clock, folder, self.meter, self._charge_line, self._exhausted
        )

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request."""
        if request.path.startswith("/_"):
            return await control.handle(self, request)
        place = route(request.path, self.profile.kind)
        if place is None:
            return json_response({"error": f"no vendor lives at {request.path}"}, 404)
        now = datetime.now(UTC).timestamp()
        self.meter.requests.append(Request(now, place.account, request.method, place.path))
        if request.method == "GET" and place.path == "models":
            refusal = self._key_refusal(place, request)
            return response(refusal or place.vendor.models(self.profile.account(place.account)))
        batches = handler(place)
        if batches is not None and not self.profile.account(place.account).batch_api:
            return json_response({"error": {"message": "Not Found"}}, 404)
        if batches is not None:
            refusal = None if keyless(place, request) else self._key_refusal(place, request)
            return response(refusal) if refusal else await batches(self.desk, place, request)
        meter = self.meter
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

    def _key_refusal(self, place: Route, request: web.BaseRequest) -> Answer | None:
        sent = place.vendor.key(request.headers, request.query)
        accepted = self.profile.account(place.account).keys
        allowed = bool(sent) and (not accepted or sent in accepted)
        return None if allowed else place.vendor.bad_key(sent)

    def _admit(self, place: Route, request: web.BaseRequest, raw: bytes) -> tuple[Ask, dict[str, str]]:
        """The request if key, body, quota and rate limits are in order, and headers for its answer."""
        vendor, name = place.vendor, place.account
        refusal = self._key_refusal(place, request)
        if refusal is not None:
            raise Refused(refusal)
        account = self.profile.account(name)
        ask = vendor.read(place.path, request.headers, account, raw)
        if self._exhausted(name):
            raise Refused(vendor.no_quota(ask.name), ask.name)
        verdict: Verdict | None = self._limiter.take(name, ask.name, ask.model, ask.reserved_tokens)
        if verdict is None:
            return ask, {}
        if not verdict.allowed:
            raise Refused(vendor.too_fast(ask.name, verdict, account.says_retry_after), ask.name)
        return ask, vendor.limit_headers(verdict)

    def _exhausted(self, account: str) -> bool:
        quota = self.quota.get(account)
        return quota is not None and self._billed[account] >= quota

    async def _serve(
        self, place: Route, request: web.BaseRequest, ask: Ask, headers: dict[str, str], raw: bytes
    ) -> web.StreamResponse:
        label = call_label(place.account, place.path, ask.identity)
        attempt = self.plan.attempt(label)
        fault = self.plan.strike(place.account, ask.name, place.path, label, attempt)
        answer, outcome = self._decide(place, ask, fault)
        if headers:
            answer = replace(answer, headers={**headers, **answer.headers})
        self._record(place, ask.name, raw, label, answer, outcome)
        latency = ask.model.latency or self.profile.latency
        wait = latency.seconds(self.profile.seed, "latency", label, attempt)
        if isinstance(fault, DelayFault):
            wait += fault.seconds
        if wait:
            await asyncio.sleep(wait)
        return await send(request, answer, fault)

    def _decide(self, place: Route, ask: Ask, fault: Fault | None) -> tuple[Answer, Outcome]:
        """The answer and what becomes of it, under this fault."""
        if isinstance(fault, StatusFault):
            return place.vendor.fault(fault.status, fault.retry_after_s), Outcome.FAULTED
        if not charges(fault):
            return _NOTHING, Outcome.FAULTED
        answer = place.vendor.reply(self.mind, ask)
        self._billed[place.account] += 1
        if loses(fault):
            return answer, Outcome.LOST
        if answer.sighting is not None:
            self.ledger.add(answer.sighting)
        return answer, Outcome.BILLED

    def _charge_line(self, job: Job, entry: Entry) -> None:
        """Count a line of a batch that was done, charged and delivered."""
        if entry.bill is not None:
            self._billed[job.account] += 1
            self.meter.record_line(job.account, entry.path, entry.model, entry.label, entry.bill)
        if entry.sighting is not None:
            self.ledger.add(entry.sighting)

    def _record(self, place: Route, model: str, raw: bytes, label: bytes, answer: Answer, outcome: Outcome) -> None:
        call = CallRecord(
            number=len(self.meter.calls) + 1,
            account=place.account,
            model=model,
            path=place.path,
            digest=sha256(raw).digest(),
            status=answer.status or None,
            outcome=outcome,
            label=label,
            body=raw if self.profile.keep_bodies else None,
        )
        self.meter.record(call, answer.bill)


@asynccontextmanager
async def serve(profile: Profile, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Run a simulator in this event loop; gives its URL."""
    simulator = Simulator(profile)
    server = web.Server(simulator.handle, access_log=None)
    runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=0.2)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=4096).start()
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
        simulator.close()
