"""What the driver knows of each shard.

waiting ── inputs complete, all rows settled ──> complete
waiting ── inputs complete, calls open ──> ready ── pass started ──> running
running ── its calls finished, or its pass ended ──> waiting (settled again: re-asks, what is left)
waiting ── only rows left that this run gave up ──> stalled
waiting ── vectors complete, tests not chosen ──> choosing ──> complete
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from hab_ray.engine.jobs import Tally
from hab_ray.prices import Mode
from hab_ray.progress import StageProgress
from hab_ray.stages import table
from hab_ray.work import Shard


class Phase(StrEnum):
    """Where a shard stands; see the module's drawing."""

    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    CHOOSING = "choosing"
    COMPLETE = "complete"
    STALLED = "stalled"


@dataclass
class Track:
    """One shard. `lane` is who completes its calls, where one does.

    `finished` and `given_up` grow from what they were when the pass began; the pass is over once together they have
    grown by `offered`, the calls that the lane was given (None while that is not known). `barren` counts batches in
    a row that left as many rows open as there were.
    """

    number: int
    shard: Shard
    phase: Phase = Phase.WAITING
    total: int = 0
    settled: int = 0
    failed: int = 0
    open: int = 0
    offered: int | None = 0
    finished: int = 0
    finished_before: int = 0
    given_up: dict[str, str] = field(default_factory=dict)
    given_up_before: int = 0
    ready_since: float = float("inf")
    mode: Mode = Mode.ONLINE
    lane: str = ""
    barren: int = 0

    def start(self, lane: str, finished_before: int, offered: int | None) -> None:
        """Its open calls are on their way."""
        self.phase, self.lane, self.offered = Phase.RUNNING, lane, offered
        self.finished = self.finished_before = finished_before
        self.given_up_before = len(self.given_up)
        self.ready_since = float("inf")

    def note(self, finished: int, failed: int) -> None:
        """Take in what its lane has finished; when that is all, it waits to be settled."""
        self.finished, self.failed = finished, failed
        if self.phase is Phase.RUNNING and self.offered is not None:
            given_up = len(self.given_up) - self.given_up_before
            if finished - self.finished_before + given_up >= self.offered:
                self.phase = Phase.WAITING

    @property
    def just_finished(self) -> int:
        """Rows finished since the shard was last settled."""
        return self.finished - self.finished_before if self.phase is Phase.RUNNING else 0


def stage_progress(
    tracks: Sequence[Track], model_of: Callable[[Track], str], tallies: Mapping[str, Tally]
) -> Iterator[StageProgress]:
    """How far each model is at each stage, in the order of the method."""
    cells: dict[tuple[str, str], list[Track]] = defaultdict(list)
    for track in (t for t in tracks if t.shard.spec.makes_calls):
        cells[track.shard.stage, track.shard.name].append(track)
    for stage, name in sorted(cells, key=lambda c: list(table.STAGES).index(c[0])):
        mine = cells[stage, name]
        running = [t for t in mine if t.phase is Phase.RUNNING]
        lanes = {t.lane for t in running} & tallies.keys()
        yield StageProgress(
            stage=stage,
            model=name,
            total=sum(t.total for t in mine),
            done=sum(min(t.total, t.settled + t.just_finished) for t in mine),
            failed=sum(t.failed for t in mine),
            in_flight=sum(tallies[lane].in_flight[model_of(mine[0])] for lane in lanes),
        )
