"""Which account and which protocol a URL leads to, and which keys it takes there."""

import pytest

from hab_simulator import Profile
from hab_simulator.playing import played, route
from tests.simulator.batches import chat, contents
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


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


CHAT, MESSAGES = "/openai/v1/chat/completions", "/anthropic/v1/messages"
GENERATE = "/google/v1/models/gemini-3.8-flash:generateContent"
VERSION = {"anthropic-version": "2026-10-21"}


@pytest.mark.parametrize(
    ("url", "sent", "status", "word"),
    [
        *((CHAT, sent, 401, "invalid_request_error") for sent in ({}, bearer("wrong"))),
        (CHAT, bearer("right"), 200, ""),
        ("/x/groq/v1/chat/completions", bearer("right"), 401, "invalid_request_error"),
        ("/x/groq/v1/chat/completions", bearer("other"), 200, ""),
        ("/x/new/v1/chat/completions", bearer("any"), 200, ""),
        *((MESSAGES, sent, 401, "authentication_error") for sent in ({}, {"x-api-key": "wrong"})),
        *((MESSAGES, sent, 200, "") for sent in ({"x-api-key": "right"}, bearer("right"))),
        (GENERATE, {}, 403, "PERMISSION_DENIED"),
        (GENERATE, {"x-goog-api-key": "wrong"}, 400, "API_KEY_INVALID"),
        (GENERATE, {"x-goog-api-key": "right"}, 200, ""),
        (GENERATE + "?key=right", {}, 200, ""),
    ],
)
async def test_keys_are_required_where_the_vendor_wants_them(
    start: Start, url: str, sent: dict[str, str], status: int, word: str
) -> None:
    account = {"keys": ["right"], "models": {"*": {}}}
    accounts = dict.fromkeys(("openai", "anthropic", "google"), account) | {"x/groq": {"keys": ["other"]}}
    body = contents(1) if url.startswith(GENERATE) else chat(1) | {"max_tokens": 100}
    found, _, reply = await (await start(accounts=accounts)).post(url, body, sent | VERSION)
    assert found == status and word in str(reply.get("error"))
