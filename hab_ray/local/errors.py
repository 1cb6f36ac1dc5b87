"""The one error of the local model server."""

from __future__ import annotations


class LocalError(Exception):
    """Weights that cannot be had or a server that cannot run: the message names what, why and the remedy."""
