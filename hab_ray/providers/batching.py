"""The interface between the engine and a vendor's batch API: submit, find, poll, fetch, cancel, clean up.

A batch has two names: our `tag`, chosen before it is created, and the vendor's `id`. If the connection breaks during
the create request, only the vendor's list shows whether the batch exists: nothing here sends a create request twice.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hab_ray.errors import CallError, FailureKind, Intercepted, RateLimited, TransientError
from hab_ray.providers.base import JsonObject, Wire


class InDoubt(TransientError):
    """A create request got no clear answer; the vendor may or may not have created the batch."""


class ResultsGone(CallError):
    """The vendor no longer has a batch or its results."""

    def __init__(self, message: str) -> None:
        super().__init__(FailureKind.STOPPED, message)


class BatchRefused(CallError):
    """The vendor accepts no batches of this model. The same calls may be answered online."""

    def __init__(self, message: str) -> None:
        super().__init__(FailureKind.BAD_REQUEST, message)


class NoBatchApi(BatchRefused):
    """The endpoint has no batch API, for any model."""


class PageNotFound(Intercepted):
    """A 404 with text instead of JSON: of a proxy that does not reach the API, or of a server without batches."""

    def __init__(self, text: str) -> None:
        super().__init__(
            FailureKind.SERVER,
            "HTTP 404 with text that no API sends, probably from a proxy or gateway between here and the vendor; check "
            f"the network and the provider's url ({text})",
        )


class QueueFull(RateLimited):
    """The account's queue has no room for a batch. `limit` is the most tokens that it holds, if the vendor says so."""

    def __init__(self, message: str, limit: int | None) -> None:
        super().__init__(message, None)
        self.limit = limit


class BadRows(CallError):
    """The vendor created no batch because some rows are malformed.

    `rows` holds the positions, from 0, of those that the vendor names; it may name none.
    """

    def __init__(self, message: str, rows: tuple[int, ...] = ()) -> None:
        super().__init__(FailureKind.BAD_REQUEST, message)
        self.rows = rows


@dataclass(frozen=True, slots=True)
class BatchSize:
    """The vendor's limits of one batch."""

    rows: int
    bytes: int


@dataclass(frozen=True)
class BatchJob:
    """A batch to submit. `lines` are from `BatchApi.line`, each with a newline.

    All lines share `path` and `version` (of their wires) and `model` (the wire name). `before_create` is called after
    the upload, just before the request that creates the batch; if it raises, that request is not sent.
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

    `tag` is empty for a batch that has none of ours, and None if only a list in which others have theirs tells so,
    because the vendor may keep none. `rows` is None until the vendor has counted them.
    """

    id: str
    tag: str | None
    rows: int | None
    created: datetime | None


@dataclass(frozen=True)
class BatchStatus:
    """The vendor's report on a batch.

    `word` is the vendor's name of the state. `ended`: no more results will come; a state that is not `known` has not
    ended. `problem` is why the vendor refused the whole batch after creating it: RateLimited if the account's queue was
    full, so that the same batch fits later. `results` says where the results are; only `BatchApi.results` reads it.
    `counters` are those of an ended batch if the vendor may still change them: results are final once they stop
    changing; None = final. `lacks_results`: an ended batch must have results, but the vendor does not, or not yet, show
    where. `lacks_some`: only the answers that it counts are lacking, because it shows others (as the engine found,
    which asks no more) or because the batch ended before the other requests' turn.
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
    lacks_some: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a batch's results: the body that the call would have got online, or an error."""

    custom_id: str
    body: JsonObject | None = None
    error: CallError | None = None


class BatchApi(Protocol):
    """The batch API of one vendor account. The account's Provider builds its requests and reads its bodies."""

    batch_size: BatchSize

    def line(self, custom_id: str, wire: Wire) -> bytes:
        """Return a request as a line of a batch, without the newline; its body is exactly the wire's."""

    async def owner(self) -> str:
        """Return the organisation, workspace or project of the key, as far as the vendor names it, else ""."""

    async def newest(self) -> str | None:
        """Return the id of the newest batch at the vendor, or None without any."""

    async def submit(self, job: BatchJob) -> str:
        """Create a batch and return the vendor's id. The create request is sent once.

        Raises:
            InDoubt: the batch may exist.
            BatchRefused: the batch does not exist, and the vendor accepts none of this model.
            BadRows: the batch does not exist, because of some of its rows.
            CallError: the batch does not exist; the class says what follows for model and provider.
            Interrupted: `job.before_create` prevented the request; the batch does not exist.
        """

    async def since(self, newest: str | None) -> list[SeenBatch]:
        """Return the vendor's batches newer than the one with this id, newest first.

        If the id is None or no longer listed, return all. Raise CallError if the list cannot be read.
        """

    async def poll(self, batch_id: str) -> BatchStatus:
        """Return the state of a batch.

        Raises:
            ResultsGone: the vendor has no such batch.
            CallError: the request failed.
        """

    def results(self, status: BatchStatus) -> AsyncIterator[Line]:
        """Stream the lines of an ended batch, whatever its state. A line that is not JSON becomes an error.

        Raises:
            ResultsGone: the vendor no longer has the results.
            CallError: the request failed, or the stream broke.
        """

    async def cancel(self, batch_id: str) -> None:
        """Cancel a batch, unless it has ended already; raise CallError if the request failed."""

    async def clean_up(self, status: BatchStatus) -> None:
        """Delete what the vendor still stores of a batch whose results were read, if anything.

        Nothing is deleted if the vendor has results now that the status did not name. Raise CallError if the request
        failed.
        """

    async def close(self) -> None:
        """Close connections."""
