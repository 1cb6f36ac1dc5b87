"""A driver that kills itself at a chosen put or vendor call, and the sweep it drives."""

import itertools
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from hab_ray.config.sweep import load_sweep
from hab_ray.providers.anthropic.batch import AnthropicBatches
from hab_ray.providers.google.batch import GoogleBatches
from hab_ray.providers.openai.batch import OpenAIBatches
from hab_ray.providers.xai.batch import XaiBatches
from hab_ray.resolve import resolve, write_record
from hab_ray.stopping import Stop
from hab_ray.storage.folder import Folder, LocalFolder
from hab_ray.storage.s3.folder import S3Folder
from hab_ray.sweep.options import Options
from hab_ray.sweep.run import drive
from hab_ray.sweep.session import spending
from tests.forking import Forks

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


def _wrapped_change(points: Points, name: str, change: Callable[..., None], named: int) -> Callable[..., None]:
    """A change of a folder, whose argument of this number is the file that there is afterwards."""

    def dying(folder: Folder, *arguments: Any) -> None:
        what = f"{name} {_what(arguments[named])}"
        points.pass_by(f"before {what}")
        change(folder, *arguments)
        points.pass_by(f"after {what}")

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
    for kind in (LocalFolder, S3Folder):
        for name, named in (("put", 0), ("put_new", 0), ("move", 1)):
            setattr(kind, name, _wrapped_change(points, name, getattr(kind, name), named))
    for api in APIS.values():
        for verb in VERBS:
            setattr(api, verb, _wrapped_verb(points, verb, getattr(api, verb)))


def sweep_file(folder: Path, vendor: str, url: str, word: str, **changes: Any) -> Path:
    """A sweep of one model by batch with top-level keys changed; `word` makes its bodies unlike those of every other.

    Where its store is in a bucket, a dead holder is outwaited soon.
    """
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
    sweep = {
        "name": "crash",
        "run": str(folder / "run"),
        "store": str(folder / "store"),
        "lease": {"renew_s": 0.2, "lost_s": 1.0, "take_s": 1.5},
        "mode": "batch",
        "tests": str(tests),
        "dimensions": [DIMENSION],
        "providers": {vendor: account},
        "subjects": [model],
        "judges": [model],
    }
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump(sweep | changes))
    return path


def changed(sweep: Path, **changes: Any) -> Path:
    """The same sweep file with top-level keys changed."""
    sweep.write_text(yaml.safe_dump(yaml.safe_load(sweep.read_text()) | changes))
    return sweep


def account_of(sweep: Path) -> dict[str, Any]:
    """The one provider of a sweep file."""
    (account,) = yaml.safe_load(sweep.read_text())["providers"].values()
    return dict(account)


def run(sweep: Path) -> int:
    """Drive a sweep in this process, as `hab run` does; the exit status."""
    now = datetime.now(UTC)
    work = resolve(load_sweep(sweep), now)
    with spending(work, Stop()) as session:
        write_record(work, now)
        return int(drive(session, Options()).exit)


def drive_apart(forks: Forks, sweep: Path, at: str | None = None) -> int:
    """Drive a sweep in a process of its own that dies at a point; its exit status, -9 when it died.

    What it printed, and the points it came by where it lived, are written beside the sweep.
    """
    arguments = [str(sweep), *([at] if at else [])]
    process = forks.start("tests.sweep.crashing", arguments, sweep.parent, os.environ)
    said, _ = process.communicate(timeout=120)
    with sweep.with_suffix(".log").open("a") as log:
        log.write(said)
    return process.returncode


def _main(sweep: Path, at: str | None) -> int:
    points = Points(at, [])
    arm(points)
    status = run(sweep)
    sweep.with_suffix(".points").write_text("\n".join(points.seen))
    return status


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1]), next(iter(sys.argv[2:]), None)))
