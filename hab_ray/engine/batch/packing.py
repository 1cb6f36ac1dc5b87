"""Packs calls into batches of one model, within the limits of vendor, account and budget."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from hab_ray.calls import ChatCall
from hab_ray.catalog.models import ModelEntry
from hab_ray.catalog.prices import Price, estimated_input_tokens, input_bytes
from hab_ray.engine.jobs import Job
from hab_ray.engine.ledger import Lines
from hab_ray.fences import FenceCodes
from hab_ray.providers.base import Provider
from hab_ray.providers.batching import BatchApi


@dataclass(frozen=True, slots=True)
class Room:
    """The most that one batch may hold: rows, bytes of lines, estimated input tokens, nano-dollars."""

    rows: int
    bytes: int
    tokens: float
    nanousd: float


@dataclass(frozen=True, slots=True)
class PackedRow:
    """A job as a line of a batch, without its call; `nanousd` is the most that it can cost."""

    shard: int
    row_id: str
    key: str
    path: str
    version: str | None
    embeds: bool
    body_sha256: str
    line: bytes
    tokens: int
    nanousd: int


@dataclass
class Pack:
    """A batch being packed. It can cost at most `most`, and surely no more than a sampled `bound`, if there is one."""

    rows: list[PackedRow] = field(default_factory=list)
    bytes: int = 0
    tokens: int = 0
    most: int = 0
    bound: int | None = None

    @property
    def nanousd(self) -> int:
        """The money to reserve. Part of a bounded pack has no bound: it may hold the expensive rows."""
        return self.most if self.bound is None else min(self.bound, self.most)

    def add(self, row: PackedRow) -> None:
        self.rows.append(row)
        self.bytes += len(row.line) + 1
        self.tokens += row.tokens
        self.most += row.nanousd

    def has_room_for(self, row: PackedRow, room: Room) -> bool:
        """Return whether the batch may hold one more row. The first row always fits."""
        if not self.rows:
            return True
        return (
            len(self.rows) < room.rows
            and self.bytes + len(row.line) < room.bytes
            and self.tokens + row.tokens <= room.tokens
            and (self.bound is not None or self.most + row.nanousd <= room.nanousd)
        )

    def fit(self, nanousd: int) -> tuple[list[PackedRow], Pack]:
        """Keep the first rows that together cost at most this much.

        Returns:
            The rows that cost more on their own, and a pack of the other rows not kept.
        """
        rows, self.rows, self.bytes, self.tokens, self.most, self.bound = self.rows, [], 0, 0, 0, None
        too_expensive: list[PackedRow] = []
        rest = Pack()
        for row in rows:
            if row.nanousd > nanousd:
                too_expensive.append(row)
            elif rest.rows or self.most + row.nanousd > nanousd:
                rest.add(row)
            else:
                self.add(row)
        return too_expensive, rest

    def split(self, numbers: Collection[int]) -> tuple[Pack, Pack]:
        """Split two or more rows into two packs: without and with the numbered rows, or halves if either is empty."""
        apart = {n for n in numbers if n < len(self.rows)}
        if not 0 < len(apart) < len(self.rows):
            apart = set(range(len(self.rows) // 2, len(self.rows)))
        packs = Pack(), Pack()
        for number, row in enumerate(self.rows):
            packs[number in apart].add(row)
        return packs

    def lines(self) -> Lines:
        """Return the lines to send, and the keys and hashes by which to read their results."""
        return Lines(
            requests=b"".join(row.line + b"\n" for row in self.rows),
            rows=b"".join(bytes.fromhex(row.key + row.body_sha256) for row in self.rows),
        )

    def keys(self) -> list[str]:
        """Return the keys of the packed rows."""
        return [row.key for row in self.rows]


class RowPacker:
    """Turns the jobs of one model into lines of a batch."""

    def __init__(self, provider: Provider, api: BatchApi, entry: ModelEntry, price: Price, codes: FenceCodes) -> None:
        self._provider, self._api, self._entry, self._price = provider, api, entry, price
        self._codes = codes

    def row(self, job: Job) -> PackedRow:
        """Turn a job into a line with the same body as an online request.

        A token has at least one byte, so the line's length bounds the number of input tokens.
        """
        call = job.call
        if isinstance(call, ChatCall):
            wire = self._provider.chat(self._codes.filled(call), self._entry)
            output = self._entry.output_limit(call.params.max_tokens)
        else:
            wire, output = self._provider.embed([call], self._entry), 0
        line = self._api.line(call.key, wire)
        return PackedRow(
            shard=job.shard,
            row_id=job.row_id,
            key=call.key,
            path=wire.path,
            version=wire.version,
            embeds=not isinstance(call, ChatCall),
            body_sha256=wire.sha256,
            line=line,
            tokens=estimated_input_tokens(input_bytes(call)),
            nanousd=self._price.bound(len(line), output),
        )
