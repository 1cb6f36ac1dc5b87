"""Chat models: one llama.cpp server per GGUF file, inside this process, on a port of its own.

xllamacpp includes llama.cpp's HTTP server: continuous batching, prompt cache, JSON schema as grammar. Its default
samplers (top-k 40, min-p 0.05) stay on: small models need them at high temperatures.

Measured with SmolLM2-135M on 2 shared cores, milliseconds of CPU per token: Q4_1 takes 15 to read and 26 to 49 to
write, Q8_0 9 and 29 to 60. The demo reads four times what it writes, so `pull` converts the published Q4_1 to Q8_0;
Q4_0 is faster still (8, 17 to 47), but loses precision. A verdict on a prompt of 1,800 tokens took 35 s of CPU with an
empty cache and 8-10 s with 1,492 tokens cached: prompts must begin with the text that they share. More slots help short
prompts, but each has to read the shared prefix once.

Threads: one per core. libgomp's threads wait for each other a few hundred times per token. With its default, a long
spin, a run beside other work took up to five times the CPU; without spinning (OMP_WAIT_POLICY=passive) a single answer
on a quiet machine is 44 % slower. GOMP_SPINCOUNT=2000, which `LocalServer` sets by default, costs little of either.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hab_ray.local.errors import INSTALL, LocalError

if TYPE_CHECKING:
    from xllamacpp import Server

CONTEXT_TOKENS = 4096
_LOG_ERRORS = 1
_PROMPT_CACHE_MIB = 1024


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A running llama.cpp server, stopped on garbage collection. `key` keeps other local users off its port."""

    url: str
    key: str
    server: Server


def load_chat(name: str, weights: Path, slots: int, threads: int) -> ChatModel:
    """Load weights and serve them as `name`: `slots` answers at a time, each with `CONTEXT_TOKENS` of context.

    Raises:
        LocalError: xllamacpp or a library it needs is missing, or llama.cpp refuses the file (the log says why).
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
    """Return a message that says what to install so that xllamacpp can be imported."""
    if "libgomp" in str(error):
        return (
            "xllamacpp needs the system library libgomp.so.1, which is missing. Install it: "
            "apt-get install libgomp1 (Debian, Ubuntu), dnf install libgomp (Fedora, RHEL), apk add libgomp (Alpine) "
            "or conda install -c conda-forge libgomp"
        )
    return f"chat models need xllamacpp; {INSTALL} ({error})"
