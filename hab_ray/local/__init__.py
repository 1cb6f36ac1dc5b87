"""Open-weight models on this machine, served over the OpenAI protocol: no key, no network, no price.

`pull` fetches weights once, `LocalServer` serves them on 127.0.0.1 for as long as its starter lives. Importing
this package imports neither xllamacpp nor wordllama nor gguf, which come with the extra `hab-ray[local]`: the
first two are loaded in the server's own process only, gguf where `pull` makes weights.
"""

from hab_ray.local.errors import LocalError
from hab_ray.local.fetch import pull
from hab_ray.local.room import free_disk, free_memory
from hab_ray.local.server import LocalServer
from hab_ray.local.weights import default_cache, embedding_weights, find, known_weights, sha256_of

__all__ = [
    "LocalError",
    "LocalServer",
    "default_cache",
    "embedding_weights",
    "find",
    "free_disk",
    "free_memory",
    "known_weights",
    "pull",
    "sha256_of",
]
