"""Which account and which protocol a URL leads to."""

from __future__ import annotations

import pytest

from hab_simulator import Profile
from hab_simulator.playing import played, route
from tests.simulator.batches import chat
from tests.simulator.conftest import Start

OWN = {f"x/{kind}": {"kind": kind} for kind in ("openai", "anthropic", "google", "xai")}


@pytest.mark.parametrize(
    ("url", "account", "kind", "path"),
    [
        ("/v1/chat/completions", "openai", "openai", "chat/completions"),
        ("/openai/v1/files/f", "openai", "openai", "files/f"),
        ("/anthropic/v1/messages", "anthropic", "anthropic", "messages"),
        ("/google/v1beta/models/m:generateContent", "google", "google", "models/m:generateContent"),
        ("/google/upload/v1beta/files", "google", "google", "upload/files"),
        ("/xai/v1/batches", "xai", "xai", "batches"),
        ("/x/other/v1/batches", "x/other", "openai", "batches"),
        ("/x/xai/v1/batches", "x/xai", "xai", "batches"),
        ("/x/anthropic/v1/messages/batches", "x/anthropic", "anthropic", "messages/batches"),
        ("/x/google/v1beta/batches", "x/google", "google", "batches"),
    ],
)
def test_routes(url: str, account: str, kind: str, path: str) -> None:
    found = route(url, Profile.model_validate({"accounts": OWN}).kind)
    assert found is not None
    place, vendor = found
    assert (place.account, place.path) == (account, path) and vendor is played(kind) and place.vendor is vendor.online


@pytest.mark.parametrize("url", ["/", "/nobody/v1/models", "/xai/v1beta/models", "/openai/upload/v1/files", "/x/other"])
def test_nobody_lives_there(url: str) -> None:
    assert route(url, Profile().kind) is None


async def test_a_profile_gives_an_account_its_protocol(start: Start) -> None:
    """xAI's answers state the call's price in ticks, OpenAI's do not."""
    line = await start(accounts=OWN)
    bodies = {name: (await line.post(f"/x/{name}/v1/chat/completions", chat(1)))[2] for name in ("xai", "openai")}
    assert "cost_in_usd_ticks" in bodies["xai"]["usage"] and "cost_in_usd_ticks" not in bodies["openai"]["usage"]
