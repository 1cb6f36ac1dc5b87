"""The events of batches that are done, in one file for each provider: a reader need not fetch thousands.

    closed/<provider>.zst     batch -> name of event -> its text

It only repeats what the ledger has, so it may be missing, behind or damaged: a reader takes a batch from it where the
ledger lists the same events, and reads the events themselves where not.
"""

from __future__ import annotations

from collections.abc import Mapping

import zstandard
from pydantic import TypeAdapter, ValidationError

from hab_ray.storage.folder import Folder

Texts = Mapping[str, str]
_CLOSED: TypeAdapter[dict[str, dict[str, str]]] = TypeAdapter(dict[str, dict[str, str]])
_LONGEST = 1 << 30


def closed_batches(folder: Folder, provider: str) -> Mapping[str, Texts]:
    """The events' texts of a provider's batches that are done, as far as they were kept; `provider` names a folder."""
    try:
        packed = folder.get(_name(provider))
        text = zstandard.ZstdDecompressor().decompress(packed, max_output_size=_LONGEST)
        return _CLOSED.validate_json(text)
    except (FileNotFoundError, ValidationError, zstandard.ZstdError):
        return {}


def keep_closed_batches(folder: Folder, provider: str, batches: Mapping[str, Texts]) -> None:
    """Replace what is kept of a provider; for the lease's holder."""
    text = _CLOSED.dump_json({batch: dict(texts) for batch, texts in batches.items()})
    folder.put(_name(provider), zstandard.ZstdCompressor(level=3).compress(text))


def _name(provider: str) -> str:
    return f"closed/{provider}.zst"
