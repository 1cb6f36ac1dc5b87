"""A Ray cluster of several nodes with its job server, in a process and a temporary folder of its own.

    python -m tests.ray_cluster --nodes 3

prints one line of JSON (the addresses, and for each node its id and what it runs), then kills the node of each id that
it reads from standard input, adds one for each `+`, and ends the cluster when that is closed. Nothing here knows of
another Ray on this machine: `ray stop` would end them all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parent.parent
STARTS_WITHIN_S = 120.0
ATTEMPTS = 3
HEALTH_CHECKS = {"initial_delay_ms": 1000, "period_ms": 1000, "timeout_ms": 5000, "failure_threshold": 3}
ENDS_WITHIN_S = 60.0
KEY, HEADER = "sk-fake-7c1e55d0b3aa4f2e", "team-fake-19e3d2c4b5a6"


@dataclass
class RayCluster:
    """A running cluster. `nodes` are their ids, the head's first; `folder` has all that its processes write.

    `metrics` is the head's Prometheus endpoint.
    """

    address: str
    job_server: str
    metrics: str
    nodes: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    process: subprocess.Popen[str]

    @classmethod
    def start(cls, nodes: int, environment: Mapping[str, str]) -> RayCluster:
        """Start a cluster whose nodes have this environment."""
        folder = Path(tempfile.mkdtemp(prefix="hab-"))  # sockets in it have at most 107 characters
        whole = {**environment, "RAY_TMPDIR": str(folder), "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
        whole |= {f"RAY_health_check_{name}": str(value) for name, value in HEALTH_CHECKS.items()}
        for _ in range(ATTEMPTS):  # on a busy machine a node may not be there when Ray gives up waiting for it
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.ray_cluster", "--nodes", str(nodes)],
                cwd=ROOT,
                env=whole,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert process.stdout
            if told := json.loads(process.stdout.readline() or "{}"):
                break
            process.wait(STARTS_WITHIN_S)
        assert told, "the cluster did not start"
        return cls(told["address"], told["job_server"], told["metrics"], told["nodes"], folder, whole, process)

    def kill(self, node: str) -> None:
        """Kill everything that a worker node runs, and wait until it is dead."""
        assert self.process.stdin and self.process.stdout
        print(node, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline().strip() == node

    def add(self) -> str:
        """Add a worker node; its id."""
        assert self.process.stdin and self.process.stdout
        print("+", file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def job(self, *arguments: object) -> subprocess.Popen[str]:
        """`ray job ...`, as a user's shell in the checkout starts it."""
        verb, *rest = map(str, arguments)
        return subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", "job", verb, "--address", self.job_server, *rest],
            cwd=ROOT,
            env={**self.environment, "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            process_group=0,
        )

    def stop(self) -> None:
        """End all of its processes and remove what they wrote."""
        self.process.communicate(timeout=ENDS_WITHIN_S)
        shutil.rmtree(self.folder, ignore_errors=True)


def free_port() -> int:
    """A port that nobody listens on. Ray's own choice, 8265, may be taken by a cluster beside this one."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def worker_node(cluster: Any) -> Any:
    """Add a node to a cluster. On a busy machine it may not be there when Ray gives up waiting for it."""
    for _ in range(ATTEMPTS - 1):
        before = set(psutil.Process().children(recursive=True))
        try:
            return cluster.add_node(num_cpus=1)
        except Exception as error:
            print(f"a node did not start: {error}", file=sys.stderr)
            for late in set(psutil.Process().children(recursive=True)) - before:
                with suppress(psutil.NoSuchProcess):
                    late.kill()
    return cluster.add_node(num_cpus=1)


def main() -> None:
    """Run a cluster until standard input is closed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1)
    nodes = parser.parse_args().nodes
    said, sys.stdout = sys.stdout, sys.stderr
    import ray
    from ray.cluster_utils import Cluster

    head = {"include_dashboard": True, "dashboard_port": free_port(), "dashboard_agent_listen_port": 0, "num_cpus": 2}
    cluster: Any = Cluster()
    all_nodes = [cluster.add_node(**head), *(worker_node(cluster) for _ in range(nodes - 1))]
    by_id = {node.node_id: node for node in all_nodes}
    job_server = f"http://{cluster.head_node.webui_url}"
    head_node = cluster.head_node
    metrics = f"http://{head_node.node_ip_address}:{head_node.metrics_export_port}"
    told = {"address": cluster.address, "job_server": job_server, "metrics": metrics, "nodes": list(by_id)}
    print(json.dumps(told), file=said, flush=True)
    for line in sys.stdin:
        node = line.strip()
        if node == "+":
            added = worker_node(cluster)
            node = added.node_id
            by_id[node] = added
        else:
            cluster.remove_node(by_id[node], allow_graceful=False)
        print(node, file=said, flush=True)
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    os.setpgid(0, 0)
    main()
