"""Which Ray is joined, and how it is talked to."""

import json
import os
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path

import pytest

from hab_ray.catalog.addresses import cluster_address
from hab_ray.cluster.session import authentication
from hab_ray.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "address"),
    [("", None), ("local", None), (" ", None), ("auto", "auto"), ("10.0.0.1:6379", "10.0.0.1:6379")],
)
def test_the_cluster_of_an_address(given: str, address: str | None) -> None:
    assert cluster_address({"RAY_ADDRESS": given}) == address and cluster_address({}) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        *((address, "this is the address of a job server") for address in ("http://h:8265", "https://h")),
        ("ray://h:10001", "Ray Client is not supported"),
    ],
)
def test_an_address_of_something_else_is_refused(given: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"RAY_ADDRESS={given}: {words}.*HEAD:6379"):
        cluster_address({"RAY_ADDRESS": given})


def test_a_ray_of_our_own_has_a_token_of_its_own() -> None:
    one, other = authentication(None, {}), authentication(None, {})
    assert one["RAY_AUTH_MODE"] == "token" and len(one["RAY_AUTH_TOKEN"]) == 64
    assert one["RAY_AUTH_TOKEN"] != other["RAY_AUTH_TOKEN"]


@pytest.mark.parametrize("address", [None, "auto", "h:6379"])
@pytest.mark.parametrize("mode", ["disabled", "token"])
def test_what_the_user_says_of_tokens_stands(address: str | None, mode: str) -> None:
    assert authentication(address, {"RAY_AUTH_MODE": mode}) == {}


def test_a_cluster_is_joined_with_a_token_if_one_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert authentication("auto", {}) == authentication("h:6379", {}) == {"RAY_AUTH_MODE": "disabled"}
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        assert authentication("h:6379", {name: "x"}) == {"RAY_AUTH_MODE": "token"}
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray/auth_token").write_text("t")
    assert authentication("auto", {}) == {"RAY_AUTH_MODE": "token"}
    assert authentication("h:6379", {}) == {"RAY_AUTH_MODE": "disabled"}


@pytest.mark.cluster
@pytest.mark.xdist_group("own ray")
def test_a_ray_of_our_own_listens_on_this_machine_alone_also_where_it_was_imported_before() -> None:
    """Its metrics, too, which Ray otherwise serves to the network.

    A program that imported Ray, such as a notebook, has read the environment without the token.
    """
    environment = {n: v for n, v in os.environ.items() if n != "RAY_ADDRESS" and not n.startswith("RAY_AUTH")}
    command = [sys.executable, "-c", "import ray.data\nfrom tests.cluster.own_ray import main; main()"]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert told.returncode == 0, told.stderr
    addresses = {each.removeprefix("::ffff:") for each in json.loads(told.stdout.splitlines()[-1])}
    assert addresses and all(ip_address(each).is_loopback for each in addresses), addresses
