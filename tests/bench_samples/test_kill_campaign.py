"""A few of the kills of `make bench`, at fixed moments."""

from __future__ import annotations

import pytest

from benchmarks.kill_campaign import SAMPLE_KILLS, rules, run_sample


@pytest.mark.bench
@pytest.mark.timeout(600)
@pytest.mark.integration
@pytest.mark.long
def test_killed_drivers() -> None:
    """Killed drivers stay within the budget and pay by batch once."""
    found = run_sample()
    assert sum(one.kills for one in found) == SAMPLE_KILLS, found
    broken = [rule for rule, count in rules(found) if count]
    assert not broken, f"{broken}: {found}"
