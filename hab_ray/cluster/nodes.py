"""Checks that the nodes of a cluster can access the run and the store, and have the API keys that their calls need.

A lane reads its key on its own node. Only names of variables are sent between nodes, never their values or paths.
"""

import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hab_ray.catalog.models import ProviderEntry
from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.providers.access import ON_NODES, has_secret, variables_of
from hab_ray.storage.folder import open_folder, reach
from hab_ray.visible import one_line

ANSWER_S = 60.0
VISIBLE_WITHIN_S = 5.0
RETRY_S = 0.2


@dataclass(frozen=True)
class Node:
    """A node of the cluster."""

    id: str
    address: str

    def __str__(self) -> str:
        return f"{self.address} ({self.id[:8]})"


def alive_nodes() -> list[Node]:
    """Return the nodes that are alive."""
    import ray

    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    return [Node(node["NodeID"], node["NodeManagerAddress"]) for node in nodes if node["Alive"]]


def cluster_cpus() -> int:
    """Return the number of CPUs of the cluster."""
    import ray

    return int(ray.cluster_resources().get("CPU", 0))  # type: ignore[no-untyped-call]


def _on_each(nodes: Sequence[Node], function: Callable[..., Any], *arguments: object) -> dict[Node, Any]:
    """Call a function on each node, and return references to the results."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task = ray.remote(num_cpus=0, max_retries=1)(function)
    return {
        node: task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False)).remote(*arguments)
        for node in nodes
    }


def require_folders(nodes: Sequence[Node], places: Mapping[str, Location], shared: bool) -> None:
    """Check that all nodes can write to the folders of a run, and use its buckets. A single node needs no check.

    `places` has the absolute folders by their keys in the sweep file. `shared` means that the user has declared them to
    be the same folders on every node. Raise ConfigError if a node does not see a folder, may not write to it, or cannot
    use a bucket.
    """
    if len(nodes) < 2:
        return
    local = {key: place for key, place in places.items() if place.is_local}
    if local and not shared:
        named = " and ".join(f"`{key}: {place}`" for key, place in local.items())
        raise ConfigError(
            one_line(
                f"the Ray cluster has {len(nodes)} nodes, and {named} name folders on this machine's disk, which the "
                "others may not see; name s3:// addresses instead, or, if the folders are mounted on every node under "
                "these paths (such as NFS), add `shared_filesystem: true` to the sweep"
            )
        )
    problems = [problem for key, place in places.items() for problem in _problems(key, place, nodes)]
    if problems:
        raise ConfigError("\n".join(problems))


def _problems(key: str, place: Location, nodes: Sequence[Node]) -> Iterator[str]:
    if not place.is_local:
        for node, ref in _on_each(nodes, problem_in_bucket, place).items():
            if problem := _answer(ref, "it died or does not answer"):
                yield one_line(f"{key}: node {node} cannot use {place}: {problem}")
        return
    with _marked(place) as mark:
        for node, ref in _on_each(nodes, problem_with, place, mark).items():
            if problem := _answer(ref, "died or does not answer, and is not known to see"):
                yield one_line(
                    f"{key}: node {node} {problem} {place}, although the sweep says `shared_filesystem: true`; "
                    f"mount the folder there under this path for this user, or name an s3:// address as `{key}:`"
                )


@contextmanager
def _marked(place: Location) -> Iterator[str]:
    """Write a temporary file that contains its own random prefix, and yield the prefix."""
    folder, mark = open_folder(place), f"nodes-{secrets.token_hex(8)}"
    try:
        folder.put_new(f"{mark}/driver", mark.encode())
        yield mark
    finally:
        folder.clear(mark)


def _answer(ref: Any, if_none: str) -> str | None:
    import ray

    try:
        problem: str | None = ray.get(ref, timeout=ANSWER_S)
    except ray.exceptions.RayError:
        return if_none
    return problem


def problem_in_bucket(place: Location) -> str | None:
    """Return why this node cannot use a bucket; None if it can. Runs on the node."""
    try:
        reach(place)
    except ConfigError as error:
        return str(error)
    return None


def problem_with(place: Location, mark: str, within_s: float = VISIBLE_WITHIN_S) -> str | None:
    """Return what this node cannot do with a folder that the driver marked; None if nothing. Runs on the node.

    It waits up to `within_s` seconds, because a network file system may show new files late.
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
            time.sleep(RETRY_S)
    try:
        folder.put_new(f"{mark}/{secrets.token_hex(8)}", b"")
    except OSError as error:
        return f"cannot write ({error.strerror}) to"
    return None


def require_keys(nodes: Sequence[Node], accounts: Iterable[ProviderEntry]) -> None:
    """Check that each node has the API keys of these accounts.

    Raises:
        ConfigError: names the missing variables by node.
        RayError: a node does not answer.
    """
    import ray

    needed = sorted({name for entry in accounts for name in variables_of(entry)})
    asked = _on_each(nodes, _missing_here, needed) if needed else {}
    missing = dict(zip(asked, ray.get(list(asked.values()), timeout=ANSWER_S), strict=True))
    lines = [f"node {one_line(node.address)}: {', '.join(names)} not set" for node, names in missing.items() if names]
    if lines:
        raise ConfigError("\n".join(lines) + f"\nSet each {ON_NODES.format('that node', 'NAME')}. Nothing was sent")


def _missing_here(names: Sequence[str]) -> list[str]:
    return [name for name in names if not has_secret(name, os.environ)]
