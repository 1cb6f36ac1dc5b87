"""The answered lines of a batch on disk, until the batch ends and they are delivered."""

from __future__ import annotations

import pickle
import re
from array import array
from collections.abc import Iterator, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, NamedTuple

from hab_simulator.asks import Bill, MeantReply, SaidOfAnswer, Sighting, Usage

BUFFER_BYTES = 1 << 18
_LINE = re.compile(rb"^[^\S\n]*+\S[^\n]*", re.MULTILINE)


class Entry(NamedTuple):
    """An answered line: its result `times` over; what it is charged, and for what, where it succeeded."""

    handle: bytes
    line: bytes
    times: int
    label: bytes = b""
    path: str = ""
    model: str = ""
    bill: Bill | None = None
    exchange: MeantReply | None = None

    def packed(self) -> bytes:
        """The entry as bytes; of plain tuples, because those pickle many times faster than dataclasses."""
        bill, exchange = self.bill, self.exchange
        charge = None
        if bill is not None:
            used = bill.usage
            charge = (used.input, used.cached, used.output, used.reasoning), bill.nanousd
        meant = None
        if exchange is not None:
            plain = exchange._replace(sighting=None, verdict=None)
            meant = (
                tuple(plain),
                exchange.sighting and tuple(exchange.sighting),
                exchange.verdict and tuple(exchange.verdict),
            )
        return pickle.dumps((*self[:6], charge, meant), pickle.HIGHEST_PROTOCOL)

    @classmethod
    def unpacked(cls, packed: bytes) -> Entry:
        """The entry of these bytes."""
        handle, line, times, label, path, model, charge, meant = pickle.loads(packed)
        bill = None if charge is None else Bill(Usage(*charge[0]), charge[1])
        return cls(handle, line, times, label, path, model, bill, None if meant is None else _exchange(*meant))


def _exchange(plain: tuple[Any, ...], sighting: tuple[Any, ...] | None, verdict: tuple[Any, ...] | None) -> MeantReply:
    seen = Sighting(*sighting) if sighting else None
    return MeantReply(*plain)._replace(sighting=seen, verdict=SaidOfAnswer(*verdict) if verdict else None)


class Lines:
    """The lines of a file by number, without its blank ones; only their places are in memory."""

    def __init__(self, path: Path) -> None:
        self._starts = array("Q")
        self._ends = array("Q")
        self._bytes: mmap | bytes = b""
        if path.stat().st_size:
            with path.open("rb") as file:
                self._bytes = mmap(file.fileno(), 0, access=ACCESS_READ)
        for line in _LINE.finditer(self._bytes):
            self._starts.append(line.start())
            self._ends.append(line.end())

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, number: int) -> bytes:
        return self._bytes[self._starts[number] : self._ends[number]]

    def __iter__(self) -> Iterator[bytes]:
        return (self[number] for number in range(len(self)))


class Spool:
    """Entries in the order they were added, each with a draw in 0..1 that says when its line was done."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb", buffering=BUFFER_BYTES)
        self._ends = array("Q", [0])
        self.draws = array("d")

    def add(self, draw: float, entry: Entry) -> None:
        size = self._file.write(entry.packed())
        self._ends.append(self._ends[-1] + size)
        self.draws.append(draw)

    def finish(self) -> None:
        """Write out what was added; nothing can be added afterwards."""
        self._file.close()

    def read(self, order: Sequence[int]) -> Iterator[tuple[float, Entry]]:
        """The entries in this order, with their draws."""
        if not order:
            return
        with self._path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            for number in order:
                yield self.draws[number], Entry.unpacked(data[self._ends[number] : self._ends[number + 1]])

    def remove(self) -> None:
        self._path.unlink()
