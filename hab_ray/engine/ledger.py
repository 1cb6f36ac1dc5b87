"""The ledger: the life of each batch, as immutable events in the store.

    ledger/<provider>/<batch>/rows-<sha256>         key and body hash of each row, 64 bytes per row
    ledger/<provider>/<batch>/requests-<sha256>     the lines as sent, zstd
    ledger/<provider>/<batch>/<n>-<kind>.json       its events, in order
    closed/<provider>.zst                           the events of batches that are done: batch -> name -> text

The last file is a cache that saves reading thousands of files. It may be missing, stale or damaged: a batch is read
from it only if the ledger lists the same events.

    (nothing) ── intent ──> in doubt ── submitted ──> at the vendor ── ended ──> ended ── harvested ──> done
                 in doubt ── intent ──> in doubt: the vendor has no such batch, and it is sent again
                 in doubt ── ended ──> ended: the vendor refused it

`put_new` decides who writes an event: a driver whose event was already written by another has lost the store.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
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
from hab_ray.catalog.prices import Price
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
    """One event; `epoch` is that of the lease under which it was written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epoch: int
    at: datetime


def _is_missing(value: object) -> bool:
    return value is None


class Intent(_Event):
    """The intent to create a batch. `newest` is the id of the newest batch at the vendor at that moment.

    `model` is the catalogue's name, `wire` the vendor's; `tokens` is an estimate of the input, `nanousd` the
    reservation. `owner` is the API key's organisation or workspace, as far as the vendor tells; `fingerprint` is the
    key's, and the batch is booked at `price`; both are None in older ledgers. If a sampled bound is reserved,
    `most_nanousd` is the most that the batch can cost; otherwise it is None, and `nanousd` is the most.
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
    most_nanousd: int | None = Field(default=None, exclude_if=_is_missing)
    fingerprint: str | None = Field(default=None, exclude_if=_is_missing)
    price: Price | None = Field(default=None, exclude_if=_is_missing)

    @property
    def most(self) -> int:
        """The most that the batch can cost, in nano-dollars."""
        return self.nanousd if self.most_nanousd is None else self.most_nanousd

    @property
    def share(self) -> int:
        """An equal share of `most` for each row."""
        return self.most // self.rows


class Submitted(_Event):
    """The vendor's id of the batch; `adopted` if the create request got no answer and the vendor's list showed it.

    It is not `certain` to be ours if only its number of rows matches: then it is neither cancelled nor deleted before
    its results prove that it is ours.
    """

    kind: Literal["submitted"] = "submitted"
    batch_id: str
    adopted: bool
    certain: bool


class Ended(_Event):
    """The vendor has finished. `word` is the vendor's name of the state; `problem` is why there is no result at all."""

    kind: Literal["ended"] = "ended"
    word: str
    problem: str | None


class Harvested(_Event):
    """All results are in the store. `unanswered` rows had none; `unknown_ids` and `doubled` lines were skipped.

    `lost_nanousd` is the most that rows without a result may have cost; None in ledgers of format 0. `refusal` is why
    no further batch of the model would be answered. In the file, `unknown_ids` is called `strangers`.
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
    """The phase of a batch after its last event; see the module's diagram."""

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
    """The ledger's record of one batch: its events so far, the first always an intent."""

    provider: str
    number: int
    events: tuple[Event, ...] = ()

    @property
    def name(self) -> str:
        """The name shown to users and accepted from them."""
        return f"{self.provider}/{self.number:06d}"

    @property
    def phase(self) -> Phase:
        """The phase of its life that it is in."""
        return _PHASE[type(self.events[-1])]

    @property
    def intent(self) -> Intent:
        """The last intent."""
        return next(e for e in reversed(self.events) if isinstance(e, Intent))

    @property
    def submitted(self) -> Submitted | None:
        """The event that gave its id at the vendor, if there is one."""
        return next((e for e in self.events if isinstance(e, Submitted)), None)

    @property
    def batch_id(self) -> str | None:
        """The vendor's id, if known."""
        return self.submitted.batch_id if self.submitted else None

    @property
    def is_certain(self) -> bool:
        """Whether the batch at the vendor is certain to be this one."""
        return any(isinstance(e, Submitted) and e.certain for e in self.events)

    @property
    def ended(self) -> Ended | None:
        """The event that recorded its end, if there is one."""
        return next((e for e in self.events if isinstance(e, Ended)), None)

    @property
    def harvested(self) -> Harvested | None:
        """The summary of its results, once they are in the store."""
        return next((e for e in self.events if isinstance(e, Harvested)), None)

    @property
    def epoch(self) -> int:
        """The epoch of the process that wrote its first intent."""
        return self.events[0].epoch

    @property
    def since(self) -> datetime:
        """The time of its first intent."""
        return self.events[0].at


@dataclass(frozen=True)
class Lines:
    """The lines of a batch, and the key and body hash of each row in the same order."""

    requests: bytes
    rows: bytes

    @cached_property
    def rows_file(self) -> str:
        """The file name of its keys and hashes."""
        return f"rows-{_digest(self.rows)}"

    @cached_property
    def requests_file(self) -> str:
        """The file name of its lines."""
        return f"requests-{_digest(self.requests)}"


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]


def _unpacked(packed: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(packed)


def body_hashes(rows: bytes) -> dict[str, str]:
    """Return the sha256 of each row's body by the row's key, both as hexadecimal digits."""
    starts = range(0, len(rows), ROW_BYTES)
    return {rows[i : i + _HASH_BYTES].hex(): rows[i + _HASH_BYTES : i + ROW_BYTES].hex() for i in starts}


class Ledger:
    """The batches of one provider account in a store."""

    def __init__(self, folder: Folder, provider: str) -> None:
        self.folder, self.provider = folder, provider
        self._prefix = f"{LEDGER}/{folder_name(provider)}"
        self._closed_file = f"closed/{folder_name(provider)}.zst"

    def read(self, names: Iterable[str] | None = None) -> list[Batch]:
        """Read all batches, oldest first. `names` is an earlier listing of the ledger's files, which saves a new one.

        Raises:
            DamagedFile: an event cannot be read.
        """
        names = self.folder.list(self._prefix) if names is None else names
        return [self._batch(number, texts) for number, texts in self._texts(names).items()]

    def _texts(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Read the texts of all events, by batch and file name, in order."""
        events: dict[str, list[str]] = defaultdict(list)
        for path in map(PurePosixPath, names):
            if path.suffix == ".json" and path.is_relative_to(self._prefix):
                if not _NUMBER.fullmatch(path.parent.name):
                    raise DamagedFile(f"the store's {path}: is not an event of a batch; move it out of the ledger")
                events[path.parent.name].append(path.name)
        closed = self._closed() if events else {}
        texts: dict[str, dict[str, str]] = {}
        for batch in sorted(events, key=int):
            kept = closed.get(batch, {})
            if sorted(kept) == sorted(events[batch]):
                texts[batch] = {name: kept[name] for name in sorted(kept)}
            else:
                files = {name: self.folder.get(f"{self._prefix}/{batch}/{name}") for name in sorted(events[batch])}
                texts[batch] = {name: data.decode(errors="replace") for name, data in files.items()}
        return texts

    def _batch(self, number: str, texts: Mapping[str, str]) -> Batch:
        folder = f"{self._prefix}/{number}"
        events = tuple(_event(f"{folder}/{name}", text) for name, text in texts.items())
        if not isinstance(events[0], Intent):
            raise DamagedFile(_unusable(f"{folder}/001-intent.json", "is missing"))
        return Batch(self.provider, int(number), events)

    def keep_closed(self) -> None:
        """Cache the events of finished batches in one file, once there are enough. Call it while holding the lease.

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
        """Store a batch's lines, before its intent refers to them."""
        self.folder.put(f"{self.folder_of(number)}/{lines.rows_file}", lines.rows)
        packed = zstandard.ZstdCompressor(level=3).compress(lines.requests)
        self.folder.put(f"{self.folder_of(number)}/{lines.requests_file}", packed)

    def lines(self, batch: Batch) -> Lines:
        """Read the lines of a batch; raise DamagedFile if they are missing, or not those that were kept."""
        return Lines(self._whole(batch, batch.intent.requests_file, _unpacked), self.rows(batch))

    def rows(self, batch: Batch) -> bytes:
        """Read the key and body hash of each row of a batch; see `body_hashes`.

        Raises:
            DamagedFile: they are missing, or not those that were kept: results would be assigned to no row.
        """
        return self._whole(batch, batch.intent.rows_file, bytes)

    def _whole(self, batch: Batch, file: str, content: Callable[[bytes], bytes]) -> bytes:
        name = f"{self.folder_of(batch.number)}/{file}"
        try:
            found = content(self.folder.get(name))
        except FileNotFoundError:
            raise DamagedFile(_unusable(name, "is missing")) from None
        except zstandard.ZstdError as error:
            raise DamagedFile(_unusable(name, f"cannot be read ({error})")) from None
        if _digest(found) != file.rpartition("-")[2]:
            raise DamagedFile(_unusable(name, "is not what was written"))
        return found

    def add(self, batch: Batch, event: Event) -> Batch:
        """Write the next event of a batch; return the batch with it. Raise LeaseLost if another driver wrote it."""
        folder, number = self.folder_of(batch.number), f"{len(batch.events) + 1:03d}-"
        lost = LeaseLost(f"another driver has taken over batch {batch.name}: nothing more is spent here")
        if any(PurePosixPath(name).name.startswith(number) for name in self.folder.list(folder)):
            raise lost
        text = log_json(event.model_dump(mode="json", by_alias=True))
        try:
            self.folder.put_new(f"{folder}/{number}{event.kind}.json", text.encode())
        except FileExistsError:
            raise lost from None
        return replace(batch, events=(*batch.events, event))

    def folder_of(self, number: int) -> str:
        """Return the folder of a batch's files, relative to the store's."""
        return f"{self._prefix}/{number:06d}"


def _event(name: str, text: str) -> Event:
    try:
        return _EVENT.validate_json(text)
    except ValidationError as error:
        raise DamagedFile(_unusable(name, f"not an event of the ledger ({error.error_count()} problems)")) from None


def _unusable(name: str, why: str) -> str:
    """Return what is wrong with a batch's file, and the remedy. Later events than the intent can be recovered."""
    path = PurePosixPath(name)
    if path.name.startswith(("001-", "rows-", "requests-")):
        remedy = (
            f"restore it from a backup, or delete the folder {path.parent}: if the vendor created its batch, that is "
            "then not collected, and its rows are sent and paid for again"
        )
    else:
        remedy = (
            "restore it from a backup, or delete it and the events of its batch with higher numbers: the batch is "
            "then looked for at the vendor, and nothing is lost"
        )
    return f"the store's {name}: {why}; {remedy}. Then run the same command again"


def keys_in_flight(folder: Folder, provider: str) -> set[str]:
    """Return the keys of all calls in a provider's open batches. Sent online as well, they would be billed twice."""
    ledger = Ledger(folder, provider)
    open_batches = (batch for batch in ledger.read() if batch.phase is not Phase.DONE)
    return {key for batch in open_batches for key in body_hashes(ledger.rows(batch))}


def accounts_in(names: Iterable[str]) -> list[str]:
    """Return the folders of provider accounts among the names of a ledger's files, sorted."""
    return sorted({name.split("/")[1] for name in names})


def batch_progress(batch: Batch) -> BatchProgress:
    """Return a batch of the ledger as the progress file shows it."""
    return BatchProgress(
        name=batch.name,
        id=batch.batch_id,
        model=batch.intent.model,
        rows=batch.intent.rows,
        nanousd=batch.intent.nanousd,
        since=batch.since.isoformat(timespec="seconds"),
        state=batch.phase,
    )
