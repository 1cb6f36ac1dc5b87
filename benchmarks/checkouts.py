"""Another commit's code beside the working tree's: its checkout, and how its commands and its simulator are started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_START_S = 30.0


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """A temporary worktree of a commit, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="hab-checkout-") as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def environment(tree: Path) -> dict[str, str]:
    """An environment in which `hab_ray` is the checkout's, also in Ray's workers; packages are this Python's."""
    return {**os.environ, "PYTHONPATH": str(tree), "RAY_AUTH_MODE": "disabled"}


def start_hab(tree: Path, folder: Path, *arguments: object) -> subprocess.Popen[str]:
    """The checkout's `hab`, started in `folder` and in a process group of its own, its output in `hab.log`."""
    with (folder / "hab.log").open("a") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "hab_ray.cli", *map(str, arguments)],
            cwd=folder,
            env=environment(tree),
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )


@contextmanager
def simulator(tree: Path, profile: Mapping[str, Any]) -> Iterator[str]:
    """The checkout's simulator as a process of its own; gives its URL."""
    with tempfile.TemporaryDirectory(prefix="hab-simulated-") as name:
        folder = Path(name)
        settings, ready = folder / "profile.json", folder / "ready.json"
        settings.write_text(json.dumps({**profile, "folder": name}))
        command = [sys.executable, "-m", "hab_simulator", "--profile", str(settings), "--ready", str(ready)]
        process = subprocess.Popen(command, cwd=folder, env=environment(tree), stdout=subprocess.DEVNULL)
        try:
            until = time.monotonic() + _START_S
            while not ready.exists():
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"the simulator of {tree} did not start")
                time.sleep(0.02)
            yield str(json.loads(ready.read_bytes())["url"])
        finally:
            process.terminate()
            process.wait(10)
