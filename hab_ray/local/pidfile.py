"""The pid file, by which the next start finds a server that outlived the process that started it.

The system may have reused the pid since. So each server carries a random mark on its command line, and a process is
ours only if its command line has the mark of the pid file. A server whose parent has died gets another parent, so its
parent's pid shows whether it is still in use.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from hab_ray.local.errors import LocalError

_KILL_TIMEOUT_S = 5.0


class PidFile(BaseModel):
    """The content of a pid file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pid: int
    parent: int
    mark: str

    def write(self, path: Path) -> None:
        """Write the file atomically."""
        aside = path.with_name(f"{path.name}.{self.pid}")
        aside.write_text(self.model_dump_json(), encoding="utf-8")
        aside.replace(path)


def end_stale(path: Path) -> None:
    """If the pid file exists, kill the server it names, unless that is in use, and remove the file.

    Raises:
        LocalError: the process that started the server is alive, or the server does not end.
    """
    try:
        named = PidFile.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return
    except ValidationError:
        path.unlink(missing_ok=True)
        return
    process = _process(named.pid)
    if process is not None and named.mark in process.command:
        if process.parent == named.parent:
            raise LocalError(
                f"{path}: process {named.parent} is using the local model server {named.pid}; "
                "wait for it to end or use another pid file"
            )
        _kill(named, path)
    path.unlink(missing_ok=True)


def _kill(named: PidFile, path: Path) -> None:
    with suppress(ProcessLookupError):  # it notices the death of its parent by itself
        os.kill(named.pid, signal.SIGKILL)
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    while (process := _process(named.pid)) is not None and named.mark in process.command:
        if time.monotonic() > deadline:
            raise LocalError(f"{path}: the stale local model server {named.pid} does not end; kill it by hand")
        time.sleep(0.05)


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    command: str


def _process(pid: int) -> _Process | None:
    """Return the process with this pid, or None; also if it is another user's and hidden. A zombie has no command."""
    if not Path("/proc/self").exists():
        return _process_by_ps(pid)
    proc = Path("/proc") / str(pid)
    try:
        status = (proc / "status").read_text()
        command = (proc / "cmdline").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    parent = next(line for line in status.splitlines() if line.startswith("PPid:"))
    return _Process(int(parent.split()[1]), command.replace("\0", " "))


def _process_by_ps(pid: int) -> _Process | None:
    """Like `_process`, for systems without /proc (macOS)."""
    command = ["ps", "-o", "ppid=,command=", "-p", str(pid)]
    parent, _, line = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip().partition(" ")
    return _Process(int(parent), line) if parent else None
