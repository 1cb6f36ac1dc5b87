"""An engine, the simulator it talks to and the store it writes, in one process and without Ray."""

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from hab_ray.calls import Call, ChatCall, Message, Params, Role
from hab_ray.catalog.base import LaterPrice, UsdPrice
from hab_ray.catalog.models import Limits, ModelEntry, Purpose
from hab_ray.catalog.prices import Mode
from hab_ray.engine.budget.budget import Budget, LocalBudget, OpeningBalance, unlimited
from hab_ray.engine.clock import utc_now
from hab_ray.engine.jobs import Counters, Job
from hab_ray.engine.jobs import stream as stream
from hab_ray.engine.limits.shared import LocalLimiterClient
from hab_ray.engine.online.engine import OnlineEngine
from hab_ray.engine.online.reply_writer import OnDurable
from hab_ray.engine.online.sender import SharedServices
from hab_ray.providers import connect
from hab_ray.providers.base import Endpoint
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.replies.keyindex import AnsweredKeys
from hab_ray.storage.replies.store import Store, StoreWriter
from hab_simulator import Profile, simulator
from hab_simulator.sending import serving

PRICE = UsdPrice(input=1.0, output=2.0)


def budget_of(limit: int | None, spent: int = 0) -> Budget:
    """A budget whose marks are dropped."""
    return Budget(limit, OpeningBalance(spent=spent), keep=lambda _: None)


PLACES = {"openai": "x/sim/v1", "anthropic": "anthropic", "google": "google"}


def chat(model: str, text: str, **fields: Any) -> ChatCall:
    return ChatCall("sim", model, None, "", (Message(Role.USER, text),), Params(200), **fields)


def completion(usage: Any, text: str = "Yes.") -> dict[str, Any]:
    """The body of an answer to a chat call."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"model": "a", "choices": [choice], "usage": usage}


def jobs(calls: Iterable[Call], shard: int = 0) -> list[Job]:
    return [Job(shard, f"row-{n}", call) for n, call in enumerate(calls)]


def stored(folder: Path, *models: str) -> dict[str, Any]:
    """The outcomes in a store, by key."""
    store = Store(LocalFolder(folder))
    found: dict[str, Any] = {}
    for model in models:
        store.refresh(model)
        found |= store.read(model, list(store.known([model])))
    return found


async def seen_by(url: str, what: str) -> Any:
    """What a simulator says of the calls, requests or batches it got, or of its meter."""
    return await asyncio.to_thread(lambda: json.load(urllib.request.urlopen(f"{url}/{what}")))


@dataclass
class HeldLease:
    """A lease that may change hands, and is held until `problem` is set."""

    problem: Exception | None = None
    is_locked: bool = False

    def check(self) -> None:
        if self.problem:
            raise self.problem


@dataclass
class Bench:
    """An engine, the simulator it talks to and the store it writes."""

    engine: OnlineEngine
    folder: Path
    url: str

    def stored(self, *models: str) -> dict[str, Any]:
        return stored(self.folder, *models)

    async def complete(self, calls: Iterable[Call]) -> Counters:
        """Complete these calls, close the engine and return its counters."""
        async with asyncio.timeout(60), self.engine:
            await self.engine.complete(stream(jobs(calls)))
        return self.engine.snapshot()

    async def meter(self) -> dict[str, Any]:
        return dict(await seen_by(self.url, "_meter"))


@asynccontextmanager
async def engine_at(
    url: str,
    tmp_path: Path,
    *models: str,
    limits: Limits | None = None,
    known: AnsweredKeys | None = None,
    lease: HeldLease | None = None,
    budget: Budget | None = None,
    epoch: int = 1,
    kind: str = "openai",
    list_size: int = 8,
    reports: tuple[str, ...] | None = None,
    make_room: Callable[[], None] = lambda: None,
    on_durable: OnDurable | None = None,
    later: tuple[LaterPrice, ...] = (),
    today: Callable[[], datetime] = utc_now,
) -> AsyncIterator[Bench]:
    """An engine that calls a simulator."""
    limits = limits or Limits(concurrent=20, patience_s=5, timeout_s=10)
    entries = {
        m: ModelEntry(
            provider="sim",
            wire=m,
            purpose=Purpose.EMBEDDING if m == "emb" else Purpose.CHAT,
            price=PRICE,
            later=later,
            list_size=list_size,
            reports=reports,
        )
        for m in models
    }
    provider = connect(Endpoint("sim", kind, f"{url}/{PLACES[kind]}", "a-key", limits.timeout_s))
    limiter = LocalLimiterClient(dict.fromkeys(models, limits), limits.patience_s)
    engine = OnlineEngine(
        provider,
        entries,
        StoreWriter(LocalFolder(tmp_path), epoch, "test", Mode.ONLINE),
        known if known is not None else AnsweredKeys(),
        SharedServices(limiter, LocalBudget(budget) if budget else unlimited(), lease or HeldLease(), today=today),
        limits.patience_s,
        make_room,
        on_durable,
    )
    yield Bench(engine, tmp_path, url)
    await provider.close()


@asynccontextmanager
async def bench(
    tmp_path: Path,
    *models: str,
    limits: Limits | None = None,
    known: AnsweredKeys | None = None,
    lease: HeldLease | None = None,
    **profile: Any,
) -> AsyncIterator[Bench]:
    """An engine and its own simulator with this profile."""
    async with (
        simulator(Profile.model_validate(profile)) as url,
        engine_at(url, tmp_path, *models, limits=limits, known=known, lease=lease) as bench,
    ):
        yield bench


Told = tuple[int, object, dict[str, str]]


@asynccontextmanager
async def engine_before(
    answering: Callable[[dict[str, Any]], Told], folder: Path, limits: Limits, budget: Budget | None = None
) -> AsyncIterator[Bench]:
    """An engine and a vendor whose answers (status, body, headers) a function computes from request bodies."""

    async def handle(request: web.BaseRequest) -> web.Response:
        status, body, headers = answering(json.loads(await request.read()))
        text = body if isinstance(body, str) else json.dumps(body)
        kind = "text/html" if isinstance(body, str) else "application/json"
        return web.Response(status=status, text=text, content_type=kind, headers=headers)

    async with serving(handle) as url, engine_at(url, folder, "a", "emb", limits=limits, budget=budget) as bench:
        yield bench
