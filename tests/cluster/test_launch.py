"""What launches clusters: cluster.yaml, the KubeRay manifest, the Dockerfile, and the scripts that they start."""

import asyncio
import copy
import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import jsonschema
import pytest
import yaml
from aiohttp import web
from botocore.stub import Stubber
from ray.autoscaler._private.util import prepare_config, validate_config

from hab_ray.cluster.session import authentication
from hab_simulator.sending import serving
from jobs.stop_when_idle import terminate, this_instance, wait_until_idle
from jobs.with_keys import environment, parameters

ROOT = Path(__file__).parent.parent.parent
DOCUMENTED = {"region_name": "us-east-1", "aws_access_key_id": "none", "aws_secret_access_key": "none"}


def cluster() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "cluster.yaml").read_text()))


def rayjob() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "jobs/rayjob.yaml").read_text()))


def schema() -> dict[str, Any]:
    return dict(json.loads((ROOT / "tests/fixtures/rayjob.schema.json").read_text()))


def test_rays_own_validator_takes_the_cluster() -> None:
    prepared = prepare_config(cluster())
    validate_config(prepared)
    kinds = prepared["available_node_types"]
    assert kinds["head"]["node_config"]["IamInstanceProfile"] == kinds["worker"]["node_config"]["IamInstanceProfile"]
    assert kinds["worker"]["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert "InstanceMarketOptions" not in kinds["head"]["node_config"]
    assert (kinds["worker"]["min_workers"], kinds["worker"]["max_workers"]) == (0, prepared["max_workers"])


@pytest.mark.parametrize("command", cluster()["head_start_ray_commands"] + cluster()["worker_start_ray_commands"])
def test_every_process_that_needs_keys_starts_with_them_and_every_script_is_there(command: str) -> None:
    words = shlex.split(command)
    assert subprocess.run(["bash", "-n", "-c", command]).returncode == 0
    assert words[:2] == ["ray", "stop"] or any(word.endswith("/with_keys.py") for word in words)
    scripts = [word.removeprefix("hab_ray/") for word in words if word.endswith(".py")]
    assert all((ROOT / script).is_file() for script in scripts)


def test_the_manifest_fits_the_definition() -> None:
    jsonschema.validate(rayjob(), schema())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "entryPoint"), "python"),
        (("spec", "shutdownAfterJobFinishes"), "yes"),
        (("spec", "rayClusterSpec", "headGroupSpec", "rayStartParams"), {"num-cpus": 0}),
        (("spec", "rayClusterSpec", "headGroupSpec", "template", "spec", "containers"), []),
        (("spec", "rayClusterSpec", "workerGroupSpecs"), [{"groupName": "w"}]),
    ],
)
def test_a_wrong_manifest_does_not(path: tuple[str, ...], value: Any) -> None:
    wrong = copy.deepcopy(rayjob())
    within = wrong
    for key in path[:-1]:
        within = within[key]
    within[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema())


def test_the_manifest_names_no_key_and_the_runtime_environment_that_ships() -> None:
    shipped = yaml.safe_load((ROOT / "jobs/runtime_env.yaml").read_text())
    assert yaml.safe_load(rayjob()["spec"]["runtimeEnvYAML"]) == shipped
    groups = [
        rayjob()["spec"]["rayClusterSpec"]["headGroupSpec"],
        *rayjob()["spec"]["rayClusterSpec"]["workerGroupSpecs"],
    ]
    for group in groups:
        (container,) = group["template"]["spec"]["containers"]
        assert container["envFrom"] == [{"secretRef": {"name": "hab-keys"}}]
        assert container["env"] == [{"name": "RAY_AUTH_MODE", "value": "disabled"}]


def test_one_version_of_ray_everywhere_and_every_version_pinned() -> None:
    version = importlib.metadata.version("ray")
    lines = (ROOT / "jobs/constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9.-]+==[\w.]+", pin) for pin in pins) and len(pins) > 50
    assert f"ray=={version}" in pins
    assert rayjob()["spec"]["rayClusterSpec"]["rayVersion"] == version
    assert f"FROM rayproject/ray:{version}-py311\n" in (ROOT / "Dockerfile").read_text()


def test_the_image_has_what_it_copies() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY") for word in line.split()[2:-1]]
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(copied) == sent and all((ROOT / name).exists() for name in copied)


def test_a_linter_finds_nothing_in_the_dockerfile() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    found = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "")


def test_keys_come_from_the_parameter_store_page_by_page() -> None:
    client = boto3.client("ssm", **DOCUMENTED)
    asked = {"Path": "/hab/", "WithDecryption": True}
    with Stubber(client) as aws:
        first = {"Parameters": [{"Name": "/hab/OPENAI_API_KEY", "Value": "sk-1"}], "NextToken": "more"}
        aws.add_response("get_parameters_by_path", first, asked)
        rest = {"Parameters": [{"Name": "/hab/RAY_AUTH_TOKEN", "Value": "t"}]}
        aws.add_response("get_parameters_by_path", rest, {**asked, "NextToken": "more"})
        found = dict(parameters(client, "/hab/"))
        aws.assert_no_pending_responses()
    assert found == {"OPENAI_API_KEY": "sk-1", "RAY_AUTH_TOKEN": "t"}


def test_a_nodes_environment_says_explicitly_how_ray_authenticates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    made = environment({"OPENAI_API_KEY": "sk-1", "PATH": "/nowhere", "RAY_AUTH_TOKEN": "t"})
    assert (made["OPENAI_API_KEY"], made["RAY_AUTH_MODE"]) == ("sk-1", "token") and made["PATH"] == os.environ["PATH"]
    assert environment({})["RAY_AUTH_MODE"] == "disabled"
    assert authentication("h:6379", made) == {}


def test_a_cluster_is_idle_once_it_was_not_busy_for_long_enough() -> None:
    seen: list[bool] = []

    def is_busy() -> bool:
        seen.append(len(seen) < 5)
        return seen[-1]

    wait_until_idle(is_busy, 0.03, look_every_s=0.01)
    assert seen[:5] == [True] * 5 and len(seen) > 5 and not any(seen[5:])


async def test_the_instance_that_ends_is_this_one() -> None:
    """Its metadata service, version 2, wants a token that it gave."""

    async def answer(request: web.BaseRequest) -> web.Response:
        if request.method == "PUT":
            return web.Response(text="token" if request.headers["X-aws-ec2-metadata-token-ttl-seconds"] else "")
        allowed = request.headers["X-aws-ec2-metadata-token"] == "token"
        text = "i-0abc" if request.path.endswith("/meta-data/instance-id") else ""
        return web.Response(status=200 if allowed else 401, text=text)

    client = boto3.client("ec2", **DOCUMENTED)
    async with serving(answer) as url:
        instance = await asyncio.to_thread(this_instance, f"{url}/latest")
    with Stubber(client) as aws:
        aws.add_response("terminate_instances", {}, {"InstanceIds": ["i-0abc"]})
        terminate(client, instance)
        aws.assert_no_pending_responses()
