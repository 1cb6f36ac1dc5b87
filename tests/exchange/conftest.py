"""Run folders on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hab_ray.work import Work
from tests.small_runs import Shape, write_run


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[[Shape], Work]:
    """Writes a run folder of a shape and gives its work."""
    return lambda shape: write_run(tmp_path / "run", shape)
