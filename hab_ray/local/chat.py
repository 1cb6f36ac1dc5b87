"""Chat models: one llama.cpp server per GGUF file, inside this process, on a port of its own.

xllamacpp brings llama.cpp's own HTTP server: continuous batching, prompt cache, JSON schema as grammar. Its
default samplers (top-k 40, min-p 0.05) stay on: small models need them at high temperatures.

Measured with SmolLM2-135M Q4_1 on 2 virtual cores of a Xeon at 2.8 GHz, shared with other work, so to be read as
orders of magnitude. A verdict (prompt of 1,800 tokens, about 50 tokens of JSON), seconds a verdict:

| in flight           | wall | CPU  |
|---------------------|------|------|
| 1, nothing cached   | 22   | 35   |
| 1, 1,492 cached     | 4-5  | 8    |
| 2, 1,492 cached     | 5.9  | 9.5  |
| 4, 1,492 cached     | 4-5  | 8-10 |
| 8, 1,492 cached     | 5.7  | 9    |

So the shared prefix is what counts, and prompts must begin with what they share. More slots help short prompts:
100 tokens generated after 80 take 5-6 s of CPU with 1 slot, 3.5-5 with 2, 3 with 4 and 2.7 with 8, but each
slot has to read the shared prefix once. Hence 4.

Threads: one per core. libgomp's threads wait for each other a few hundred times a token. Its default, a long
spin, took 118 s of CPU where a short spin took 23 s in one run beside other work (load 5), though the same in
another. Not spinning at all (OMP_WAIT_POLICY=passive) costs 44 % of the speed of a single answer on a quiet
machine. GOMP_SPINCOUNT=2000 keeps most of it (76-86 of 90-93 tokens/s): `LocalServer` sets it unless the
environment does.
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
