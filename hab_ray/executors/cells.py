"""The populations of rows that a run sends in waves, kept in its folder so that its next process can resume them.

    cells/<stage>/<model>/<epoch>-<order>-<n>.json      the n-th stream of a dispatch, see `KeptPopulation`

The random order sorts keys by a hash of the run's seed, the `draw` of the key's population, and the key. Each process
draws a new order, except for keys of an unfinished population.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from hab_ray.catalog.models import Model, folder_name
from hab_ray.catalog.prices import Mode, Price, rate, reserved_rate
from hab_ray.engine.batch.cells import Cell, Progress
from hab_ray.executors.protocol import Spool
from hab_ray.storage.folder import Folder

CELLS = "cells"


class KeptPopulation(BaseModel):
    """The saved state of a population, drawn in epoch `draw` at this price."""

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
            raise ValueError("more rows were seen or sent than exist")
        if not 0 < progress.share <= 1 or not all(0 <= cost <= self.cap for cost in progress.costs):
            raise ValueError("a cost or the share of the risk is out of range")
        return self

    @classmethod
    def new(cls, draw: int, price: Price, spools: Sequence[Spool], share: float) -> KeptPopulation:
        """Create a population of the calls of some spools, of which nothing has been sent."""
        return cls(
            draw=draw,
            price=price,
            cap=max(spool.cap for spool in spools),
            line_bytes=max(spool.line_bytes for spool in spools),
            progress=Progress((), largest=0, share=share),
        )


@dataclass(frozen=True)
class Cells:
    """The saved populations of a stage and model in a run's folder."""

    folder: Folder
    stage: str
    model: Model

    @property
    def price(self) -> Price:
        """The model's price by batch at the start of the process."""
        return rate(self.model.entry, Mode.BATCH)

    @property
    def _prefix(self) -> str:
        return f"{CELLS}/{folder_name(self.stage)}/{folder_name(self.model.name)}"

    def save(self, name: str, population: KeptPopulation) -> None:
        """Write a population under a name, replacing its earlier state."""
        self.folder.put(f"{self._prefix}/{name}.json", population.model_dump_json(exclude_defaults=True).encode())

    def cell(
        self, name: str, keys: Sequence[str], new: KeptPopulation, before: KeptPopulation | None, risk: float
    ) -> Cell:
        """Return these keys as a cell that resumes `before`, or else begins `new`, and saves itself under `name`.

        At another price than before, or soon, the cost of earlier rows says nothing about the rest, so the cap is 0.
        """
        population, reserved = before or new, reserved_rate(self.model.entry, Mode.BATCH)
        return Cell(
            keys,
            cap=population.cap if population.price == new.price == reserved else 0,
            price=new.price,
            line_bytes=population.line_bytes,
            risk=risk,
            share=new.progress.share,
            keep=lambda progress: self.save(name, population.model_copy(update={"progress": progress})),
            before=before.progress if before else None,
        )

    def populations(self) -> list[KeptPopulation]:
        """Read all populations, the newest first. Unreadable ones are skipped, so their rows are drawn anew."""
        found = []
        for name in sorted(self.folder.list(self._prefix), reverse=True):
            with suppress(ValidationError, FileNotFoundError):
                found.append(KeptPopulation.model_validate_json(self.folder.get(name)))
        return found


def _owners(populations: Sequence[KeptPopulation]) -> dict[str, KeptPopulation]:
    newest_last = reversed(populations)
    return {key: population for population in newest_last for key in population.progress.keys}


def split_by_population(
    keys: Sequence[str], populations: Sequence[KeptPopulation]
) -> list[tuple[Sequence[str], KeptPopulation | None]]:
    """Group keys by the newest population that has them, and None; the order of keys in a group is kept."""
    owners = _owners(populations)
    groups: dict[int, tuple[list[str], KeptPopulation | None]] = {}
    for key in keys:
        owner = owners.get(key)
        groups.setdefault(id(owner), ([], owner))[0].append(key)
    return list(groups.values())


def ranks(seed: int, epoch: int, populations: Sequence[KeptPopulation]) -> Callable[[str], bytes]:
    """Return the sort key of a process's random order; keys of a saved population keep its draw."""
    draws = {key: owner.draw for key, owner in _owners(populations).items()}
    return lambda key: sha256(f"{seed} {draws.get(key, epoch)} {key}".encode()).digest()
