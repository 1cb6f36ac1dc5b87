"""The tests of storage on Ceph's S3 gateway (RGW), a stricter server than the SeaweedFS of `make test`.

    apt-get install --no-install-recommends ceph-mon ceph-osd radosgw ceph-common     (Debian 12: Ceph 16.2, 290 MB)
    python -m tests.ceph                           tests/storage and tests/cli/test_buckets.py
    python -m tests.ceph tests/storage/s3 -x       anything else that pytest takes

One monitor, one OSD in a file and one gateway run in a temporary folder on ports that are free, as the user who gives
the command, and end with it. The gateway knows the keys of tests/seaweed.py; the tests learn its port from
HAB_TEST_S3_PORT.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.forking import end_with_parent
from tests.seaweed import ACCESS_KEY, SECRET_KEY, free_ports

TESTS = ("tests/storage", "tests/cli/test_buckets.py")
STARTS_WITHIN_S = 90.0


def settings(folder: Path, monitor: int) -> str:
    """A ceph.conf for one of each daemon, with all their files in a folder."""
    return f"""\
[global]
fsid = {uuid.uuid4()}
mon initial members = a
mon host = v1:127.0.0.1:{monitor}
public addr = 127.0.0.1
keyring = {folder}/keyring
run dir = {folder}
admin socket = {folder}/$name.sock
pid file =
log file = {folder}/$name.log
crash dir = {folder}
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd crush chooseleaf type = 0
osd client watch timeout = 3
mon allow pool size one = true
mon max pg per osd = 1000
paxos propose interval = 0.05
paxos min wait = 0.01
[mon.a]
mon data = {folder}/mon
[osd.0]
osd data = {folder}/osd
osd objectstore = bluestore
bluestore block size = 4294967296
"""


class Ceph:
    """Daemons in a folder, started one after the other."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._monitor, self.port = free_ports(2)
        self._conf = folder / "ceph.conf"

    def start(self) -> None:
        """Start all and wait until the gateway has a user.

        Raises:
            RuntimeError: a command failed.
        """
        self._conf.write_text(settings(self._folder, self._monitor))
        self._start_monitor()
        self._start_osd()
        self._start_gateway()

    def _start_monitor(self) -> None:
        keys, monmap = self._folder / "keyring", self._folder / "monmap"
        everything = [part for what in ("mon", "osd", "mgr") for part in ("--cap", what, "allow *")]
        self._run("ceph-authtool", "--create-keyring", str(keys), "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        self._run("ceph-authtool", str(keys), "--gen-key", "-n", "client.admin", *everything)
        address = f"[v1:127.0.0.1:{self._monitor}]"
        fsid = self._run("ceph-conf", "-c", str(self._conf), "--lookup", "fsid").strip()
        self._run("monmaptool", "--create", "--addv", "a", address, "--fsid", fsid, str(monmap))
        self._run("ceph-mon", *self._as("a"), "--mkfs", "--monmap", str(monmap), "--keyring", str(keys))
        self._daemon("ceph-mon", *self._as("a"), "-f")
        self._ceph("status")

    def _start_osd(self) -> None:
        (self._folder / "osd").mkdir()
        key = self._run("ceph-authtool", "--gen-print-key").strip()
        secret, name = self._folder / "secret.json", str(uuid.uuid4())
        secret.write_text(json.dumps({"cephx_secret": key}))
        self._ceph("osd", "new", name, "-i", str(secret))
        keys = self._folder / "osd" / "keyring"
        self._run("ceph-authtool", "--create-keyring", str(keys), "-n", "osd.0", "--add-key", key)
        self._run("ceph-osd", *self._as("0"), "--mkfs", "--osd-uuid", name, "--keyring", str(keys))
        self._daemon("ceph-osd", *self._as("0"), "-f", "--keyring", str(keys))

    def _start_gateway(self) -> None:
        keys = self._folder / "gateway"
        caps = ["mon", "allow rw", "osd", "allow rwx"]
        self._ceph("auth", "get-or-create", "client.rgw", *caps, "-o", str(keys))
        user = ["--uid=test", "--display-name=test", f"--access-key={ACCESS_KEY}", f"--secret-key={SECRET_KEY}"]
        self._run("radosgw-admin", "-c", str(self._conf), "user", "create", *user)
        frontend = f"--rgw-frontends=beast endpoint=127.0.0.1:{self.port}"
        self._daemon("radosgw", "-c", str(self._conf), "-n", "client.rgw", "-k", str(keys), "-f", frontend)

    def _as(self, id: str) -> list[str]:
        return ["-c", str(self._conf), "-i", id]

    def _ceph(self, *arguments: str) -> str:
        return self._run("ceph", "-c", str(self._conf), "--connect-timeout", "30", *arguments)

    def _run(self, *command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=STARTS_WITHIN_S)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
        return done.stdout

    def _daemon(self, *command: str) -> None:
        log = self._stack.enter_context((self._folder / f"{command[0]}.out").open("wb"))
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=end_with_parent
        )
        self._stack.callback(_end, process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@contextmanager
def ceph() -> Iterator[Ceph]:
    """A running Ceph, ended afterwards."""
    with tempfile.TemporaryDirectory(prefix="hab-ceph-") as name, ExitStack() as stack:
        cluster = Ceph(Path(name), stack)
        began = time.monotonic()
        cluster.start()
        print(f"Ceph was ready after {time.monotonic() - began:.0f} s", flush=True)
        yield cluster


def main() -> int:
    """Start Ceph and run tests on it; pytest's exit status."""
    arguments = sys.argv[1:] or [*TESTS, "-q"]
    with ceph() as cluster:
        environment = dict(os.environ) | {"HAB_TEST_S3_PORT": str(cluster.port)}
        return subprocess.run([sys.executable, "-m", "pytest", "-n", "0", *arguments], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
