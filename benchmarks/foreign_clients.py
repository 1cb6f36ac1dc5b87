"""Clients that nobody here wrote, online and by batch, against `hab simulate`: rows answered, and rows billed once.

Run: python -m benchmarks.foreign_clients [--rows 100] [--folder PATH]. inspect-ai (with OpenAI's, Anthropic's and
Google's SDK) and bespokelabs-curator are installed into environments of their own below the folder (default: a folder
of the user's cache), where they stay for the next time. One line per client and mode; status 1 if any row is missing
or was billed otherwise than once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environments import environment
from hab_ray.simulator import SimulatorClient

_HERE = Path(__file__).parent
_LIMIT_S = 600.0


@dataclass(frozen=True)
class ForeignClient:
    """A client: the packages it needs, the script that drives it, the model it asks, and where it finds its vendor."""

    name: str
    packages: tuple[str, ...]
    script: str
    model: str
    base: str


_INSPECT = ("inspect-ai", "openai", "anthropic", "google-genai")
_CLIENTS = (
    ForeignClient("inspect-ai, OpenAI", _INSPECT, "foreign_inspect.py", "openai/gpt-4o", "/openai/v1"),
    ForeignClient("inspect-ai, Anthropic", _INSPECT, "foreign_inspect.py", "anthropic/claude-opus-5-5", "/anthropic"),
    ForeignClient("inspect-ai, Gemini", _INSPECT, "foreign_inspect.py", "google/gemini-3.8-flash", "/google"),
    ForeignClient("curator, OpenAI", ("bespokelabs-curator",), "foreign_curator.py", "gpt-4o", "/openai/v1"),
)


@dataclass(frozen=True)
class Outcome:
    """What came of one client in one mode: rows with an answer, rows billed, bodies billed more than once."""

    client: str
    mode: str
    answered: int
    billed: int
    doubled: int
    seconds: float

    def is_whole(self, rows: int) -> bool:
        """Whether each row was answered and billed once."""
        return (self.answered, self.billed, self.doubled) == (rows, rows, 0)


def main() -> None:
    """Install, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=Path.home() / ".cache" / "hab_ray" / "foreign")
    given = parser.parse_args()
    whole = True
    for client in _CLIENTS:
        python = environment(given.folder, client.packages)
        for mode in ("online", "batch"):
            outcome = _run(client, python, mode, given.rows, given.folder)
            whole = whole and outcome.is_whole(given.rows)
            print(
                f"{outcome.client:24} {outcome.mode:7} {outcome.answered:4} of {given.rows} rows answered, "
                f"{outcome.billed:4} billed, {outcome.doubled} of them twice, {outcome.seconds:5.1f} s",
                flush=True,
            )
    sys.exit(0 if whole else 1)


def _run(client: ForeignClient, python: Path, mode: str, rows: int, folder: Path) -> Outcome:
    with simulate() as url:
        work = folder / "work" / f"{time.time_ns()}"
        work.mkdir(parents=True)
        asked = {
            "model": client.model,
            "url": url + client.base,
            "rows": rows,
            "batch": mode == "batch",
            "folder": str(work),
        }
        begun = time.monotonic()
        answered = _answers(python, client.script, asked, work)
        seconds = time.monotonic() - begun
        meter = SimulatorClient(url).meter()
    billed = meter.billed if mode == "online" else meter.batch.lines_billed
    return Outcome(client.name, mode, answered, billed, meter.billed_more_than_once.bodies, seconds)


def _answers(python: Path, script: str, asked: Mapping[str, object], work: Path) -> int:
    """The rows that the client says it has answers for; none where it fails, which is printed."""
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"), "simulated")
    quiet = {"TELEMETRY_ENABLED": "false", "TIKTOKEN_CACHE_DIR": str(_token_tables(python))}
    command = [str(python), str(_HERE / script), json.dumps(asked)]
    with (work / "log").open("w+") as log:
        try:
            status = subprocess.run(
                command,
                cwd=work,
                env={**os.environ, **keys, **quiet},
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=_LIMIT_S,
            ).returncode
        except subprocess.TimeoutExpired:
            status = -1
        log.seek(0)
        lines = log.read().splitlines()
    counts = [line for line in lines if line.startswith("answered: ")]
    if status or not counts:
        print(*lines[-20:], sep="\n", file=sys.stderr)
        return 0
    return int(counts[-1].removeprefix("answered: "))


def _token_tables(python: Path) -> Path:
    """Where litellm, which curator installs, brings the tables of tiktoken, which would else be downloaded."""
    found = python.parent.parent.glob("lib/python*/site-packages/litellm/litellm_core_utils/tokenizers")
    return next(found, python.parent)


@contextmanager
def simulate() -> Iterator[str]:
    """`hab simulate` in a process of its own; its URL."""
    command = [sys.executable, "-m", "hab_ray.cli", "simulate"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"})
    try:
        assert process.stdout is not None
        yield process.stdout.readline().partition(" at ")[2].partition(";")[0]
    finally:
        process.terminate()
        process.communicate(timeout=30)


if __name__ == "__main__":
    main()
