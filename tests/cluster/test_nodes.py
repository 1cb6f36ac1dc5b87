"""Nodes that do not see run and store are refused by name, before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from hab_ray.cluster.nodes import Node, NodeCheck, alive_nodes, problem_with
from hab_ray.errors import ConfigError
from hab_ray.location import Location

GONE = Node("ab" * 28, "10.1.2.3")


def test_one_node_is_the_drivers_own(tmp_path: Path) -> None:
    NodeCheck({"store": Location.of(tmp_path)}, shared=False, nodes=lambda: [GONE]).check()
    assert not list(tmp_path.iterdir())


def test_folders_on_several_nodes_need_a_word_from_the_user(tmp_path: Path) -> None:
    check = NodeCheck({"run": Location.of(tmp_path / "run"), "store": Location.of("s3://bucket/store")}, False, two)
    with pytest.raises(ConfigError, match=r"has 2 nodes") as told:
        check.check()
    for part in (f"`run: {tmp_path / 'run'}`", "s3://", "`shared_filesystem: true`"):
        assert part in str(told.value)
    assert "bucket/store" not in str(told.value)


def two() -> list[Node]:
    return [GONE, Node("e" * 56, "10.1.2.4")]


def test_places_in_a_bucket_are_seen_by_all() -> None:
    NodeCheck({"run": Location.of("s3://bucket/run"), "store": Location.of("s3://bucket/store")}, False, two).check()


def test_a_folder_without_the_mark_is_another_folder(tmp_path: Path) -> None:
    place = Location.of(tmp_path)
    assert problem_with(place, "nodes-1", within_s=0.01) == "cannot see"
    (tmp_path / "nodes-1").mkdir()
    (tmp_path / "nodes-1/driver").write_text("nodes-2")
    assert problem_with(place, "nodes-1", within_s=0.01) == "sees other files in"
    (tmp_path / "nodes-1/driver").write_text("nodes-1")
    assert problem_with(place, "nodes-1", within_s=0.01) is None


@pytest.mark.usefixtures("ray_address")
def test_each_node_is_asked_once_and_one_that_does_not_see_is_named(tmp_path: Path) -> None:
    [here] = alive_nodes()
    places = {"run": Location.of(tmp_path / "run"), "store": Location.of(tmp_path / "store")}
    seen: list[Node] = [here, here]
    check = NodeCheck(places, shared=True, nodes=lambda: seen)
    check.check()
    for place in places.values():
        assert not list(place.path.iterdir())
        place.path.rmdir()
    check.check()
    assert not list(tmp_path.iterdir())  # the node is known by now
    seen.append(GONE)
    with pytest.raises(ConfigError) as told:
        check.check()
    lines = str(told.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["run", "store"]
    for line in lines:
        assert "node 10.1.2.3 (abababab)" in line and "`shared_filesystem: true`" in line and "s3://" in line
        assert here.id[:8] not in line
