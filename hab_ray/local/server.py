"""Starts, watches and stops the model server's process."""

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

TOKEN = "HAB_LOCAL_TOKEN"
MAX_RESTARTS = 5
_STOP_S = 5.0
_RESTART_S = 20.0
_BACKLOG = 1024
_LOG_LINES = 15
_THREADS = {"GOMP_SPINCOUNT": "2000", "TOKENIZERS_PARALLELISM": "false"}

Process = subprocess.Popen[bytes]


class LocalServer:
    """A running model server. `url` is the base URL of its OpenAI protocol, e.g. `http://127.0.0.1:40213/TOKEN/v1`.

    The token is a secret that keeps other users of the machine off the port. The child gets it through its environment,
    which other users cannot read.

    This process owns the listening socket. A server that dies is restarted, and requests wait on the socket meanwhile.
    After `MAX_RESTARTS` restarts, or one that fails, connections are refused.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.url = ""
        self._token = secrets.token_urlsafe(16)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        options = (f"--listener={self._listener.fileno()}", f"--parent={os.getpid()}")
        self._command, self._log = [*command, *options], log
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._is_stopped = False

    @classmethod
    def start(
        cls,
        chat: Mapping[str, Path],
        embeddings: Sequence[str],
        *,
        log: Path,
        slots: int = 4,
        timeout_s: float = 60.0,
    ) -> Self:
        """Start a server and wait until it answers.

        `chat` maps model names to .gguf files, `embeddings` lists embedding models (`wordllama`), and each chat model
        generates `slots` answers at a time.

        Raises:
            LocalError: the server died or is not ready within `timeout_s`; the message ends with the tail of its log.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        server = cls(_command(chat, embeddings, slots), log)
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
        """The server's process id, which changes at a restart."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """End the server and wait for its process; a second call does nothing."""
        with self._lock:
            self._is_stopped = True
        if self._process is not None:
            _end(self._process)
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _keep(self, started: Future[str], timeout_s: float) -> None:
        """Start the process, wait for it, and restart it when it dies.

        Needs a thread of its own: Linux sends the parent-death signal when the *thread* that started a child ends, and
        `start` may be called from a worker thread.
        """
        began = time.monotonic()
        try:
            process, url = self._launch(timeout_s)
        except Exception as error:
            started.set_exception(error)
            return
        started.set_result(url)
        restart_timeout_s = max(_RESTART_S, 2 * (time.monotonic() - began))
        for _ in range(MAX_RESTARTS):
            status = process.wait()
            if self._is_stopped:
                return
            self._write_log(f"process {process.pid} ended with status {status}, restarting")
            try:
                process, _ = self._launch(restart_timeout_s)
            except (LocalError, OSError) as error:
                self._write_log(f"not restarted: {error}")
                break
        else:
            process.wait()
        self._listener.close()

    def _launch(self, timeout_s: float) -> tuple[Process, str]:
        """Start a process, wait until it answers, and return it with its URL.

        Raises:
            LocalError: it does not answer in time, or `stop` was called.
        """
        with self._lock:
            if self._is_stopped:
                raise LocalError("the local model server was stopped")
            process = self._process = _spawn(self._command, self._log, self._listener.fileno(), self._token)
        try:
            return process, _await_ready(process, self._log, timeout_s)
        except BaseException:
            _end(process)
            raise

    def _write_log(self, text: str) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"local model server: {text}\n")


def _command(chat: Mapping[str, Path], embeddings: Sequence[str], slots: int) -> list[str]:
    models = [f"--chat={name}={path.resolve()}" for name, path in chat.items()]
    models += [f"--embeddings={name}" for name in embeddings]
    return [sys.executable, "-P", "-m", "hab_ray.local", *models, f"--slots={slots}"]


def _spawn(command: Sequence[str], log: Path, listener: int, token: str) -> Process:
    """Start the process in its own session, so that a terminal's Ctrl-C does not reach it directly."""
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
    """Return the server's URL, which it prints as its only line of output once it answers requests."""
    assert process.stdout is not None
    with process.stdout:
        output = select.poll()  # unlike select(), also of descriptors from 1024 on
        output.register(process.stdout, select.POLLIN)
        readable = output.poll(timeout_s * 1000)
        line = process.stdout.readline() if readable else b""
    if line:
        return line.decode().strip()
    failure = f"is not ready after {timeout_s:g} s"
    if readable:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
        failure = f"died at its start (status {process.returncode})"
    tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:])
    raise LocalError(f"the local model server {failure}. The end of its log {log}:\n{tail}")


def _end(process: Process) -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
