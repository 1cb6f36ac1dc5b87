"""The ledger: what is known of each batch, as immutable events in the store.

    ledger/<provider>/<batch>/rows-<sha256>         key and body hash of each row, 64 bytes a row
    ledger/<provider>/<batch>/requests-<sha256>     the lines as sent, zstd
    ledger/<provider>/<batch>/<n>-<kind>.json       its events, in order
    closed/<provider>.zst                           the events of batches that are done: batch -> name -> text

The last only repeats what the others have, so that a reader need not fetch thousands, and may be missing, behind or
damaged: a batch is taken from it where the ledger lists the same events.

    (nothing) ── intent ──> in doubt ── submitted ──> at the vendor ── ended ──> ended ── harvested ──> done
                 in doubt ── intent ──> in doubt: the vendor has no such batch, and it is sent once more
                 in doubt ── ended ──> ended: the vendor refused it

`put_new` decides who writes an event: a driver that finds its event written by another has lost the store.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Annotated, Literal

import zstandard
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from hab_ray.catalog.models import folder_name
from hab_ray.errors import DamagedFile, LeaseLost
from hab_ray.progress import BatchProgress
from hab_ray.storage.folder import Folder
from hab_ray.visible import log_json

ROW_BYTES = 64
WORTH_KEEPING = 16
LEDGER = "ledger"
_HASH_BYTES = 32
_NUMBER = re.compile("[0-9]+")
_CLOSED: TypeAdapter[dict[str, dict[str, str]]] = TypeAdapter(dict[str, dict[str, str]])
_MAX_CLOSED = 1 << 30


class _Event(BaseModel):
    """One event; `epoch` is the lease's under which it was written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epoch: int
    at: datetime


class Intent(_Event):
    """That a batch is about to be made. `newest` is the id of the newest batch at the vendor at that moment.

    `model` is the catalogue's name, `wire` the vendor's; `tokens` an estimate of the input, `nanousd` what is set
    aside. `owner` is the organisation or workspace of the key, as far as the vendor tells. Where the batch is part of a
    sample of its stage's rows, `most_nanousd` is what it can cost at most; None where `nanousd` is that.
    """

    kind: Literal["intent"] = "intent"
    tag: str
    run: str
    model: str
    wire: str
    path: str
    version: str | None
    embeds: bool
    rows: int
    bytes: int
    tokens: int
    nanousd: int
    rows_file: str
    requests_file: str
    owner: str
    newest: str | None
    most_nanousd: int | None = Field(default=None, exclude_if=lambda most: most is None)

    @property
    def most(self) -> int:
        """The most that the batch can cost, in nano-dollars."""
        return self.nanousd if self.most_nanousd is None else self.most_nanousd


class Submitted(_Event):
    """The vendor's id of the batch; `adopted` where it was found in the vendor's list, the create request unanswered.

    It is not `certain` where nothing but the number of rows speaks for it, so that it may be somebody else's: then
    it is neither cancelled nor deleted before its results have shown whose it is.
    """

    kind: Literal["submitted"] = "submitted"
    batch_id: str
    adopted: bool
    certain: bool


class Ended(_Event):
    """Nothing more will come. `word` is the vendor's name of the state; `problem` why nothing came at all."""

    kind: Literal["ended"] = "ended"
    word: str
    problem: str | None


class Harvested(_Event):
    """All results are in the store. `unanswered` rows had none; `unknown_ids` and `doubled` lines were left out.

    `lost_nanousd` is what rows may have cost that brought nothing; None in ledgers of format 0. `refusal` is why no
    further batch of the model would be answered either. Ledgers call `unknown_ids` strangers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    kind: Literal["harvested"] = "harvested"
    replies: int
    failures: int
    unanswered: int
    unknown_ids: int = Field(validation_alias="strangers", serialization_alias="strangers")
    doubled: int
    nanousd: int
    lost_nanousd: int | None = None
    refusal: str | None = None


Event = Intent | Submitted | Ended | Harvested
_EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="kind")])


class Phase(StrEnum):
    """What the last event says of a batch; see the module's drawing."""

    IN_DOUBT = "in doubt"
    AT_VENDOR = "at the vendor"
    ENDED = "ended"
    DONE = "done"


_PHASE: Mapping[type[_Event], Phase] = {
    Intent: Phase.IN_DOUBT,
    Submitted: Phase.AT_VENDOR,
    Ended: Phase.ENDED,
    Harvested: Phase.DONE,
}


@dataclass(frozen=True)
class Batch:
    """What the ledger has of one batch: its events so far, the first always an intent."""

    provider: str
    number: int
    events: tuple[Event, ...] = ()

    @property
    def name(self) -> str:
        """What users see and name it by."""
        return f"{self.provider}/{self.number:06d}"

    @property
    def phase(self) -> Phase:
        """Where it stands."""
        return _PHASE[type(self.events[-1])]

    @property
    def intent(self) -> Intent:
        """The last intent."""
        return next(e for e in reversed(self.events) if isinstance(e, Intent))

    @property
    def submitted(self) -> Submitted | None:
        """How it came to be at the vendor, once it is known to be there."""
        return next((e for e in self.events if isinstance(e, Submitted)), None)

    @property
    def batch_id(self) -> str | None:
        """The vendor's id, once known."""
        return self.submitted.batch_id if self.submitted else None

    @property
    def is_certain(self) -> bool:
        """Whether the batch at the vendor is surely this one."""
        return any(isinstance(e, Submitted) and e.certain for e in self.events)

    @property
    def ended(self) -> Ended | None:
        """How it ended, once it has."""
        return next((e for e in self.events if isinstance(e, Ended)), None)

    @property
    def harvested(self) -> Harvested | None:
        """What it brought, once that is in the store."""
        return next((e for e in self.events if isinstance(e, Harvested)), None)

    @property
    def since(self) -> datetime:
        """When it was first meant to be made."""
        return self.events[0].at


@dataclass(frozen=True)
class Lines:
    """The lines of a batch, and key and body hash of each row in the same order."""

    requests: bytes
    rows: bytes

    @cached_property
    def rows_file(self) -> str:
        """The name its rows are kept under."""
        return f"rows-{sha256(self.rows).hexdigest()[:16]}"

    @cached_property
    def requests_file(self) -> str:
        """The name its lines are kept under."""
        return f"requests-{sha256(self.requests).hexdigest()[:16]}"


def body_hashes(rows: bytes) -> dict[str, str]:
    """Each row's key with the sha256 of the body sent, both in hexadecimal digits."""
    starts = range(0, len(rows), ROW_BYTES)
    return {rows[i : i + _HASH_BYTES].hex(): rows[i + _HASH_BYTES : i + ROW_BYTES].hex() for i in starts}


class Ledger:
    """The batches of one provider account in a store."""

    def __init__(self, folder: Folder, provider: str) -> None:
        self.folder, self.provider = folder, provider
        self._prefix = f"{LEDGER}/{folder_name(provider)}"
        self._closed_file = f"closed/{folder_name(provider)}.zst"

    def read(self) -> list[Batch]:
        """All batches, oldest first.

        Raises:
            DamagedFile: an event cannot be read.
        """
        return self.among(self.folder.list(self._prefix))

    def among(self, names: Iterable[str]) -> list[Batch]:
        """As `read`, from a listing of the ledger that was made before."""
        return [self._batch(number, texts) for number, texts in self._texts(names).items()]

    def _texts(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """The texts of all events, by batch and name, in order."""
        events: dict[str, list[str]] = defaultdict(list)
        for path in map(PurePosixPath, names):
            if path.suffix == ".json" and path.is_relative_to(self._prefix):
                if not _NUMBER.fullmatch(path.parent.name):
                    raise DamagedFile(f"the store's {path}: is no event of a batch; move it out of the ledger")
                events[path.parent.name].append(path.name)
        closed = self._closed() if events else {}
        texts: dict[str, dict[str, str]] = {}
        for batch in sorted(events, key=int):
            kept = closed.get(batch, {})
            if sorted(kept) == sorted(events[batch]):
                texts[batch] = {name: kept[name] for name in sorted(kept)}
            else:
                texts[batch] = {name: self._text(f"{self._prefix}/{batch}/{name}") for name in sorted(events[batch])}
        return texts

    def _text(self, name: str) -> str:
        return self.folder.get(name).decode(errors="replace")

    def _batch(self, number: str, texts: Mapping[str, str]) -> Batch:
        place = f"{self._prefix}/{number}"
        events = tuple(_event(f"{place}/{name}", text) for name, text in texts.items())
        if not isinstance(events[0], Intent):
            raise DamagedFile(_unusable(f"{place}/001-intent.json", "is missing"))
        return Batch(self.provider, int(number), events)

    def keep_closed(self) -> None:
        """Keep the events of batches that are done in one file, once enough are; for the lease's holder.

        Raises:
            DamagedFile: an event cannot be read.
        """
        texts = self._texts(self.folder.list(self._prefix))
        done = {batch: found for batch, found in texts.items() if self._batch(batch, found).phase is Phase.DONE}
        if len(done.keys() - self._closed().keys()) >= WORTH_KEEPING:
            self.folder.put(self._closed_file, zstandard.ZstdCompressor(level=3).compress(_CLOSED.dump_json(done)))

    def _closed(self) -> Mapping[str, Mapping[str, str]]:
        try:
            packed = self.folder.get(self._closed_file)
            text = zstandard.ZstdDecompressor().decompress(packed, max_output_size=_MAX_CLOSED)
            return _CLOSED.validate_json(text)
        except (FileNotFoundError, ValidationError, zstandard.ZstdError):
            return {}

    def keep(self, number: int, lines: Lines) -> None:
        """Store a batch's lines, before its intent names them."""
        self.folder.put(f"{self._place(number)}/{lines.rows_file}", lines.rows)
        packed = zstandard.ZstdCompressor(level=3).compress(lines.requests)
        self.folder.put(f"{self._place(number)}/{lines.requests_file}", packed)

    def lines(self, batch: Batch) -> Lines:
        requests = self.folder.get(f"{self._place(batch.number)}/{batch.intent.requests_file}")
        return Lines(zstandard.ZstdDecompressor().decompress(requests), self.rows(batch))

    def rows(self, batch: Batch) -> bytes:
        """Key and body hash of each row of a batch; see `body_hashes`."""
        return self.folder.get(f"{self._place(batch.number)}/{batch.intent.rows_file}")

    def add(self, batch: Batch, event: Event) -> Batch:
        """Write the next event of a batch; returns the batch with it.

        Raises:
            LeaseLost: another driver wrote it.
        """
        place, number = self._place(batch.number), f"{len(batch.events) + 1:03d}-"
        lost = LeaseLost(f"batch {batch.name} is another driver's: nothing more is spent here")
        if any(PurePosixPath(name).name.startswith(number) for name in self.folder.list(place)):
            raise lost
        text = log_json(event.model_dump(mode="json", by_alias=True))
        try:
            self.folder.put_new(f"{place}/{number}{event.kind}.json", text.encode())
        except FileExistsError:
            raise lost from None
        return replace(batch, events=(*batch.events, event))

    def _place(self, number: int) -> str:
        return f"{self._prefix}/{number:06d}"


def _event(name: str, text: str) -> Event:
    try:
        return _EVENT.validate_json(text)
    except ValidationError as error:
        raise DamagedFile(_unusable(name, f"not an event of the ledger ({error.error_count()} problems)")) from None


def _unusable(name: str, why: str) -> str:
    """What is wrong with an event, and the remedy: what is deleted is found again at the vendor, but for the intent."""
    path = PurePosixPath(name)
    if path.name.startswith("001-"):
        remedy = (
            f"put it back from a backup, or delete the folder {path.parent}: its batch, where the vendor made it, "
            "is then not collected, and its rows are asked and paid for again"
        )
    else:
        remedy = (
            "put it back from a backup, or delete it and the events of its batch with higher numbers: the batch is "
            "then looked for at the vendor, and nothing is lost"
        )
    return f"the store's {name}: {why}; {remedy}. Then give the same command again"


def keys_under_way(folder: Folder, provider: str) -> set[str]:
    """The keys of all calls in a provider's open batches. Do not send these online: they would be billed twice."""
    ledger = Ledger(folder, provider)
    waiting = (batch for batch in ledger.read() if batch.phase is not Phase.DONE)
    return {key for batch in waiting for key in body_hashes(ledger.rows(batch))}


def batch_progress(batch: Batch) -> BatchProgress:
    """A batch in the ledger as progress shows it."""
    return BatchProgress(
        name=batch.name,
        id=batch.batch_id,
        model=batch.intent.model,
        rows=batch.intent.rows,
        nanousd=batch.intent.nanousd,
        since=batch.since.isoformat(timespec="seconds"),
        state=batch.phase,
    )
