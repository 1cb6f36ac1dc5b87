"""Small sweeps against servers that nobody here wrote, online and by batch as far as they speak it.

Run: python -m benchmarks.foreign_servers [--folder PATH]. PyPI's llmock and npm's @copilotkit/aimock (where npm is
installed) are put below the folder (default: a folder of the user's cache). One line per server, vendor and mode:
rows answered, verdicts read or unreadable, batches; status 1 if any sweep is not complete. llmock answers with texts of
its own and says at the end what it thinks of the client's manners; aimock gives the same text to whatever is asked,
here a verdict.

Unreadable verdicts are the server's doing: llmock heeds a JSON schema online alone, and not at Anthropic's; aimock's
batches answer with a text of their own. Not tried, because the server does not speak the vendor's protocol there: at
llmock Gemini's batches (another envelope, no upload of files) and xAI's (no counters), at aimock Anthropic's and
Gemini's batches (none), embeddings.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from benchmarks.environments import environment
from hab_ray import open_run

_LLMOCK, _AIMOCK = "llmock==0.2.2", "@copilotkit/aimock@1.43.0"
_LIMIT_S = 300.0
_DIMENSION = "correct_misinformation"
_CANNED = {"assessment": "It corrects what is wrong.", "issues": []}


@dataclass(frozen=True)
class Account:
    """A vendor as a server plays it: kind, model, path below the server's URL, and whether its batches are played."""

    kind: str
    model: str
    path: str
    batches: bool


_OF_LLMOCK = (
    Account("openai", "gpt-4o", "/v1", batches=True),
    Account("anthropic", "claude-haiku-4-5", "/anthropic", batches=True),
    Account("google", "gemini-3.8-flash", "/gemini", batches=False),
    Account("xai", "grok-4.3", "/xai/v1", batches=False),
)
_OF_AIMOCK = (
    Account("openai", "gpt-4o", "/v1", batches=True),
    Account("anthropic", "claude-haiku-4-5", "", batches=False),
    Account("google", "gemini-3.8-flash", "", batches=False),
)


def main() -> None:
    """Install, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path.home() / ".cache" / "hab_ray" / "foreign")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with _llmock(folder) as url:
        whole = _sweeps("llmock", url, _OF_LLMOCK)
        print(f"llmock's verdict: {_get(f'{url}/_llmock/verdict')}")
    npm = shutil.which("npm")
    if npm is None:
        print("aimock: not tried, npm is not installed")
    else:
        with _aimock(folder, npm) as url:
            whole = _sweeps("aimock", url, _OF_AIMOCK) and whole
    sys.exit(0 if whole else 1)


def _sweeps(server: str, url: str, accounts: Sequence[Account]) -> bool:
    """Whether all of them are complete."""
    whole = True
    for account in accounts:
        for mode in ("online", "batch") if account.batches else ("online",):
            with TemporaryDirectory() as work:
                whole = _sweep(server, url, account, mode, Path(work)) and whole
    return whole


def _sweep(server: str, url: str, account: Account, mode: str, work: Path) -> bool:
    """Run one sweep and print what came of it; whether it is complete."""
    path = work / "sweep.yaml"
    path.write_text(yaml.safe_dump(_described(url, account, mode)))
    begun = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "hab_ray.cli", "run", str(path), "--yes"],
        cwd=work,
        env={**os.environ, "FOREIGN_KEY": "simulated"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_LIMIT_S,
    )
    seconds = time.monotonic() - begun
    run = open_run(work / "runs" / "foreign")
    answers = run.responses().column("state").to_pylist()
    verdicts = run.verdicts().column("state").to_pylist()
    batches = len(list((work / "store" / "ledger").rglob("*-harvested.json")))
    print(
        f"{server:7} {account.kind:10} {mode:7} {answers.count('ok'):3} of {len(answers)} rows answered, "
        f"{verdicts.count('ok'):3} verdicts read, {verdicts.count('unreadable'):3} unreadable, {batches} batches, "
        f"status {ended.returncode}, {seconds:5.1f} s",
        flush=True,
    )
    if ended.returncode:
        print(ended.stdout[-2000:], file=sys.stderr)
    return ended.returncode == 0 and answers.count("ok") == len(answers) > 0


def _described(url: str, account: Account, mode: str) -> dict[str, Any]:
    """A sweep of the rubric's own seed queries. The judge is asked as the subject is."""
    provider = {
        "kind": account.kind,
        "url": url + account.path,
        "key_env": "FOREIGN_KEY",
        "price": {"input": 1, "output": 2},
        "limits": {"concurrent": 8, "patience_s": 20, "timeout_s": 30},
        "batches": {"poll_s": 0.5, "longest_poll_s": 1, "still_s": 1},
        **({"batch": {"discount": 0.5}} if account.batches else {}),
    }
    return {
        "name": "foreign",
        "store": "store",
        "tests": "seeds",
        "dimensions": [_DIMENSION],
        "mode": mode,
        "providers": {"there": provider},
        "subjects": [f"there/{account.model}"],
        "judges": [f"there/{account.model}"],
    }


@contextmanager
def _llmock(folder: Path) -> Iterator[str]:
    python = environment(folder, [_LLMOCK])
    port = _free_port()
    command = [str(python.parent / "llmock"), "serve", "--port", str(port), "--log-level", "warning"]
    with _serving(command, folder, port) as url:
        yield url


@contextmanager
def _aimock(folder: Path, npm: str) -> Iterator[str]:
    place = folder / "aimock"
    if not (place / "node_modules" / ".bin" / "llmock").exists():
        place.mkdir(parents=True, exist_ok=True)
        quiet = ["--silent", "--no-audit", "--no-fund"]
        subprocess.run([npm, "install", *quiet, "--prefix", str(place), _AIMOCK], check=True)
    fixture = {"match": {}, "response": {"content": json.dumps(_CANNED)}}
    (place / "fixture.json").write_text(json.dumps({"fixtures": [fixture]}))
    port = _free_port()
    binary = str(place / "node_modules" / ".bin" / "llmock")
    command = [binary, "--port", str(port), "--fixtures", str(place / "fixture.json"), "--log-level", "warn"]
    with _serving(command, folder, port) as url:
        yield url


@contextmanager
def _serving(command: Sequence[str], folder: Path, port: int) -> Iterator[str]:
    """A server in a process of its own; its URL, once it listens."""
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{command[0]} does not listen: {(folder / 'server.log').read_text()[-1000:]}")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read(2000).decode())


if __name__ == "__main__":
    main()
