import errno
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import psutil
import pytest

from hab_ray.local import LocalError, LocalServer
from hab_ray.local import server as local_server
from hab_ray.local.chat import import_remedy

_PARENT = """
import sys, time
from pathlib import Path
from hab_ray.local import LocalServer
folder = Path(sys.argv[1])
server = LocalServer.start({}, ["wordllama"], log=folder / "log")
print(server.pid, flush=True)
time.sleep(60)
"""
_WATCHED = """
import sys, time
sys.platform = "another"
from hab_ray.local.__main__ import die_with
die_with(int(sys.argv[1]))
print(flush=True)
time.sleep(60)
"""
_WATCHER = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""


def _start(folder: Path) -> LocalServer:
    return LocalServer.start({}, ["wordllama"], log=folder / "log")


def _gone(pid: int, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def _kill_parent_of(code: str, *arguments: str) -> int:
    """Run `code`, which prints the pid of a child, kill it without warning, and say the child's pid."""
    parent = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    with parent.stdout:
        child = int(parent.stdout.readline())
        assert psutil.pid_exists(child)
        parent.kill()
        parent.wait(120)
    return child


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("running")


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[LocalServer]:
    """A server whose starter, a thread, has ended."""
    started: list[LocalServer] = []
    thread = threading.Thread(target=lambda: started.append(_start(folder)))
    thread.start()
    thread.join()
    with started[0] as server:
        time.sleep(0.3)
        yield server


def test_a_server_outlives_the_thread_that_started_it(running: LocalServer) -> None:
    assert urllib.request.urlopen(f"{running.url}/models").status == 200


def test_nobody_is_served_who_does_not_know_the_token(running: LocalServer) -> None:
    """Other users of the machine see the port; what is in the URL only its starter knows."""
    assert urllib.request.urlopen(f"{running.url}/models").status == 200
    port = urlsplit(running.url).netloc
    command = Path(f"/proc/{running.pid}/cmdline")
    token = urlsplit(running.url).path.split("/")[1]
    assert len(token) >= 20 and not (command.exists() and token in command.read_text())
    for path in ("/v1/models", f"/{token[:-1]}/v1/models"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://{port}{path}")


def test_server_dies_with_a_killed_parent_and_the_next_works_until_it_is_stopped_and_is_not_started_again(
    tmp_path: Path,
) -> None:
    child = _kill_parent_of(_PARENT, str(tmp_path))
    assert _gone(child, within_s=5)
    before = set(threading.enumerate())
    with _start(tmp_path) as server:
        (keeper,) = set(threading.enumerate()) - before
        assert server.pid != child
    assert not psutil.pid_exists(server.pid)
    server.stop()
    keeper.join(60)
    assert not keeper.is_alive() and not psutil.pid_exists(server.pid)


def test_a_killed_server_is_started_again_at_the_same_address_and_requests_wait_until_that_was_too_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_server, "MAX_RESTARTS", 1)
    with _start(tmp_path) as server:
        before = server.pid
        os.kill(before, signal.SIGKILL)
        assert urllib.request.urlopen(f"{server.url}/models", timeout=120).status == 200
        assert server.pid != before
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(OSError, match=r"refused|reset"):
            urllib.request.urlopen(f"{server.url}/models", timeout=120)
    assert f"process {before} ended with status -9" in (tmp_path / "log").read_text()
    assert not psutil.pid_exists(server.pid)


def test_without_the_kernels_help_the_watch_ends_it() -> None:
    assert _gone(_kill_parent_of(_WATCHER, _WATCHED), within_s=5)


def test_a_parent_dead_before_the_tie_is_noticed() -> None:
    options = ["--embeddings=wordllama", "--slots=1", "--listener=0", "--parent=999999999"]
    command = [sys.executable, "-m", "hab_ray.local", *options]
    assert subprocess.run(command, timeout=120, check=False).returncode == 0


def test_a_failed_start_shows_the_end_of_the_log(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF, but not really")
    with pytest.raises(LocalError, match=r"died at its start(?s:.*)llama\.cpp cannot load .*broken\.gguf"):
        LocalServer.start({"m": broken}, [], log=tmp_path / "log")


def test_a_slow_start_is_given_up_also_while_over_1024_files_are_open(tmp_path: Path) -> None:
    before = psutil.Process().children()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as files, pytest.raises(LocalError, match=r"not ready after 0\.01 s"):
        for _ in range(1024):
            files.enter_context(open(os.devnull))
        LocalServer.start({}, ["wordllama"], log=tmp_path / "log", timeout_s=0.01)
    assert psutil.Process().children() == before


def test_missing_libraries_name_their_packages() -> None:
    libgomp = ImportError("libgomp.so.1: cannot open shared object file: No such file or directory")
    assert "apt-get install libgomp1" in import_remedy(libgomp)
    assert "pip install '.[local]'" in import_remedy(ModuleNotFoundError("No module named 'xllamacpp'"))


def test_a_restart_that_fails_leaves_no_server_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on without the server."""

    def fails() -> NoReturn:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with _start(tmp_path) as server:
        monkeypatch.setattr(select, "poll", fails)
        os.kill(server.pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while "not restarted: [Errno 12]" not in (tmp_path / "log").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert not psutil.pid_exists(server.pid)
