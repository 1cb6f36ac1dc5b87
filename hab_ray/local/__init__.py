"""Serves open-weight models on this machine over the OpenAI protocol, without key, network or cost.

`pull` fetches weights once; `LocalServer` serves them on 127.0.0.1 until the process that started it ends. xllamacpp,
wordllama and gguf come with the extra `local`. Importing this package imports none of them: the first two are
loaded only in the server's process, gguf only when `pull` requantises weights.
"""

from hab_ray.local.errors import SERVER_PACKAGE, LocalError
from hab_ray.local.fetch import pull
from hab_ray.local.server import LocalServer
from hab_ray.local.weights import (
    default_cache,
    embedding_weights,
    free_disk,
    free_memory,
    known_weights,
    locate,
    sha256_of,
)

__all__ = [
    "SERVER_PACKAGE",
    "LocalError",
    "LocalServer",
    "default_cache",
    "embedding_weights",
    "free_disk",
    "free_memory",
    "known_weights",
    "locate",
    "pull",
    "sha256_of",
]
