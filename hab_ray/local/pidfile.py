"""The pid file: how the next start finds a server that outlived its starter.

A pid alone may have been given to another process since. So each server carries a random mark on its command
line, and a process is ours only if it still shows the mark of the pid file. A server whose parent is gone has
been handed to another parent, so its parent's pid says whether anybody still uses it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from hab_ray.local.errors import LocalError

_DYING_S = 5.0


class PidFile(BaseModel):
    """The content of a pid file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pid: int
    parent: int
    mark: str

    def write(self, path: Path) -> None:
        """Write it aside and rename."""
        aside = path.with_name(f"{path.name}.{self.pid}")
        aside.write_text(self.model_dump_json(), encoding="utf-8")
        aside.replace(path)


def end_stale(path: Path) -> None:
    """End the server that `path` names if its starter is gone, and remove the file. No file: nothing to do.

    Raises:
        LocalError: if the server's starter is alive, or the server cannot be ended.
    """
    try:
        named = PidFile.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return
    except ValidationError:
        path.unlink()
        return
    process = _look(named.pid)
    if process is not None and named.mark in process.command:
        if process.parent == named.parent:
            raise LocalError(
                f"{path}: process {named.parent} is using the local model server {named.pid}; "
                "wait for it to end or use another pid file"
            )
        _kill(named, path)
    path.unlink(missing_ok=True)


def _kill(named: PidFile, path: Path) -> None:
    os.kill(named.pid, signal.SIGKILL)
    deadline = time.monotonic() + _DYING_S
    while (process := _look(named.pid)) is not None and named.mark in process.command:
        if time.monotonic() > deadline:
            raise LocalError(f"{path}: the stale local model server {named.pid} does not end; end it by hand")
        time.sleep(0.05)


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    command: str


def _look(pid: int) -> _Process | None:
    """The process of this pid, None if there is none. A zombie's command is empty."""
    proc = Path("/proc") / str(pid)
    if not Path("/proc/self").exists():
        return _ask_ps(pid)
    try:
        status = (proc / "status").read_text()
        command = (proc / "cmdline").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    parent = next(line for line in status.splitlines() if line.startswith("PPid:"))
    return _Process(int(parent.split()[1]), command.replace("\0", " "))


def _ask_ps(pid: int) -> _Process | None:
    """As `_look`, on systems without /proc (macOS)."""
    command = ["ps", "-o", "ppid=,command=", "-p", str(pid)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    if not shown:
        return None
    parent, _, command_line = shown.partition(" ")
    return _Process(int(parent), command_line)
