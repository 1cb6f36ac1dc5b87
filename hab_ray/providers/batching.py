"""What the engine needs from a vendor's batch API: pack, submit, find again, poll, fetch, cancel, clean up.

A batch is named twice: by its `tag`, which is ours and known before the vendor hears of it, and by the `id` that
the vendor gives it. If a create request breaks, only the vendor's list shows whether there is a batch now:
nothing here sends a create request twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hab_ray.errors import CallError, FailureKind, TransientError
from hab_ray.providers.base import JsonObject, Wire


class InDoubt(TransientError):
    """A create request got no clear answer: the vendor may have made the batch or not."""


class ResultsGone(CallError):
    """The vendor no longer has a batch, or keeps its results no longer."""

    def __init__(self, message: str) -> None:
        super().__init__(FailureKind.STOPPED, message)


class BatchRefused(CallError):
    """The vendor takes no batches of this model. The same calls may be answered online."""

    def __init__(self, message: str) -> None:
        super().__init__(FailureKind.BAD_REQUEST, message)


class NoBatchApi(BatchRefused):
    """The endpoint has no batch API, for any model."""


class BadRows(CallError):
    """No batch was made because some of its rows are malformed.

    `rows` holds the positions of those that the vendor names, from 0; empty where it names none.
    """

    def __init__(self, message: str, rows: tuple[int, ...] = ()) -> None:
        super().__init__(FailureKind.BAD_REQUEST, message)
        self.rows = rows


@dataclass(frozen=True, slots=True)
class BatchSize:
    """The most that one batch may hold, as the vendor says."""

    rows: int
    bytes: int


@dataclass(frozen=True)
class BatchJob:
    """One batch before it is sent: lines as `line` writes them, each ended by a newline.

    `path` and `version` are those of the lines' wires, `model` the wire name, which all lines share. `before_create`
    is called before the one request that makes the batch, after a file was uploaded; what it raises keeps the
    request from being sent.
    """

    tag: str
    model: str
    path: str
    version: str | None
    lines: bytes
    rows: int
    before_create: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """A batch in the vendor's list.

    `tag` is None at a vendor that keeps no tags, and empty for a batch without one of ours at a vendor that does;
    `rows` is None where the vendor has not counted them yet.
    """

    id: str
    tag: str | None
    rows: int | None
    created: datetime | None


@dataclass(frozen=True)
class BatchStatus:
    """What the vendor says of a batch.

    `word` is its own name of the state. `ended` says that nothing more will come; an unknown state has not ended
    and is not `known`. `problem` is why the batch as a whole was refused after it was made: RateLimited where the
    account's queue was full, so that the same batch fits later. `results` is where the results are, for
    `BatchApi.results` alone to read. `counters` are those of an ended batch whose vendor may still change them:
    results are final once these have stopped changing. None where an ended batch stays as it is. It `lacks_results`
    where an ended batch must have some and the vendor does not show, or not yet, where they are.
    """

    id: str
    word: str
    ended: bool
    known: bool = True
    done: int = 0
    failed: int = 0
    problem: CallError | None = None
    results: tuple[str, ...] = ()
    counters: tuple[int, ...] | None = None
    lacks_results: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a batch's results: the body that the same call would have brought online, or an error."""

    custom_id: str
    body: JsonObject | None = None
    error: CallError | None = None


class BatchApi(Protocol):
    """The batch API of one vendor account; its requests are built and its bodies read by the account's Provider."""

    batch_size: BatchSize

    def line(self, custom_id: str, wire: Wire) -> bytes:
        """A request as a line of a batch's file, without the newline; its body is exactly the wire's."""

    async def owner(self) -> str:
        """The organisation, workspace or project that the key belongs to, as far as the vendor names it; else empty."""

    async def newest(self) -> str | None:
        """The id of the newest batch at the vendor; None where there is none."""

    async def submit(self, job: BatchJob) -> str:
        """Make a batch and return the vendor's id. The create request is sent once.

        Raises:
            InDoubt: there may be a batch now.
            BatchRefused: there is none, and there will be none of this model.
            BadRows: there is none, because of some of its rows.
            CallError: there is none; the class says what follows for model and provider.
            Interrupted: `job.before_create` did not let the request go; there is none.
        """

    async def since(self, newest: str | None) -> list[SeenBatch]:
        """The vendor's batches made after the one with this id, newest first; all where None.

        An id that the list no longer has ends nothing: all that the vendor lists is returned.

        Raises:
            CallError: the list cannot be read.
        """

    async def poll(self, batch_id: str) -> BatchStatus:
        """The state of a batch.

        Raises:
            ResultsGone: the vendor knows no such batch.
            CallError: the vendor could not be asked.
        """

    def results(self, status: BatchStatus) -> AsyncIterator[Line]:
        """The lines of an ended batch, whatever its state, as they stream in. A line that is no JSON is an error.

        Raises:
            ResultsGone: the results are no longer kept.
            CallError: the vendor could not be asked, or the stream broke.
        """

    async def cancel(self, batch_id: str) -> None:
        """Ask for the batch to end; one that has ended already is no error.

        Raises:
            CallError: the vendor could not be asked.
        """

    async def clean_up(self, status: BatchStatus) -> None:
        """Delete what the vendor still stores of a batch whose results were read; what it no longer has is no error.

        Nothing is deleted where the vendor has results by now that the status did not name.

        Raises:
            CallError: the vendor could not be asked.
        """

    async def close(self) -> None:
        """Close connections."""
