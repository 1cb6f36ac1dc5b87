"""Which names of a run or a store are written once and never change, so that this node may keep what is under them."""

from __future__ import annotations

import re
from hashlib import sha256

LEASE, LEDGER = "lease", "ledger"

_NAMED_BY_CONTENT = re.compile(
    r"^(?:sidecars/)?(?:replies|embeddings|failures)/.+/part-\d+\.\d+\.[0-9a-f]{16}\.(?:parquet|arrow)$"
    r"|^ledger/.+/(?:rows|requests)-[0-9a-f]{16}$"
)
_PART = re.compile(r"^(?!sidecars/).+/part-\d+\.\d+\.([0-9a-f]{16})\.parquet$")
_WRITTEN_ONCE = re.compile(
    r"^(?:replies|embeddings|failures)/.+/(?:wal|part)-[^/]+$|^ledger/.+/\d+-[a-z]+\.json$|^runs/[^/]+/\d+\.json$"
    r"|^pending/.+\.parquet$"
)
_VIEW = re.compile(r"\.parquet$")


def is_named_by_content(name: str) -> bool:
    """Whether the name holds a digest of what is under it."""
    return bool(_NAMED_BY_CONTENT.match(name))


def is_as_named(name: str, data: bytes) -> bool:
    """Whether this may be what is under a name, as far as the name of a part says it: it ends with its digest."""
    part = _PART.match(name)
    return part is None or sha256(data).hexdigest().startswith(part.group(1))


def is_written_once(name: str) -> bool:
    """Whether nothing else comes under this name, unless somebody removes it by hand and begins anew."""
    return bool(_WRITTEN_ONCE.match(name))


def is_view(name: str) -> bool:
    """Whether it is a view of a run, which only the holder of the store's lease replaces."""
    return bool(_VIEW.search(name))


def is_claimable(top: str) -> bool:
    """Whether what is in this top folder changes only at the hands of the process that claimed the whole.

    Leases are taken over by others, and a former holder may still add to the ledger.
    """
    return top not in (LEASE, LEDGER)
