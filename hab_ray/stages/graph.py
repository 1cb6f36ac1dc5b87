"""The graph of a run: a shard for each part of each stage, and an edge for each shard that another one reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from hab_ray.rows import Row
from hab_ray.stages import wiring
from hab_ray.stages.spec import Grain, Part, ResolvedSweep, StageSpec


@dataclass(frozen=True, order=True)
class Shard:
    """A stage's part of a sweep: the unit of files and of progress. See `Part` for the fields."""

    stage: str
    name: str
    dimension: str
    subject: str = ""

    @property
    def spec(self) -> StageSpec:
        """What its stage declares."""
        return wiring.stages()[self.stage]

    @property
    def part(self) -> Part:
        """The part of the stage that this shard works on."""
        return Part(self.name, self.dimension, self.subject)

    @property
    def file(self) -> str:
        """The view that its rows end up in, below the run folder. `Work.written` tells whether it is there."""
        return self.spec.file(self.part)


@dataclass(frozen=True)
class Input:
    """A shard that another one reads; see `Source` for grain and partial."""

    shard: Shard
    grain: Grain
    partial: bool


Graph = Mapping[Shard, tuple[Input, ...]]


def graph_of(resolved: ResolvedSweep) -> Graph:
    """All shards of a sweep, each right behind the last of those that it reads.

    Where the sweep goes without a stage, its readers read the nearest stage before it that makes the same rows.
    """
    inputs: dict[Shard, tuple[Input, ...]] = {}
    makers: dict[type[Row], dict[str, list[Shard]]] = {}
    for spec in wiring.stages().values():
        made: dict[str, list[Shard]] = defaultdict(list)
        for part in spec.parts(resolved):
            shard = Shard(spec.name, part.name, part.dimension, part.subject)
            inputs[shard] = tuple(
                Input(candidate, source.grain, source.partial)
                for source in spec.sources(resolved)
                for candidate in makers.get(source.row, {}).get(part.dimension, ())
                if not source.own_subject or part.subject == (candidate.subject or candidate.name)
            )
            made[part.dimension].append(shard)
        if made:
            makers[spec.row] = made
    return _in_order(inputs)


def _in_order(inputs: Graph) -> Graph:
    """The same, each shard right behind the last of those that it reads."""
    readers: dict[Shard, list[Shard]] = defaultdict(list)
    for shard, read in inputs.items():
        for one in read:
            readers[one.shard].append(shard)
    placed: dict[Shard, tuple[Input, ...]] = {}

    def place(shard: Shard) -> None:
        if shard not in placed and all(one.shard in placed for one in inputs[shard]):
            placed[shard] = inputs[shard]
            for reader in readers[shard]:
                place(reader)

    for shard in inputs:
        place(shard)
    return placed
