"""What a command loads: a status that is asked for again and again must not load what only a run needs."""

from types import ModuleType

import pytest

from hab_ray.cli import main
from hab_ray.cli.commands.running import plan, run, status
from hab_ray.stages import ORDER, WITHOUT_VIEW
from hab_ray.stages.wiring import stages
from tests.conftest import Vendors
from tests.loading import modules_after

HEAVY = ("hab_ray.doctor", "hab_ray.rehearse", "hab_simulator")
DATA = ("hab_ray.stages.wiring", "pyarrow", "numpy", "aiohttp")


@pytest.mark.parametrize(
    ("module", "without"),
    [
        (main, ("pydantic", "hab_ray.rubric", *DATA, *HEAVY)),
        (status, (*DATA, *HEAVY)),
        (plan, ("aiohttp", "hab_ray.sweep", "pyarrow.compute", "scipy", *HEAVY)),
        (run, ("ray", "scipy.stats", "scipy.optimize", *HEAVY)),
    ],
)
def test_a_command_loads_nothing_that_it_does_not_need(module: ModuleType, without: tuple[str, ...]) -> None:
    found = modules_after(f"import {module.__name__}")
    assert module.__name__ in found and not set(without) & found


@pytest.mark.integration
def test_a_simulator_is_known_without_loading_one(vendor: Vendors) -> None:
    url = f"{vendor().url}/x/sim/v1"
    asked = "from hab_ray.storage.simulated import is_simulator"
    assert "hab_simulator" not in modules_after(f"{asked}; assert is_simulator({url!r})")


def test_what_a_status_knows_of_stages_without_loading_them_is_true() -> None:
    assert tuple(stages()) == ORDER
    assert {name for name, spec in stages().items() if not spec.has_view} == set(WITHOUT_VIEW)
