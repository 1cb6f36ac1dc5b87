"""Runs and stores in a bucket: every command works there, with the same results as on a disk."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from hab_ray.cli.ending import console
from hab_ray.cli.main import app
from hab_ray.errors import Exit
from hab_ray.location import Location
from hab_ray.progress import PROGRESS, Progress
from hab_ray.resolve import write_record
from hab_ray.storage.folder import Folder, open_folder
from hab_ray.storage.secret import SECRET
from tests.conftest import Desk, Vendors
from tests.instant import NOW, work_of
from tests.s3_proxy import S3Proxy, s3_proxy
from tests.seaweed import SeaweedFS, free_ports

KEY = "sk-fake-0123456789-never-stored"
SMALL = {"dimensions": ["encourage_learning"], "executor": "local"}


@pytest.fixture
def proxy(bucket: str, s3_server: SeaweedFS, desk: Desk) -> Iterator[S3Proxy]:
    with s3_proxy(s3_server.ports[-1]) as proxy:
        desk.environment.update(AWS_ENDPOINT_URL_S3=proxy.endpoint, SIM_KEY=KEY)
        yield proxy


def sweep(desk: Desk, url: str, place: str, **changes: Any) -> Path:
    account = {"key_env": "SIM_KEY", "price": {"input": 1, "output": 1}}
    changes = SMALL | {"run": f"{place}/run", "store": f"{place}/store", "tests": desk.tests(3)} | changes
    return desk.sweep("small", url, account, **changes)


def test_a_sweep_in_a_bucket_ends_as_on_disk(bucket: str, proxy: S3Proxy, desk: Desk, vendor: Vendors) -> None:
    """Both stores have one secret, so that the judge is sent the same words."""
    folder = open_folder(Location.of(bucket))
    for place in (str(desk.folder), bucket):
        done = desk.says("run", sweep(desk, vendor(seed=1).url, place), "--yes")
        if place != bucket:
            folder.put(f"store/{SECRET}", (desk.folder / "store" / SECRET).read_bytes())
    (desk.folder / "s3.parquet").write_bytes(folder.get("run/scores.parquet"))
    assert pq.read_table(desk.folder / "s3.parquet") == pq.read_table(desk.folder / "run/scores.parquet")
    assert f"report: {bucket}/run/report/index.html" in done
    proxy.seen.clear()
    assert "0 calls sent" in desk.says("run", desk.folder / "small.yaml", "--yes")
    assert not [seen for seen in proxy.seen if seen.kind == "GET" and "/replies/" in seen.name]
    for command in (["status"], ["batches", "list"], ["report"], ["budget", "release"]):
        desk.says(*command, f"{bucket}/run")
    assert not holding(folder, KEY) and not list(desk.folder.glob("s3:*"))


def holding(folder: Folder, text: str) -> list[str]:
    """The objects of a folder that hold a text."""
    names = folder.list()
    assert len(names) > 10
    return [name for name in names if text.encode() in folder.get(name)]


def test_a_run_on_disk_with_its_store_in_a_bucket(bucket: str, proxy: S3Proxy, desk: Desk, vendor: Vendors) -> None:
    lines = b'{"dimension": "encourage_learning", "prompt": "How do I learn to cook?"}\n'
    open_folder(Location.of(bucket)).put("given.jsonl", lines)
    mixed = {"store": f"{bucket}/store", "tests": f"{bucket}/given.jsonl"}
    file = sweep(desk, vendor(seed=1).url, str(desk.folder), **mixed)
    proxy.trouble.lost.update({"lease/000001.json", "fence-secret", "format.json"})
    desk.says("run", file, "--yes")
    assert pq.read_table(desk.folder / "run/tests/encourage_learning.parquet").num_rows == 1
    assert "0 calls sent" in desk.hab("run", file, "--yes").stdout


@pytest.mark.usefixtures("proxy")
def test_a_bucket_that_cannot_be_used_is_a_wrong_setting(desk: Desk) -> None:
    done = desk.says("run", sweep(desk, "http://127.0.0.1:9", "s3://hab-there-is-none/x"), "--yes", status=2)
    assert "there is no bucket hab-there-is-none" in done
    assert len(done.strip().splitlines()) == 1


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a service of buckets that does not answer."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://me:password@{address}")
    for name, value in (("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("hab_ray.storage.folder.FIRST_ANSWER_S", 0.2)
    return f"http://{address}"


@pytest.mark.parametrize(
    "command", ["status", "rm", "runs", "scores", "agreement", "report", "budget show", "batches list", "store gc"]
)
def test_a_command_ends_when_the_service_of_its_bucket_does_not_answer(command: str, silent: str) -> None:
    done = CliRunner().invoke(app, [*command.split(), "s3://hab-tests/run"])
    assert done.exit_code == Exit.CONFIGURATION and f"no answer from {silent} in" in done.output, done.output
    assert "check AWS_ENDPOINT_URL_S3" in " ".join(done.output.split()) and "password" not in done.output


@pytest.mark.parametrize(("command", "status"), [("status small", 2), ("rm small --yes", 2), ("runs .", 0)])
def test_a_command_ends_when_the_store_of_its_run_on_disk_is_in_such_a_bucket(
    command: str, status: int, silent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "width", 200)
    store = "s3://hab-tests/store"
    with contextlib.chdir(tmp_path):
        work = work_of(Path(), run="small", store=store)
        write_record(work, NOW)
        work.run.folder.put(PROGRESS, Progress("", 1, (), 9, 0, 0, (), store=store).to_json())
        done = CliRunner().invoke(app, command.split())
    assert done.exit_code == status and f"no answer from {silent} in" in done.output, done.output


@pytest.mark.parametrize("command", ["export runs/a --format csv --out", "init"])
def test_what_is_written_to_this_machine_only_takes_no_address_of_a_bucket(command: str, tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        done = CliRunner().invoke(app, [*command.split(), "s3://hab-tests/x"])
    assert done.exit_code == Exit.CONFIGURATION and "s3://hab-tests/x: a path on this machine" in done.output
    assert not list(tmp_path.iterdir())
