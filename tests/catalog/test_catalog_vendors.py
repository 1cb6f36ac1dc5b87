"""What the catalogue says that models take, against the vendors as the simulator plays them."""

from datetime import date

import pytest

from hab_ray.calls import Params
from hab_ray.catalog.models import ModelEntry, Purpose, accepted, load_catalog
from hab_ray.providers import connect
from hab_ray.providers.base import Endpoint
from hab_simulator.accounts import vendors
from hab_simulator.asks import Refused
from hab_simulator.playing import played
from tests.providers.conftest import chat_call

TODAY = date(2026, 11, 23)
LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
MODELS = [
    name
    for name, model in load_catalog().models.items()
    if model.provider in vendors() and model.purpose is Purpose.CHAT
    if model.lifecycle is None or model.lifecycle.ends > TODAY
]


def is_taken(model: ModelEntry, params: Params) -> bool:
    """Whether the vendor takes a request with these settings."""
    provider = connect(Endpoint(model.provider, model.provider, "http://127.0.0.1:1", "key", 1.0))
    wire = provider.chat(chat_call(params), model)
    headers = {"anthropic-version": wire.version or "2026-10-21"}
    path = wire.path.strip("/").removeprefix("v1/")
    try:
        played(model.provider).online.check(path, headers, vendors()[model.provider], wire.body)
    except Refused:
        return False
    return True


@pytest.mark.parametrize("name", MODELS)
def test_a_vendor_takes_what_is_sent_and_the_levels_of_effort_that_the_catalogue_lists(name: str) -> None:
    model = load_catalog().find(name)
    assert is_taken(model, accepted(model, Params(500, 0.0, 0.95)))
    for level in LEVELS:
        sent = accepted(model, Params(500, effort=level))
        listed = model.efforts is None or sent.effort is None or model.takes_effort(level)
        assert not listed or model.efforts is None or is_taken(model, sent), level
        assert listed or not is_taken(model, sent), level


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_left_out_that_a_vendor_would_take(name: str) -> None:
    """But for Gemini 4, which takes a temperature and ignores it."""
    model = load_catalog().find(name)
    for asked in (Params(500, 0.5), Params(500, effort="high")):
        if accepted(model, asked) != asked and name != "gemini-4-argon":
            assert not is_taken(model, asked)
