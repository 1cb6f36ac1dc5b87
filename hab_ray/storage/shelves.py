"""Which outcomes lie where in a store, and which files hold them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

import pyarrow as pa

from hab_ray.calls import Failure, Outcome
from hab_ray.catalog import folder_name
from hab_ray.storage.records import failures_from_table, replies_from_table

_EPOCH = re.compile(r"/(?:wal|part)-(\d+)")
_PART = ".parquet"


class Shelf(StrEnum):
    """The three kinds of record a store keeps."""

    REPLIES = "replies"
    EMBEDDINGS = "embeddings"
    FAILURES = "failures"


def shelf_of(outcome: Outcome) -> Shelf:
    """Where an outcome is kept."""
    if isinstance(outcome, Failure):
        return Shelf.FAILURES
    return Shelf.EMBEDDINGS if outcome.vector else Shelf.REPLIES


def prefix_of(shelf: Shelf, model: str) -> str:
    """The folder of a model's records."""
    return f"{shelf}/{folder_name(model)}"


def is_part(name: str) -> bool:
    """Whether a file is a compacted part and not one that a writer left."""
    return name.endswith(_PART)


def epoch_of(name: str) -> int | None:
    """The epoch whose process wrote a file; None for a file that is not ours."""
    found = _EPOCH.search(name)
    return int(found.group(1)) if found else None


def outcomes_of(shelf: Shelf, table: pa.Table) -> Sequence[Outcome]:
    """The outcomes in a table of a shelf."""
    return failures_from_table(table) if shelf is Shelf.FAILURES else replies_from_table(table)
