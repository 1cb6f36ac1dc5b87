"""The error of the local model server."""

from __future__ import annotations


class LocalError(Exception):
    """Weights are unavailable or the server cannot run. The message names what failed, why, and the remedy."""
