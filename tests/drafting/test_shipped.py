import pytest

from hab_ray.drafting.shipped import shipped_sweep, shipped_sweeps
from hab_ray.errors import ConfigError


def test_every_sweep_that_ships_is_found_with_its_size() -> None:
    found = {each.name: each for each in shipped_sweeps()}
    assert {"compare", "quick", "paper", "frontier", "experiments/human-check"} <= found.keys()
    assert not {"nightmare", "rayjob", "runtime_env"} & found.keys()
    assert found["compare"].size == "4 x 50 x 6, 2 judges"
    assert found["quick"].size == "1 x seeds x 6, 1 judge"
    assert found["demo"].is_free and not found["quick"].is_free
    assert found["quick"].is_priced_quickly and not found["judge-bridge"].is_priced_quickly
    assert all(each.sentence.endswith((".", "?")) for each in found.values()), [e.sentence for e in found.values()]


def test_a_sweep_is_found_by_its_name() -> None:
    assert shipped_sweep("jobs/compare.yaml").path == shipped_sweep("compare").path
    with pytest.raises(ConfigError, match="compare"):
        shipped_sweep("compere")
