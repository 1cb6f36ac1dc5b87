"""`python -m hab_ray.cli`, and other modules, in processes forked from one that has imported everything.

A command's imports take up to four seconds of CPU, most of what a test of the command line took. A forked process
is one like any other to whoever signals it, kills it or reads what it prints, and it runs the same module from its
first line; only its imports are done, and its replies are written without waiting a second for more of them, unless
`SHIPPED_PACE` is in its environment.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import gc
import importlib
import json
import multiprocessing
import os
import pkgutil
import runpy
import select
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO
from unittest.mock import patch

from hab_ray.storage.replies import store
from tests.distributions import forget_installed

ON_DISK = store.ON_DISK  # as shipped
ROOT = Path(__file__).parent.parent
MODULES = (
    "pandas",
    "pyarrow.dataset",
    "genai_prices.data",
    "ray.data",
    "sklearn.decomposition",
    "hab_ray.cluster.lanes",
    "hab_ray.cluster.tasks",
    "hab_ray.rehearse",
    "hab_ray.sweep",
)
PACKAGES = ("hab_ray.cli", "hab_ray.providers", "hab_simulator")
SHIPPED_PACE = "HAB_TESTS_SHIPPED_PACE"
REQUEST_BYTES = 1 << 20
PR_SET_PDEATHSIG = 1


class Forked(subprocess.Popen[str]):
    """A forked process, for tests a Popen like those of `subprocess`: both its outputs are `stdout`."""

    def __init__(self, line: socket.socket, output: int, arguments: list[str]) -> None:
        self._line = line
        self.args = arguments
        self.stdin = self.stderr = None
        self.stdout = os.fdopen(output, encoding="utf-8", errors="replace")
        self.returncode = None
        self.pid = int(self._told())

    def _told(self) -> str:
        said = self._line.recv(64).decode()
        assert said, "the process that forks has ended"
        return said

    def poll(self) -> int | None:
        """The exit status, negative for a signal, or None while the process runs."""
        if self.returncode is None and select.select([self._line], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._line], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self.returncode = os.waitstatus_to_exitcode(int(self._told()))
            self._line.close()
        return self.returncode

    def communicate(self, input: str | None = None, timeout: float | None = None) -> tuple[str, str]:
        """What it prints until its end. Raises subprocess.TimeoutExpired."""
        assert self.stdout and input is None
        said: list[str] = []
        reading = threading.Thread(target=lambda: said.append(self.stdout.read() if self.stdout else ""), daemon=True)
        reading.start()
        reading.join(timeout)
        if reading.is_alive():
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        self.wait(timeout)
        self.stdout.close()
        return said[0], ""

    def send_signal(self, sig: int) -> None:
        """Send a signal unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


@dataclass(frozen=True)
class Forks:
    """Starts processes through the server that listens at `place`, a socket's path."""

    place: str

    def start(self, module: str, arguments: list[str], cwd: Path, environment: Mapping[str, str]) -> Forked:
        """Start `python -m module` with arguments in a folder, with an environment of its own."""
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_BYTES)
        line.connect(self.place)
        reading, writing = os.pipe()
        request = json.dumps(
            {"module": module, "arguments": arguments, "cwd": str(cwd), "environment": dict(environment)}
        ).encode()
        socket.send_fds(line, [request], [writing])
        os.close(writing)
        return Forked(line, reading, [module, *arguments])


class ForkServer:
    """The process with everything imported. Its imports begin when it is made; who asks early waits for them."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._folder = TemporaryDirectory(prefix="hab-forks-")
        self.forks = Forks(str(Path(self._folder.name) / "line"))
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listening.bind(self.forks.place)
        listening.listen(64)
        with listening:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forking", str(listening.fileno())],
                cwd=ROOT,
                env={**environment, "OPENBLAS_NUM_THREADS": "1"},  # a process with threads is not forked safely
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[listening.fileno()],
            )

    def close(self) -> None:
        """End; what was forked goes on."""
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()


@dataclass(frozen=True)
class _Request:
    module: str
    arguments: list[str]
    cwd: str
    environment: dict[str, str]
    output: int

    @classmethod
    def received(cls, line: socket.socket) -> _Request:
        """The one request of a connection."""
        data, (output, *_), _, _ = socket.recv_fds(line, REQUEST_BYTES, 1)
        return cls(**json.loads(data), output=output)

    def become(self) -> None:
        """Turn this process into the one that was asked for."""
        nothing = os.open(os.devnull, os.O_RDONLY)
        for theirs, ours in ((nothing, 0), (self.output, 1), (self.output, 2)):
            os.dup2(theirs, ours)
        os.close(nothing)
        os.close(self.output)
        # The old ones take the outputs for what they were when the server began, for which a position can be asked.
        os.chdir(self.cwd)
        os.environ.clear()
        os.environ.update(self.environment)
        sys.stdout, sys.stderr = _stream(1, "strict"), _stream(2, "backslashreplace")
        given = self.environment.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:1] = [self.cwd, *(path for path in given if path and path not in sys.path)]
        forget_installed()
        sys.argv = [self.module, *self.arguments]
        if SHIPPED_PACE not in self.environment:
            write_soon()
        try:
            runpy.run_module(self.module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            _end(end.code)


@contextmanager
def forked() -> Iterator[None]:
    """A fork of this process, idle, with all that is open here."""
    child = multiprocessing.get_context("fork").Process(target=signal.pause)
    child.start()
    try:
        yield
    finally:
        child.kill()
        child.join()


def write_soon() -> None:
    """Have this process write replies to a disk without waiting a second for more of them."""
    store.ON_DISK = replace(ON_DISK, every_s=0.02)


def share_tls_contexts() -> None:
    """Have this process build one TLS context for each file of certificates: a client's up to four take 20 ms each."""
    patch.object(ssl, "create_default_context", cache(ssl.create_default_context)).start()


def _stream(handle: int, errors: str) -> TextIO:
    """A text stream as a new interpreter opens it: what it is connected to is known by now."""
    encoding, _, own = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")
    return open(handle, "w", encoding=encoding or "utf-8", errors=own or errors, closefd=False)


def _end(status: object) -> None:
    """End as the interpreter does, but for clearing up everything that was imported, which takes 0.4 s of CPU."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))


def _mind(line: socket.socket) -> _Request | None:
    """Fork the process and tell its id, then how it ended; only the process itself gets the request back."""
    request = _Request.received(line)
    end_with_parent()
    child = os.fork()
    if not child:
        line.close()
        return request
    os.close(request.output)
    line.send(str(child).encode())
    line.send(str(os.waitpid(child, 0)[1]).encode())
    return None


def end_with_parent() -> None:
    """Have the kernel end this process when the thread that started it ends, however that comes about (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _serve(listening: socket.socket) -> _Request | None:
    """Fork a minder for each connection. Returns in the minders, once theirs has ended, and in what they forked."""
    while True:
        line, _ = listening.accept()
        if not os.fork():
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _mind(line)
        line.close()


def _warm_up() -> None:
    """Do once what every process forked from this one would do again.

    That is imports, compiling the report's templates, and TLS contexts that no test uses.
    """
    for name in PACKAGES:
        package: Any = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for name in MODULES:
        importlib.import_module(name)
    share_tls_contexts()
    asyncio.run(_connect_to_each_vendor())
    _report_on_a_run()
    gc.collect()
    gc.freeze()


def _report_on_a_run() -> None:
    from hab_ray.report import write_scores
    from tests.small_runs import Shape, page_of, summary_of, write_run

    with TemporaryDirectory(prefix="hab-forks-") as folder:
        work = write_run(Path(folder), Shape())
        write_scores(summary_of(work))
        page_of(work)
    tempfile.tempdir = None  # a forked process has a TMPDIR of its own


async def _connect_to_each_vendor() -> None:
    from hab_ray.catalog.vendors import VENDORS
    from hab_ray.providers import connect, connect_batch
    from hab_ray.providers.base import Endpoint

    for kind in VENDORS.built_in:
        endpoint = Endpoint("p", kind, "http://127.0.0.1:9/v1", "key", 1.0)
        for client in (connect(endpoint), connect_batch(endpoint)):
            await client.close()


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # minders are waited for by nobody
    end_with_parent()
    _warm_up()
    mine = _serve(socket.socket(fileno=int(sys.argv[1])))
    if mine is None:
        os._exit(0)
    mine.become()
