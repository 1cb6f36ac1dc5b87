"""Checks, before anything is spent, that every node of a cluster has the keys that calls from it need.

A lane reads its key on the node that it runs on. Only names of variables travel: neither a value nor a path leaves its
node.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from hab_ray.catalog.models import ProviderEntry
from hab_ray.cluster.nodes import alive_nodes
from hab_ray.errors import ConfigError
from hab_ray.providers.access import has_secret, variables_of
from hab_ray.visible import one_line

ANSWER_S = 60.0


@ray.remote(num_cpus=0)
def _missing_here(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if not has_secret(name, os.environ))


def missing_keys(nodes: Sequence[str], names: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """The variables that hold nothing on each node, by the node's id; nodes that have them all are left out.

    Raises:
        RayError: a node does not answer.
    """
    asked = {
        node: _missing_here.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(
            list(names)
        )
        for node in nodes
    }
    answers = dict(zip(asked, ray.get(list(asked.values()), timeout=ANSWER_S), strict=True))
    return {node: missing for node, missing in answers.items() if missing}


def must_have_keys(nodes: Sequence[str], accounts: Iterable[ProviderEntry]) -> None:
    """Check that each node can call each of these accounts.

    Raises:
        ConfigError: names what is missing where.
        RayError: a node does not answer.
    """
    names = sorted({variable for entry in accounts for variable in variables_of(entry)})
    missing = missing_keys(nodes, names) if names else {}
    if not missing:
        return
    hosts = {node.id: node.address for node in alive_nodes()}
    lines = (f"node {one_line(hosts.get(node, node))}: {', '.join(keys)} not set" for node, keys in missing.items())
    raise ConfigError(
        "\n".join(lines)
        + "\nSet each in the environment that `ray start` gets on that node, or name a file that holds "
        "it (NAME_FILE=PATH); not in a runtime_env, which Ray shows in clear. Nothing was sent"
    )
