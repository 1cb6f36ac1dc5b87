"""The simulator as a process of its own, which ends with the one that started it."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hab_simulator.profile import Profile

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.02
_WATCH_S = 1.0
_STOP_S = 5.0
_LOG_SHOWN = 2000


class SimulatorFailed(RuntimeError):
    """The simulator's process did not come up; the message holds the end of what it wrote."""


@dataclass(slots=True)
class SimulatorProcess:
    """A simulator in a child process, at `url`.

    It dies with the thread that started it (Linux: PR_SET_PDEATHSIG), so start it from a thread that lives
    as long as it is needed.
    """

    url: str
    pid: int
    _process: subprocess.Popen[bytes] = field(repr=False)
    _folder: TemporaryDirectory[str] = field(repr=False)

    @classmethod
    def start(cls, profile: Profile | None = None, *, timeout_s: float = 30.0) -> SimulatorProcess:
        """Start one and wait until it listens. Raises SimulatorFailed."""
        folder = TemporaryDirectory(prefix="hab-simulator-")
        settings, ready, log = (Path(folder.name) / name for name in ("profile.json", "ready.json", "log"))
        chosen = profile or Profile()
        if chosen.folder is None:
            chosen = chosen.model_copy(update={"folder": Path(folder.name)})
        settings.write_text(chosen.model_dump_json(), "utf-8")
        command = [sys.executable, "-P", "-m", "hab_simulator", "--profile", str(settings), "--ready", str(ready)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                process_group=0,  # a Ctrl-C is for those who call it: they still wait for its answers
            )
        end = time.monotonic() + timeout_s
        while not ready.exists():
            ended = process.poll()
            if ended is not None or time.monotonic() > end:
                process.kill()
                process.wait()
                said = log.read_text("utf-8", "replace")[-_LOG_SHOWN:]
                folder.cleanup()
                why = f"ended with status {ended}" if ended else f"did not listen within {timeout_s:g} s"
                raise SimulatorFailed(f"the simulator {why} and said:\n{said}")
            time.sleep(_POLL_S)
        place = json.loads(ready.read_bytes())
        return cls(place["url"], place["pid"], process, folder)

    def stop(self) -> None:
        """End it and wait until it is gone; a second call does nothing."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def __enter__(self) -> SimulatorProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process when its parent goes (Linux). Raises SystemExit if it went before."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(f"the process {parent} that started the simulator is gone")


async def parent_gone(parent: int) -> None:
    """Return once the parent is gone: the watch where the kernel keeps none."""
    while os.getppid() == parent:
        await asyncio.sleep(_WATCH_S)


def publish(ready: Path, url: str) -> None:
    """Write {"url", "pid"} so that a reader sees the whole file or none."""
    aside = ready.with_name(f"{ready.name}.{os.getpid()}")
    aside.write_text(json.dumps({"url": url, "pid": os.getpid()}), "utf-8")
    aside.replace(ready)
