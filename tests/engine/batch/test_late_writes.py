"""The lease ends just before a create request is written: no batch is created, and none is searched for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hab_ray.engine.batch.components import Components
from hab_ray.engine.batch.create import Creator
from hab_ray.engine.batch.rows import BatchInFlight, Request
from hab_ray.engine.batch.send import Sender
from hab_ray.engine.batch.states import AtVendor, Closed, Funded
from hab_ray.engine.ledger import Lines
from hab_ray.errors import Interrupted, LeaseLost, LeaseStale
from hab_ray.providers import connect, connect_batch
from hab_ray.providers.base import Endpoint
from hab_ray.providers.batching import BatchApi
from hab_simulator import Profile, simulator
from tests.engine.batch.fakes import ENTRY, KEYS, components_of, context_of, intent, told
from tests.engine.bench import PLACES, chat, seen_by


@dataclass
class Lease:
    """A lease that raises `problem` when the `refused`-th piece of a create request is written, and `ends` with it."""

    problem: Exception
    ends: bool
    refused: int = 1
    sender: Sender | None = None
    pieces: int = 0

    def guard(self) -> None:
        is_piece = self.sender is not None and self.sender.creating is not None
        self.pieces += is_piece
        if (is_piece and self.pieces == self.refused) or (self.ends and self.pieces >= self.refused):
            raise self.problem


@dataclass
class Account:
    """A simulated vendor and its connections."""

    api: BatchApi
    lines: Lines
    path: str
    url: str

    async def batches(self) -> int:
        return len(await seen_by(self.url, "_batches"))

    async def create(self, folder: Path, lease: Lease) -> tuple[Components, BatchInFlight]:
        """Create a batch of one call as far as the lease permits."""
        components = components_of(folder, self.api, context=context_of(guard=lease.guard))
        lease.sender = Sender(components)
        meant = intent("tag").model_copy(update={"wire": "a", "path": self.path, "rows": 1})
        request = Request(self.lines, meant)
        creator, batch = Creator(components, lease.sender), BatchInFlight("m", Funded(), nanousd=100, request=request)
        creator.allow_new()
        assert await components.budget.reserve(100) is None
        try:
            await creator.create(batch)
        except (Interrupted, LeaseLost) as error:
            assert error is lease.problem
        return components, batch


@asynccontextmanager
async def account(kind: str) -> AsyncIterator[Account]:
    async with simulator(Profile.model_validate({})) as url:
        endpoint = Endpoint("sim", kind, f"{url}/{PLACES[kind]}", "a-key", 10)
        provider, api = connect(endpoint), connect_batch(endpoint)
        wire = provider.chat(chat("a", "Should I sell my house?"), ENTRY.model_copy(update={"wire": "a"}))
        yield Account(api, Lines(api.line(KEYS[0], wire) + b"\n", bytes.fromhex(KEYS[0] + "ef" * 32)), wire.path, url)
        await provider.close()
        await api.close()


@pytest.mark.parametrize("kind", PLACES)
async def test_a_lost_lease_keeps_a_create_request_back_as_it_is_written(kind: str, tmp_path: Path) -> None:
    async with account(kind) as vendor:
        components, _ = await vendor.create(tmp_path, Lease(LeaseLost("taken over"), ends=True))
        assert await vendor.batches() == 0
    assert told(components) == ["intent"]


@pytest.mark.parametrize("kind", PLACES)
async def test_a_batch_refused_at_its_write_by_a_stale_lease_is_made_once(kind: str, tmp_path: Path) -> None:
    async with account(kind) as vendor:
        lease = Lease(LeaseStale("not renewed"), ends=False)
        components, batch = await vendor.create(tmp_path, lease)
        assert isinstance(batch.state, AtVendor) and await vendor.batches() == 1
    assert lease.pieces > 1 and told(components) == ["intent", "submitted"] and not components.counters.notes


@pytest.mark.parametrize("kind", PLACES)
async def test_a_batch_that_an_interrupt_refuses_at_its_write_is_closed(kind: str, tmp_path: Path) -> None:
    async with account(kind) as vendor:
        components, batch = await vendor.create(tmp_path, Lease(Interrupted("stopped"), ends=True))
        assert await vendor.batches() == 0 and batch.state == Closed()
    assert told(components) == ["intent", "ended", "harvested"]
    assert components.budget.in_batches == components.budget.reserved == components.budget.spent == 0


async def test_a_lease_that_ends_within_a_create_request_breaks_it_off(tmp_path: Path) -> None:
    """The rows are part of the create request itself."""
    async with account("anthropic") as vendor:
        lease = Lease(LeaseLost("taken over"), ends=True, refused=2)
        components, _ = await vendor.create(tmp_path, lease)
        assert await vendor.batches() == 0 and lease.pieces >= 2
    assert told(components) == ["intent"]
