"""Where online calls are made."""

from pathlib import Path
from typing import Any

import pytest

from hab_ray.executors.choice import MAX_CALLS, choose_executor, online_calls
from tests.sweep.conftest import work_of

ONLINE = {"lab": {"kind": "openai", "url": "http://127.0.0.1:9/v1"}}
BATCHES = {"lab": ONLINE["lab"] | {"price": {"input": 0}, "batch": {"discount": 0.5}}}
RAY = {"RAY_ADDRESS": "127.0.0.1:6379"}


@pytest.mark.parametrize(
    ("settings", "environment", "executor", "reason"),
    [
        ({"providers": ONLINE}, {}, "local", "fewer than 20,000 online calls"),
        ({"providers": ONLINE, "samples": 1000}, {}, "ray", "20,000 online calls or more"),
        ({"providers": BATCHES, "samples": 1000}, {}, "local", "fewer than 20,000 online calls"),
        ({"providers": BATCHES, "samples": 1000, "mode": "online"}, {}, "ray", "20,000 online calls or more"),
        ({"providers": ONLINE}, RAY, "ray", "RAY_ADDRESS is set"),
        ({"providers": ONLINE, "executor": "local"}, RAY, "local", "as the sweep says"),
        ({"providers": ONLINE, "executor": "ray"}, {}, "ray", "as the sweep says"),
    ],
)
def test_choice(
    tmp_path: Path, settings: dict[str, Any], environment: dict[str, str], executor: str, reason: str
) -> None:
    choice = choose_executor(work_of(tmp_path, **settings), environment)
    assert (choice.executor, reason in choice.reason) == (executor, True), choice


def test_calls_of_seeds(tmp_path: Path) -> None:
    """Each seed query is asked of each subject, and each answer read by each judge."""
    work = work_of(tmp_path)
    seeds = sum(len(rubric.seeds) for rubric in work.rubrics.values())
    assert online_calls(work) == seeds * len(work.sweep.subjects) * (1 + len(work.sweep.judges)) < MAX_CALLS
