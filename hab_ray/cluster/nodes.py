"""Whether the nodes of a cluster see the run and the store."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.visible import one_line

ANSWER_S = 60.0
SEEN_WITHIN_S = 5.0
LOOK_AGAIN_S = 0.2


@dataclass(frozen=True)
class Node:
    """A node of the cluster."""

    id: str
    address: str

    def __str__(self) -> str:
        return f"{self.address} ({self.id[:8]})"


def alive_nodes() -> list[Node]:
    """The nodes that live now."""
    import ray

    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    return [Node(node["NodeID"], node["NodeManagerAddress"]) for node in nodes if node["Alive"]]


def cluster_cpus() -> int:
    """The CPUs of all nodes that live now."""
    import ray

    return int(ray.cluster_resources().get("CPU", 0))  # type: ignore[no-untyped-call]


class NodeCheck:
    """Refuses nodes that do not see the folders of a run, each node once. Places in a bucket need no check.

    `places` has the folders by their keys in the sweep file, absolute. `shared` says that the user takes them for the
    same folders on every node. `nodes` names the nodes that live now.
    """

    def __init__(
        self, places: Mapping[str, Location], shared: bool, nodes: Callable[[], Sequence[Node]] = alive_nodes
    ) -> None:
        self._places = {key: place for key, place in places.items() if place.is_local}
        self._shared, self._nodes = shared, nodes
        self._checked: set[str] = set()

    def check(self) -> None:
        """Check the nodes that were not there at the last check. One node alone is the driver's own.

        Raises:
            ConfigError: a node does not see a folder, or may not write to it.
        """
        nodes = self._nodes()
        if not self._places or len(nodes) < 2:
            return
        if not self._shared:
            raise ConfigError(_not_shared(self._places, len(nodes)))
        unchecked = [node for node in nodes if node.id not in self._checked]
        if not unchecked:
            return
        problems = [problem for key in self._places for problem in self._problems(key, unchecked)]
        if problems:
            raise ConfigError("\n".join(problems))
        self._checked |= {node.id for node in unchecked}

    def _problems(self, key: str, nodes: list[Node]) -> Iterator[str]:
        place = self._places[key]
        with _marked(place) as mark:
            asked = {node: _asked(node, place, mark) for node in nodes}
            for node, ref in asked.items():
                if problem := _answer(ref):
                    yield one_line(
                        f"{key}: node {node} {problem} {place}, although the sweep says `shared_filesystem: true`; "
                        f"mount the folder there under this path for this user, or name an s3:// address as `{key}:`"
                    )


def _not_shared(places: Mapping[str, Location], nodes: int) -> str:
    named = " and ".join(f"`{key}: {place}`" for key, place in places.items())
    return one_line(
        f"the Ray cluster has {nodes} nodes, and {named} name folders on this machine's disk, which the others may not "
        "see; name s3:// addresses instead, or, if the folders are mounted on every node under these paths (such as "
        "NFS), add `shared_filesystem: true` to the sweep"
    )


@contextmanager
def _marked(place: Location) -> Iterator[str]:
    """The prefix of a new file in a folder, which holds that prefix; whatever is under it goes in the end."""
    folder, mark = open_folder(place), f"nodes-{secrets.token_hex(8)}"
    try:
        folder.put_new(f"{mark}/driver", mark.encode())
        yield mark
    finally:
        folder.clear(mark)


def _asked(node: Node, place: Location, mark: str) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node.id, soft=False)
    task = ray.remote(problem_with).options(num_cpus=0, scheduling_strategy=there, max_retries=1)
    return task.remote(place, mark)


def _answer(ref: Any) -> str | None:
    import ray

    try:
        problem: str | None = ray.get(ref, timeout=ANSWER_S)
    except ray.exceptions.RayError:
        return "died or does not answer, and is not known to see"
    return problem


def problem_with(place: Location, mark: str, within_s: float = SEEN_WITHIN_S) -> str | None:
    """What this node cannot do with a folder that the driver has marked; None where all is well.

    A network file system may show a new file late. Runs on the node.
    """
    folder, give_up = open_folder(place), time.monotonic() + within_s
    while True:
        try:
            if folder.get(f"{mark}/driver") == mark.encode():
                break
            return "sees other files in"
        except OSError:
            if time.monotonic() > give_up:
                return "cannot see"
            time.sleep(LOOK_AGAIN_S)
    try:
        folder.put_new(f"{mark}/{secrets.token_hex(8)}", b"")
    except OSError as error:
        return f"cannot write ({error.strerror}) to"
    return None
