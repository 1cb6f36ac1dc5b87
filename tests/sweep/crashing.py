"""A driver that kills itself at a chosen put or vendor call, and the sweep it drives."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas  # type: ignore[import-untyped]  # noqa: F401  the drivers' own slow imports, done once before they are forked
import pyarrow.compute
import pyarrow.parquet  # noqa: F401
import yaml

import hab_ray.providers.anthropic
import hab_ray.providers.google
import hab_ray.providers.openai
import hab_ray.serving  # noqa: F401
from hab_ray.config import load_sweep
from hab_ray.providers.anthropic_batch import AnthropicBatches
from hab_ray.providers.google_batch import GoogleBatches
from hab_ray.providers.openai_batch import OpenAIBatches
from hab_ray.providers.xai_batch import XaiBatches
from hab_ray.resolve import resolve, write_record
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.lease import LocalLease
from hab_ray.sweep import Options, drive

VERBS = ("owner", "newest", "submit", "since", "poll", "cancel", "clean_up")
MODELS = {
    "openai": "gpt-4.1-mini",
    "anthropic": "claude-haiku-5-5",
    "google": "gemini-3.5-flash-lite",
    "xai": "grok-4.3",
}
APIS = {"openai": OpenAIBatches, "anthropic": AnthropicBatches, "google": GoogleBatches, "xai": XaiBatches}
TESTS = 3
DIMENSION = "encourage_learning"


@dataclass
class Points:
    """Where a driver may die, in the order it comes by; it dies at the first of the name `at`. `seen` has them all."""

    at: str | None
    seen: list[str]

    def pass_by(self, name: str) -> None:
        self.seen.append(name)
        if self.at == name:
            os.kill(os.getpid(), signal.SIGKILL)


def _what(file: str) -> str:
    """What is put: the folder it goes to and, in the ledger, what it is there, without numbers and hashes."""
    folder = "/".join(itertools.takewhile(lambda part: not part[:1].isdigit(), Path(file).parts[:-1]))
    if not folder.startswith("ledger"):
        return folder or file
    first, _, last = Path(file).name.partition("-")
    return f"{folder} {last if first.isdigit() else first}"


def _wrapped_put(points: Points, name: str, put: Callable[..., None]) -> Callable[..., None]:
    def dying(folder: LocalFolder, file: str, data: bytes) -> None:
        points.pass_by(f"before {name} {_what(file)}")
        put(folder, file, data)
        points.pass_by(f"after {name} {_what(file)}")

    return dying


def _wrapped_verb(points: Points, name: str, verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def dying(api: Any, *arguments: Any) -> Any:
        points.pass_by(f"before {name}")
        answer = await verb(api, *arguments)
        points.pass_by(f"after {name}")
        return answer

    return dying


def arm(points: Points) -> None:
    """Have this process pass by its points from now on."""
    for name in ("put", "put_new"):
        setattr(LocalFolder, name, _wrapped_put(points, name, getattr(LocalFolder, name)))
    for api in APIS.values():
        for verb in VERBS:
            setattr(api, verb, _wrapped_verb(points, verb, getattr(api, verb)))


def sweep_file(folder: Path, vendor: str, url: str, word: str) -> Path:
    """A sweep of one model by batch; `word` makes its bodies unlike those of every other."""
    tests = folder / "tests.jsonl"
    rows = [
        {"id": f"t{n}", "dimension": DIMENSION, "prompt": f"{word}: how do I solve task {n} myself?"}
        for n in range(TESTS)
    ]
    tests.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = MODELS[vendor]
    account = {
        "kind": vendor,
        "url": f"{url}/{vendor}" + ("/v1" if vendor in ("openai", "xai") else ""),
        "priced_as": vendor.replace("xai", "x-ai"),
        "batch": {"discount": 0.5},
        "batches": {"poll_s": 0.05, "longest_poll_s": 0.05, "in_doubt_s": 0.4, "still_s": 0.1},
    }
    sweep = folder / "sweep.yaml"
    sweep.write_text(
        yaml.safe_dump(
            {
                "name": "crash",
                "run": str(folder / "run"),
                "store": str(folder / "store"),
                "mode": "batch",
                "tests": str(tests),
                "dimensions": [DIMENSION],
                "providers": {vendor: account},
                "subjects": [model],
                "judges": [model],
            }
        )
    )
    return sweep


def run(sweep: Path) -> int:
    """Drive a sweep in this process, as `hab run` does; the exit status."""
    now = datetime.now(UTC)
    work = resolve(load_sweep(sweep), now)
    lease = LocalLease.acquire(work.sweep.store, work.run_path, now)
    write_record(work, now)
    end = drive(work, lease, Options())
    lease.release()
    return int(end.exit)


def in_a_child(sweep: Path, at: str | None) -> int:
    """Drive a sweep in a child of this process that dies at a point; its exit status, -9 when it died.

    The points it came by are written beside the sweep where it lived.
    """
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 99
    points = Points(at, [])
    try:
        os.dup2(os.open(sweep.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        arm(points)
        status = run(sweep)
        sweep.with_suffix(".points").write_text("\n".join(points.seen))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


class Forge:
    """A process with everything imported and no thread, which forks the drivers."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.sweep.crashing"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def drive(self, sweep: Path, at: str | None = None) -> int:
        """See `in_a_child`."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps([str(sweep), at]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


if __name__ == "__main__":
    for line in sys.stdin:
        path, place = json.loads(line)
        print(in_a_child(Path(path), place), flush=True)
