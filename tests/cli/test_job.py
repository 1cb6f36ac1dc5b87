"""What differs where `hab` is the entry point of a Ray job."""

import re
import zipfile
from pathlib import Path

import pytest
import yaml
from ray._private.runtime_env.packaging import create_package

from hab_ray.cli.job import drain_s, last_line, stop_notice
from hab_ray.config.sweep import Sweep
from hab_ray.errors import ConfigError, Exit
from hab_ray.planning.preflight import refuse_paths_in_package
from tests.conftest import Desk

ROOT = Path(__file__).parent.parent.parent
JOB = {"RAY_JOB_CONFIG_JSON_ENV_VAR": "{}"}
MAX_UPLOADED = 4_000_000


def sweep(run: str, store: str) -> Sweep:
    return Sweep.model_validate(
        {"name": "one", "run": run, "store": store, "tests": "seeds", "subjects": ["a/b"], "judges": ["a/b"]}
    )


def packed(folder: Path, target: Path) -> list[str]:
    """What `ray job submit --working-dir FOLDER` uploads, with no help from .gitignore."""
    create_package(str(folder), target, include_gitignore=False)
    with zipfile.ZipFile(target) as package:
        return package.namelist()


def test_the_upload_is_small_and_has_what_a_job_needs(tmp_path: Path) -> None:
    names = packed(ROOT, tmp_path / "package.zip")
    assert (tmp_path / "package.zip").stat().st_size < MAX_UPLOADED
    assert {"jobs/sweep.py", "jobs/quick.yaml", "hab_ray/cli/main.py", "rubrics/encourage_learning.yaml"} <= set(names)
    assert {name.split("/")[0] for name in names} & {".git", ".venv", "runs", "store", "tests", "benchmarks"} == set()


@pytest.mark.parametrize(
    "name",
    [
        "runs/demo/scores.parquet",
        "store/replies/m/wal-1-1.arrow",
        ".git/objects/1",
        ".venv/bin/python",
        "my/.venv/bin/python",
        ".env",
        "keys/.env.prod",
        "me.pem",
        "models/big.gguf",
        "hab_ray/__pycache__/x.pyc",
    ],
)
def test_results_stores_secrets_and_weights_are_not_uploaded(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    for each in (name, "jobs/mine.yaml", "my_rubrics/store.yaml"):
        (folder / each).parent.mkdir(parents=True, exist_ok=True)
        (folder / each).write_text("x")
    (folder / ".rayignore").write_text((ROOT / ".rayignore").read_text())
    names = {found for found in packed(folder, tmp_path / "package.zip") if not found.endswith("/")}
    assert names == {".rayignore", "jobs/mine.yaml", "my_rubrics/store.yaml"}


@pytest.mark.parametrize("lost", ["runs/one", "./runs/one", "up/../runs/one"])
def test_places_inside_the_package_are_refused_with_the_remedy(lost: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`run: [^`]*runs/one`: .*s3://BUCKET.*--run and --store"):
        refuse_paths_in_package(sweep(lost, "s3://bucket/store"), tmp_path)
    copy = tmp_path / "runtime_resources/working_dir_files/_ray_pkg_1"
    with pytest.raises(ConfigError, match=re.escape(f"`store: {copy}/store`: ")):
        refuse_paths_in_package(sweep("s3://bucket/run", f"{copy}/store"), copy)


def test_places_that_outlive_the_job_are_taken(tmp_path: Path) -> None:
    refuse_paths_in_package(sweep("s3://bucket/run", "/mnt/shared/store"), tmp_path)
    copy = tmp_path / "runtime_resources/working_dir_files/_ray_pkg_1"
    refuse_paths_in_package(sweep(f"{copy}-beside/run", f"{tmp_path}/store"), copy)
    refuse_paths_in_package(sweep(f"{tmp_path}/run", f"{tmp_path}/store"), tmp_path)


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_job_that_would_lose_its_results_sends_nothing(command: str, desk: Desk) -> None:
    desk.environment |= JOB
    ended = desk.says(command, desk.sweep("one", "http://127.0.0.1:9"), status=Exit.CONFIGURATION)
    assert "`run: runs/one` and `store: store`: this is" in ended
    assert ended.splitlines()[-1] == last_line(2) and "Traceback" not in ended
    assert not (desk.folder / "runs").exists() and not (desk.folder / "store").exists()


def test_a_job_without_yes_is_told_in_one_message(desk: Desk) -> None:
    prices = {"sim": {"kind": "openai", "url": "http://127.0.0.1:9/v1", "price": {"input": 1, "output": 1}}}
    desk.environment |= JOB
    path = desk.sweep("one", "", providers=prices, tests="seeds", mode="online")
    ended = desk.says(
        "run", path, "--run", desk.folder / "run", "--store", desk.folder / "store", status=Exit.CONFIGURATION
    )
    assert ended.count("--yes") == 1
    assert ended.splitlines()[-1] == last_line(2)


def test_an_address_that_is_no_clusters_is_explained(desk: Desk) -> None:
    desk.environment["RAY_ADDRESS"] = address = "ray://10.0.0.1:10001"
    ended = desk.says("run", desk.sweep("one", "http://127.0.0.1:9"), status=Exit.CONFIGURATION)
    assert f"RAY_ADDRESS={address}: Ray Client is not supported" in ended
    assert "Traceback" not in ended and not (desk.folder / "store").exists()


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, 20.0),
        ({"RAY_JOB_STOP_WAIT_TIME_S": "3"}, 20.0),
        (JOB, 1.0),
        ({**JOB, "RAY_JOB_STOP_WAIT_TIME_S": "30"}, 20.0),
        ({**JOB, "RAY_JOB_STOP_WAIT_TIME_S": "12"}, 10.0),
        ({**JOB, "RAY_JOB_STOP_WAIT_TIME_S": "0"}, 0.0),
        ({**JOB, "RAY_JOB_STOP_WAIT_TIME_S": "soon"}, 1.0),
    ],
)
def test_open_calls_get_what_ray_leaves_them(environment: dict[str, str], seconds: float) -> None:
    assert drain_s(environment) == seconds
    notice = stop_notice(environment, seconds)
    assert (notice is not None) == (seconds < 20.0)


def test_the_runtime_environment_that_ships_leaves_the_whole_drain_and_holds_no_key() -> None:
    shipped = yaml.safe_load((ROOT / "jobs/runtime_env.yaml").read_text())
    assert drain_s({**JOB, **shipped["env_vars"]}) == 20.0
    assert shipped == {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "30"}}


def test_the_last_line_of_an_unknown_status() -> None:
    assert last_line(9).startswith("hab ended with exit status 9: the command crashed")
