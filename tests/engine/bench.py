"""An engine, the simulator it talks to and the store it writes, in one process and without Ray."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hab_ray.calls import Call, ChatCall, Message, Params, Role
from hab_ray.catalog.models import Limits, ModelEntry, Purpose, UsdPrice
from hab_ray.catalog.prices import Mode
from hab_ray.engine.budget.budget import Budget, LocalBudget, OpeningBalance, unlimited
from hab_ray.engine.jobs import Job
from hab_ray.engine.limits.limiter import Limiter
from hab_ray.engine.limits.shared import LocalLimiterClient
from hab_ray.engine.online.engine import OnlineEngine
from hab_ray.engine.online.sender import OnlineContext
from hab_ray.providers import connect
from hab_ray.providers.base import Endpoint
from hab_ray.storage.folder import Folder, LocalFolder
from hab_ray.storage.replies.keyindex import AnsweredKeys
from hab_ray.storage.replies.store import Store, StoreWriter
from hab_simulator import Profile, simulator

PRICE = UsdPrice(input=1.0, output=2.0)


def budget_of(limit: int | None, spent: int = 0) -> Budget:
    """A budget whose marks nobody reads."""
    return Budget(limit, OpeningBalance(spent=spent), keep=lambda _: None)


PLACES = {"openai": "x/sim/v1", "anthropic": "anthropic", "google": "google"}


def chat(model: str, text: str, **fields: Any) -> ChatCall:
    return ChatCall("sim", model, None, "", (Message(Role.USER, text),), Params(200), **fields)


def jobs(calls: Iterable[Call], shard: int = 0) -> list[Job]:
    return [Job(shard, f"row-{n}", call) for n, call in enumerate(calls)]


async def stream(items: Iterable[Job]) -> AsyncIterator[Job]:
    for item in items:
        yield item


def stored(folder: Path, *models: str) -> dict[str, Any]:
    """The outcomes in a store, by key."""
    store = Store(LocalFolder(folder))
    found: dict[str, Any] = {}
    for model in models:
        store.refresh(model)
        found |= store.read(model, list(store.known([model])))
    return found


@dataclass
class Bench:
    """An engine, the simulator it talks to and the store it writes."""

    engine: OnlineEngine
    folder: Path
    url: str

    def stored(self, *models: str) -> dict[str, Any]:
        return stored(self.folder, *models)

    async def meter(self) -> dict[str, Any]:
        def get() -> Any:
            return json.load(urllib.request.urlopen(f"{self.url}/_meter"))

        return dict(await asyncio.to_thread(get))


@asynccontextmanager
async def engine_at(
    url: str,
    tmp_path: Path,
    *models: str,
    limits: Limits | None = None,
    known: AnsweredKeys | None = None,
    guard: Callable[[], None] = lambda: None,
    budget: Budget | None = None,
    epoch: int = 1,
    kind: str = "openai",
    list_size: int = 8,
    make_room: Callable[[], None] = lambda: None,
    folder: Folder | None = None,
) -> AsyncIterator[Bench]:
    """An engine that calls a simulator."""
    limits = limits or Limits(concurrent=20, patience_s=5, timeout_s=10)
    entries = {
        m: ModelEntry(
            provider="sim",
            wire=m,
            purpose=Purpose.EMBEDDING if m == "emb" else Purpose.CHAT,
            price=PRICE,
            list_size=list_size,
        )
        for m in models
    }
    provider = connect(Endpoint("sim", kind, f"{url}/{PLACES[kind]}", "a-key", limits.timeout_s))
    engine = OnlineEngine(
        provider,
        entries,
        StoreWriter(folder or LocalFolder(tmp_path), epoch, "test", Mode.ONLINE),
        known if known is not None else AnsweredKeys(),
        OnlineContext(
            clock=time.monotonic,
            utc_now=lambda: datetime.now(UTC),
            patience_s=limits.patience_s,
            check_lease=guard,
            check_write=guard,
            limiter=LocalLimiterClient(Limiter(dict.fromkeys(models, limits), limits.patience_s), time.monotonic),
            budget=LocalBudget(budget) if budget else unlimited(),
            free_disk_space=make_room,
        ),
    )
    yield Bench(engine, tmp_path, url)
    await provider.close()


@asynccontextmanager
async def bench(
    tmp_path: Path,
    *models: str,
    limits: Limits | None = None,
    known: AnsweredKeys | None = None,
    guard: Callable[[], None] = lambda: None,
    **profile: Any,
) -> AsyncIterator[Bench]:
    """An engine and a simulator of its own, with this profile."""
    async with (
        simulator(Profile.model_validate(profile)) as url,
        engine_at(url, tmp_path, *models, limits=limits, known=known, guard=guard) as bench,
    ):
        yield bench
