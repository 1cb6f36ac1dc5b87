from __future__ import annotations

from datetime import date

import pytest

from hab_ray.catalog.models import load_catalog
from hab_ray.drafting.examples import MAX_EXAMPLES, Examples

TODAY = date(2026, 11, 24)


@pytest.mark.parametrize("vendor", [None, *load_catalog().vendors])
def test_what_is_suggested_can_be_used(vendor: str | None) -> None:
    """No model that ends, none twice, and of a vendor only its own."""
    examples, models = Examples(frozenset(), TODAY), load_catalog().models
    named = examples.models(vendor)
    assert named and len(set(named)) == len(named) <= MAX_EXAMPLES
    assert all(models[name].lifecycle is None for name in (*named, examples.judge(vendor)))
    assert vendor is None or {models[name].provider for name in (*named, examples.judge(vendor))} == {vendor}


def test_models_whose_key_is_set_come_first() -> None:
    examples = Examples(frozenset({"anthropic"}), TODAY)
    assert (examples.models(None)[0], examples.judge(None)) == ("claude-haiku-5-5", "claude-sonnet-5-5")
