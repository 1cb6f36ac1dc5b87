"""Which keys are missing on which node, on a real Ray."""

from __future__ import annotations

import pytest
import ray

from hab_ray.catalog.models import ProviderEntry
from hab_ray.cluster.keys import missing_keys, must_have_keys
from hab_ray.errors import ConfigError

pytestmark = pytest.mark.usefixtures("ray_address")
MISSING = "HAB_TEST_KEY_THAT_IS_NOWHERE"


def nodes() -> list[str]:
    return [node["NodeID"] for node in ray.nodes()]  # type: ignore[no-untyped-call]


def account(variable: str) -> ProviderEntry:
    return ProviderEntry(kind="openai", url="http://h/v1", key_env=variable, headers_env={"X": "PATH"})


def test_what_a_node_lacks_is_named_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MISSING, "set where the driver runs, and not on the node")
    assert missing_keys(nodes(), ["PATH", MISSING]) == {node: (MISSING,) for node in nodes()}
    assert missing_keys(nodes(), ["PATH"]) == {}
    must_have_keys(nodes(), [account("PATH")])
    with pytest.raises(ConfigError, match=rf"^node [0-9.]+: {MISSING} not set\n.*NAME_FILE"):
        must_have_keys(nodes(), [account("PATH"), account(MISSING)])
