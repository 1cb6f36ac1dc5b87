"""What a run keeps of the rows that go out in waves, so that its next process goes on where this one was.

    cells/<stage>/<model>/<epoch>-<order>-<n>.json      the population of the n-th stream of a dispatch, see `Kept`

A key's place in the random order is a hash of the run's seed, the `draw` of its population, and the key: a process
draws anew, but for keys of a population under way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from hab_ray.catalog.models import Model, folder_name
from hab_ray.catalog.prices import Mode, Price, rate
from hab_ray.engine.batch.cells import Cell, Progress
from hab_ray.storage.folder import Folder

CELLS = "cells"


@dataclass(frozen=True)
class Population:
    """The rows of some spools in the order in which `sampled` brings them: the key of each call, the most bytes that
    one is expected to take as a line of a batch, and the most that it can cost so, in nano-dollars.
    """

    keys: Sequence[str]
    line_bytes: int
    cap: int


class Kept(BaseModel):
    """A population, drawn by the process of epoch `draw`, at this price."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    draw: int
    price: Price
    cap: int
    line_bytes: int
    progress: Progress

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        progress = self.progress
        if not len(progress.costs) <= progress.sent <= len(progress.keys) or progress.largest < 0:
            raise ValueError("more rows were seen or sent than there are")
        if not 0 < progress.share <= 1 or not all(0 <= cost <= self.cap for cost in progress.costs):
            raise ValueError("no row costs so much, or no run takes such a risk")
        return self

    @classmethod
    def begun(cls, draw: int, price: Price, found: Population, share: float) -> Kept:
        """A population of which nothing was sent."""
        progress = Progress((), largest=0, share=share)
        return cls(draw=draw, price=price, cap=found.cap, line_bytes=found.line_bytes, progress=progress)


@dataclass(frozen=True)
class Cells:
    """The populations of a stage and model in a run's folder."""

    folder: Folder
    stage: str
    model: Model

    @property
    def price(self) -> Price:
        """What the model's tokens cost by batch now."""
        return rate(self.model.entry, Mode.BATCH)

    @property
    def _prefix(self) -> str:
        return f"{CELLS}/{folder_name(self.stage)}/{folder_name(self.model.name)}"

    def keep(self, name: str, kept: Kept) -> None:
        """Have a population replace what was kept under this name."""
        self.folder.put(f"{self._prefix}/{name}.json", kept.model_dump_json().encode())

    def cell(self, name: str, keys: Sequence[str], new: Kept, before: Kept | None, risk: float) -> Cell:
        """These keys as a cell, kept under this name: as that which was kept before, else as a new population.

        At another price than before nothing that rows have cost tells what the rest costs.
        """
        of = before or new
        return Cell(
            keys,
            cap=of.cap if of.price == new.price else 0,
            line_bytes=of.line_bytes,
            risk=risk,
            share=new.progress.share,
            keep=lambda progress: self.keep(name, of.model_copy(update={"progress": progress})),
            before=before.progress if before else None,
        )

    def kept(self) -> list[Kept]:
        """All populations, the newest first. One that cannot be read is none: its rows are drawn anew."""
        found = []
        for name in sorted(self.folder.list(self._prefix), reverse=True):
            try:
                found.append(Kept.model_validate_json(self.folder.get(name)))
            except (ValidationError, FileNotFoundError):
                continue
        return found


def parted(keys: Sequence[str], kept: Sequence[Kept]) -> list[tuple[Sequence[str], Kept | None]]:
    """Keys by the newest population that has them, and those of none, each in the order given."""
    owners: dict[str, int] = {}
    for number, population in enumerate(kept):
        for key in population.progress.keys:
            owners.setdefault(key, number)
    parts: dict[int | None, list[str]] = {}
    for key in keys:
        parts.setdefault(owners.get(key), []).append(key)
    return [(part, None if owner is None else kept[owner]) for owner, part in parts.items()]


def ranks(seed: int, epoch: int, kept: Sequence[Kept]) -> Callable[[str], bytes]:
    """The places of keys in the random order of a process."""
    draws: dict[str, int] = {}
    for population in kept:
        for key in population.progress.keys:
            draws.setdefault(key, population.draw)
    return partial(_rank, seed, epoch, draws)


def _rank(seed: int, epoch: int, draws: dict[str, int], key: str) -> bytes:
    return sha256(f"{seed} {draws.get(key, epoch)} {key}".encode()).digest()
