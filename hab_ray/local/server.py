"""Starting, watching and stopping the model server's process."""

from __future__ import annotations

import os
import secrets
import select
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import BaseModel, ConfigDict

from hab_ray.local.errors import LocalError
from hab_ray.local.pidfile import PidFile, end_stale

_STOP_S = 5.0
_LOG_LINES = 15
_THREADS = {"GOMP_SPINCOUNT": "2000", "TOKENIZERS_PARALLELISM": "false"}

Process = subprocess.Popen[bytes]


class Ready(BaseModel):
    """The one line the server writes to its standard output, once it answers requests."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A running model server. `url` is the base URL of its OpenAI protocol, e.g. `http://127.0.0.1:40213/TOKEN/v1`.

    The token is a secret: it keeps other users of the machine off the port.
    """

    url: str
    _process: Process
    _pid_file: Path

    @classmethod
    def start(
        cls,
        chat: Mapping[str, Path],
        embeddings: Sequence[str],
        *,
        log: Path,
        pid_file: Path,
        slots: int = 4,
        timeout_s: float = 60.0,
    ) -> Self:
        """Start a server and wait until it answers.

        `chat` maps the names requests use to .gguf files, `embeddings` lists embedding models (`wordllama`),
        `slots` answers are generated at a time. A server that `pid_file` names and nobody uses any more is
        ended first.

        Raises:
            LocalError: if it is not ready within `timeout_s` or died, with the end of its log.
        """
        end_stale(pid_file)
        for path in (log, pid_file):
            path.parent.mkdir(parents=True, exist_ok=True)
        mark = secrets.token_hex(8)
        process = _spawn(_command(chat, embeddings, slots, mark), log)
        PidFile(pid=process.pid, parent=os.getpid(), mark=mark).write(pid_file)
        try:
            ready = _await_ready(process, log, timeout_s)
        except BaseException:
            _end(process)
            pid_file.unlink(missing_ok=True)
            raise
        return cls(ready.url, process, pid_file)

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    def stop(self) -> None:
        """End the server and wait until it is gone; a second call does nothing."""
        _end(self._process)
        self._pid_file.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _command(chat: Mapping[str, Path], embeddings: Sequence[str], slots: int, mark: str) -> list[str]:
    models = [f"--chat={name}={path.resolve()}" for name, path in chat.items()]
    models += [f"--embeddings={name}" for name in embeddings]
    process = [f"--slots={slots}", f"--parent={os.getpid()}", f"--mark={mark}"]
    return [sys.executable, "-m", "hab_ray.local", "serve", *models, *process]


def _spawn(command: Sequence[str], log: Path) -> Process:
    """Start the process, in a session of its own so that Ctrl-C reaches it only through its starter.

    It is started by a thread that lives as long as it does: Linux sends the parent-death signal when the
    *thread* that started a child ends, and `start` may be called from a worker thread.
    """
    started: Future[Process] = Future()

    def keep() -> None:
        try:
            with log.open("ab") as file:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=file,
                    start_new_session=True,
                    env=_THREADS | os.environ,
                )
        except OSError as error:
            started.set_exception(error)
        else:
            started.set_result(process)
            process.wait()

    threading.Thread(target=keep, name="local-server", daemon=True).start()
    return started.result()


def _await_ready(process: Process, log: Path, timeout_s: float) -> Ready:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], timeout_s)
    line = process.stdout.readline() if readable else b""
    if line:
        return Ready.model_validate_json(line)
    happened = f"is not ready after {timeout_s:g} s" if not readable else "died at its start"
    raise LocalError(f"the local model server {happened}. The end of its log {log}:\n{_tail(log)}")


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:])


def _end(process: Process) -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
