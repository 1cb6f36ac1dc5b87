"""Chat models: one llama.cpp server per GGUF file, inside this process, on a port of its own.

xllamacpp brings llama.cpp's own HTTP server: continuous batching, prompt cache, JSON schema as grammar. Its
default samplers (top-k 40, min-p 0.05) stay on: small models need them at high temperatures.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hab_ray.local.errors import LocalError

if TYPE_CHECKING:
    from xllamacpp import Server

CONTEXT_TOKENS = 4096
_LOG_ERRORS = 1
_PROMPT_CACHE_MIB = 1024


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A running llama.cpp server, stopped when this is garbage; `key` keeps other local users off its port."""

    url: str
    key: str
    server: Server


def load_chat(name: str, weights: Path, slots: int, threads: int) -> ChatModel:
    """Load weights and serve them as `name`, `slots` answers at a time of `CONTEXT_TOKENS` each.

    Raises:
        LocalError: if xllamacpp or a library it needs is missing, or llama.cpp refuses the file (the log says
            why).
    """
    try:
        import xllamacpp
    except ImportError as error:
        raise LocalError(import_remedy(error)) from error
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.model_alias = {name}
    params.n_parallel = slots
    params.n_ctx = slots * CONTEXT_TOKENS
    params.cache_ram_mib = _PROMPT_CACHE_MIB
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.n_threads_http = 2 * slots + 2
    params.verbosity = _LOG_ERRORS
    params.ui = False
    params.endpoint_slots = False
    params.cors_origins = ""
    key = secrets.token_urlsafe(16)
    params.api_keys = [key]
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise LocalError(f"{name}: llama.cpp cannot load {weights}: {error}") from error
    return ChatModel(server.listening_address, key, server)


def import_remedy(error: ImportError) -> str:
    """What to install when xllamacpp cannot be imported."""
    if "libgomp" in str(error):
        return (
            "xllamacpp needs the system library libgomp.so.1, which is missing. Install it: "
            "apt-get install libgomp1 (Debian, Ubuntu), dnf install libgomp (Fedora, RHEL), apk add libgomp (Alpine) "
            "or conda install -c conda-forge libgomp"
        )
    return f"chat models need xllamacpp: pip install 'hab-ray[local]' ({error})"
