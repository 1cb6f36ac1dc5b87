"""What a vendor's batch files look like, line by line."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from hab_simulator.asks import WireAnswer
from hab_simulator.batch.jobs import BatchProblem, BatchState, Order
from hab_simulator.vendor import Vendor


class BadInput(Exception):
    """The input of a batch cannot be used, so that the batch fails as a whole."""

    def __init__(self, code: str, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param

    def at(self, line: int | None) -> BatchProblem:
        """The same with the line it was found at, from 1."""
        return BatchProblem(self.code, str(self), line, self.param)


@dataclass(frozen=True, slots=True)
class LineAsk:
    """One request of a batch. `handle` is JSON text that goes back with the result; `path` is the online one."""

    handle: bytes
    path: str
    body: Any


class Dialect(Protocol):
    """A vendor's batch lines. All functions are pure.

    `keeps_partial`: whether a batch that expired or was cancelled has results. `error_file`: whether failed lines
    stand in a file of their own. `fails_whole`: whether a batch with bad input fails as one.
    """

    vendor: Vendor
    keeps_partial: bool
    error_file: bool
    fails_whole: bool

    def checked(self, order: Order, lines: Iterable[bytes]) -> Iterator[str]:
        """Check the lines of a new batch before any is answered; after each one, the model that they share.

        Raises BadInput: for the next line, or at last for what only all lines together show.
        """

    def read(self, order: Order, line: bytes) -> LineAsk:
        """The request in a line. Raises BadInput."""

    def result(self, handle: bytes, answer: WireAnswer) -> bytes:
        """The result line of an answered request."""

    def undone(self, handle: bytes, state: BatchState) -> bytes:
        """The result line of a request that was not done when the batch reached this state."""

    def stranger(self, order: Order, number: int) -> bytes:
        """A handle that nobody sent."""
