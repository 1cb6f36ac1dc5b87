"""The error of the local model server, and the remedy for missing packages."""

SERVER_PACKAGE = "xllamacpp"
INSTALL = "in your clone: pip install '.[local]'"


class LocalError(Exception):
    """Weights are unavailable or the server cannot run. The message names what failed, why, and the remedy."""
