"""Starting, watching and stopping the model server's process."""

from __future__ import annotations

import os
import secrets
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from hab_ray.local.errors import LocalError
from hab_ray.local.pidfile import PidFile, end_stale

TOKEN = "HAB_LOCAL_TOKEN"
MAX_RESTARTS = 5
_STOP_S = 5.0
_AGAIN_S = 20.0
_WAITING = 1024
_LOG_LINES = 15
_THREADS = {"GOMP_SPINCOUNT": "2000", "TOKENIZERS_PARALLELISM": "false"}

Process = subprocess.Popen[bytes]


class LocalServer:
    """A running model server. `url` is the base URL of its OpenAI protocol, e.g. `http://127.0.0.1:40213/TOKEN/v1`.

    The token is a secret: it keeps other users of the machine off the port. The child learns it from its environment,
    which nobody else can read.

    The socket it listens on belongs to this process: a server that dies is started again behind it, and requests wait
    there meanwhile. After `MAX_RESTARTS` of them, or one that fails, they are refused.
    """

    def __init__(self, command: Sequence[str], log: Path, pid_file: Path) -> None:
        self.url = ""
        self._mark, self._token = secrets.token_hex(8), secrets.token_urlsafe(16)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=_WAITING)
        own = (f"--listener={self._listener.fileno()}", f"--parent={os.getpid()}", f"--mark={self._mark}")
        self._command, self._log, self._pid_file = [*command, *own], log, pid_file
        self._changing = threading.Lock()
        self._process: Process | None = None
        self._ended = False

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
        server = cls(_command(chat, embeddings, slots), log, pid_file)
        started: Future[str] = Future()
        threading.Thread(target=server._keep, args=(started, timeout_s), name="local-server", daemon=True).start()
        try:
            server.url = started.result()
        except BaseException:
            server.stop()
            raise
        return server

    @property
    def pid(self) -> int:
        """The server's process id; another after a restart."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """End the server and wait until it is gone; a second call does nothing."""
        with self._changing:
            self._ended = True
        if self._process is not None:
            _end(self._process)
        self._listener.close()
        self._pid_file.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _keep(self, started: Future[str], timeout_s: float) -> None:
        """Start the process, and again whenever it dies, in a thread that lives as long as it does.

        Linux sends the parent-death signal when the *thread* that started a child ends, and `start` may be called from
        a worker thread.
        """
        began = time.monotonic()
        try:
            process, url = self._launch(timeout_s)
        except Exception as error:
            started.set_exception(error)
            return
        started.set_result(url)
        again_s = max(_AGAIN_S, 2 * (time.monotonic() - began))
        for _ in range(MAX_RESTARTS):
            status = process.wait()
            if self._ended:
                return
            self._note(f"process {process.pid} ended with status {status}, and is started again")
            try:
                process, _ = self._launch(again_s)
            except (LocalError, OSError) as error:
                self._note(f"not started again: {error}")
                break
        else:
            process.wait()
        self._listener.close()

    def _launch(self, timeout_s: float) -> tuple[Process, str]:
        """Start a process and wait until it answers; its URL.

        Raises:
            LocalError: it does not, or the server was stopped.
        """
        with self._changing:
            if self._ended:
                raise LocalError("the local model server was stopped")
            process = self._process = _spawn(self._command, self._log, self._listener.fileno(), self._token)
            PidFile(pid=process.pid, parent=os.getpid(), mark=self._mark).write(self._pid_file)
        try:
            return process, _await_ready(process, self._log, timeout_s)
        except BaseException:
            _end(process)
            raise

    def _note(self, text: str) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"local model server: {text}\n")


def _command(chat: Mapping[str, Path], embeddings: Sequence[str], slots: int) -> list[str]:
    models = [f"--chat={name}={path.resolve()}" for name, path in chat.items()]
    models += [f"--embeddings={name}" for name in embeddings]
    return [sys.executable, "-m", "hab_ray.local", "serve", *models, f"--slots={slots}"]


def _spawn(command: Sequence[str], log: Path, listener: int, token: str) -> Process:
    """Start the process, in a session of its own so that Ctrl-C reaches it only through its starter."""
    with log.open("ab") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=file,
            start_new_session=True,
            pass_fds=(listener,),
            env=_THREADS | os.environ | {TOKEN: token},
        )


def _await_ready(process: Process, log: Path, timeout_s: float) -> str:
    """The server's URL: the one line that it writes to its standard output, once it answers requests."""
    assert process.stdout is not None
    with process.stdout:
        readable, _, _ = select.select([process.stdout], [], [], timeout_s)
        line = process.stdout.readline() if readable else b""
    if line:
        return line.decode().strip()
    happened = f"is not ready after {timeout_s:g} s"
    if readable:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
        happened = f"died at its start (status {process.returncode})"
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
