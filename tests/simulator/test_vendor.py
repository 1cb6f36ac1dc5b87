"""Which account and which protocol a URL leads to."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hab_ray.simulator import Kind, Profile
from hab_ray.simulator.vendor import route
from tests.simulator.batches import chat
from tests.simulator.conftest import Start

OWN = {f"x/{kind}": {"kind": kind} for kind in Kind}


@pytest.mark.parametrize(
    ("url", "account", "kind", "path"),
    [
        ("/v1/chat/completions", "openai", Kind.OPENAI, "chat/completions"),
        ("/openai/v1/files/f", "openai", Kind.OPENAI, "files/f"),
        ("/anthropic/v1/messages", "anthropic", Kind.ANTHROPIC, "messages"),
        ("/google/v1beta/models/m:generateContent", "google", Kind.GOOGLE, "models/m:generateContent"),
        ("/google/upload/v1beta/files", "google", Kind.GOOGLE, "upload/files"),
        ("/xai/v1/batches", "xai", Kind.XAI, "batches"),
        ("/x/other/v1/batches", "x/other", Kind.OPENAI, "batches"),
        ("/x/xai/v1/batches", "x/xai", Kind.XAI, "batches"),
        ("/x/anthropic/v1/messages/batches", "x/anthropic", Kind.ANTHROPIC, "messages/batches"),
        ("/x/google/v1beta/batches", "x/google", Kind.GOOGLE, "batches"),
    ],
)
def test_routes(url: str, account: str, kind: Kind, path: str) -> None:
    found = route(url, Profile.model_validate({"accounts": OWN}).kind)
    assert found is not None and (found.account, found.kind, found.path) == (account, kind, path)


@pytest.mark.parametrize("url", ["/", "/nobody/v1/models", "/xai/v1beta/models", "/openai/upload/v1/files", "/x/other"])
def test_nobody_lives_there(url: str) -> None:
    assert route(url, Profile().kind) is None


async def test_a_profile_gives_an_account_its_protocol(start: Start) -> None:
    """xAI's answers state the call's price in ticks, OpenAI's do not."""
    line = await start(accounts=OWN)
    bodies = {name: (await line.post(f"/x/{name}/v1/chat/completions", chat(1)))[2] for name in ("xai", "openai")}
    assert "cost_in_usd_ticks" in bodies["xai"]["usage"] and "cost_in_usd_ticks" not in bodies["openai"]["usage"]


def test_a_vendor_keeps_its_protocol() -> None:
    with pytest.raises(ValidationError, match="kind: is xai"):
        Profile.model_validate({"accounts": {"xai": {"kind": "openai"}}})
