"""What follows from where shards stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from hab_ray.sweep.shards import Shards
from tests.sweep.conftest import work_of


@pytest.mark.parametrize(("judge", "flows"), [("lab/j", True), ("smollm2-135m", False)])
def test_rows_do_not_flow_to_a_server_of_this_machine(tmp_path: Path, judge: str, flows: bool) -> None:
    """Its calls would come in turns with others, and each would be read from its beginning."""
    shards = Shards(work_of(tmp_path, judges=[judge]))
    answering = [state for state in shards.all if state.shard.stage == "respond"]
    assert answering and [shards.feed(state) is not None for state in answering] == [flows] * len(answering)
