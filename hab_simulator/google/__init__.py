"""Gemini's wire protocol, as Google AI Studio speaks it."""

from collections.abc import Mapping

from hab_simulator.google import online
from hab_simulator.google.batch import handle
from hab_simulator.playing import SimulatedVendor


def _is_about_batches(path: str) -> bool:
    first = path.split("/")[0]
    return (
        first in ("upload", "download", "batches")
        or first.startswith("files")
        or path.endswith((":batchGenerateContent", ":asyncBatchEmbedContent"))
    )


def _is_keyless(path: str, query: Mapping[str, str]) -> bool:
    """The URL that is given for an upload is a key."""
    return path == "upload/files" and "upload_id" in query


VENDOR = SimulatedVendor(online, handle, _is_about_batches, ("v1", "v1beta"), ("upload", "download"), _is_keyless)
