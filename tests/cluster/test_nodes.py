"""Nodes that do not see run and store, or lack a key, are refused by name, before anything is sent."""

import sys
from pathlib import Path

import pytest

from hab_ray.catalog.models import ProviderEntry
from hab_ray.cluster.nodes import Node, alive_nodes, problem_in_bucket, problem_with, require_folders, require_keys
from hab_ray.errors import ConfigError
from hab_ray.location import Location

GONE = Node("ab" * 28, "10.1.2.3")
TWO = [GONE, Node("e" * 56, "10.1.2.4")]
MISSING = "HAB_TEST_KEY_THAT_IS_NOWHERE"


def test_one_node_is_the_drivers_own(tmp_path: Path) -> None:
    require_folders([GONE], {"run": Location.of("s3://bucket/run"), "store": Location.of(tmp_path)}, shared=False)
    assert not list(tmp_path.iterdir())


def test_a_node_without_boto3_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.setenv("AWS_SDK_UA_APP_ID", "a-node-without-boto3")
    problem = problem_in_bucket(Location.of("s3://bucket/run"))
    assert problem is not None and "s3:// addresses need boto3" in problem


@pytest.mark.usefixtures("ray_address")
def test_each_node_that_cannot_use_the_bucket_is_named() -> None:
    place = "s3://hab-no-such-bucket/run"
    with pytest.raises(ConfigError) as told:
        require_folders([*alive_nodes(), GONE], {"run": Location.of(place)}, shared=False)
    here, gone = str(told.value).splitlines()
    assert here.startswith("run: node ") and f"cannot use {place}: " in here
    assert gone == f"run: node 10.1.2.3 (abababab) cannot use {place}: it died or does not answer"


def test_folders_on_several_nodes_need_a_word_from_the_user(tmp_path: Path) -> None:
    places = {"run": Location.of(tmp_path / "run"), "store": Location.of("s3://bucket/store")}
    with pytest.raises(ConfigError, match=r"has 2 nodes") as told:
        require_folders(TWO, places, shared=False)
    for part in (f"`run: {tmp_path / 'run'}`", "s3://", "`shared_filesystem: true`"):
        assert part in str(told.value)
    assert "bucket/store" not in str(told.value)


def test_a_folder_without_the_mark_is_another_folder(tmp_path: Path) -> None:
    place = Location.of(tmp_path)
    assert problem_with(place, "nodes-1", within_s=0.01) == "cannot see"
    (tmp_path / "nodes-1").mkdir()
    (tmp_path / "nodes-1/driver").write_text("nodes-2")
    assert problem_with(place, "nodes-1", within_s=0.01) == "sees other files in"
    (tmp_path / "nodes-1/driver").write_text("nodes-1")
    assert problem_with(place, "nodes-1", within_s=0.01) is None


@pytest.mark.usefixtures("ray_address")
def test_each_node_is_asked_and_one_that_does_not_see_is_named(tmp_path: Path) -> None:
    [here] = alive_nodes()
    places = {"run": Location.of(tmp_path / "run"), "store": Location.of(tmp_path / "store")}
    require_folders([here, here], places, shared=True)
    for place in places.values():
        assert not list(place.path.iterdir())
    with pytest.raises(ConfigError) as told:
        require_folders([here, GONE], places, shared=True)
    lines = str(told.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["run", "store"]
    for line in lines:
        assert "node 10.1.2.3 (abababab)" in line and "`shared_filesystem: true`" in line and "s3://" in line
        assert here.id[:8] not in line


def account(variable: str) -> ProviderEntry:
    return ProviderEntry(kind="openai", url="http://h/v1", key_env=variable, headers_env={"X": "PATH"})


@pytest.mark.usefixtures("ray_address")
def test_a_key_that_a_node_lacks_is_named_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MISSING, "set where the driver runs, and not on the node")
    require_keys(alive_nodes(), [account("PATH")])
    with pytest.raises(ConfigError, match=rf"^node [0-9.]+: {MISSING} not set\n.*NAME_FILE"):
        require_keys(alive_nodes(), [account("PATH"), account(MISSING)])
