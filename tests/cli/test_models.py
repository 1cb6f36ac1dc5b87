"""`hab models`: the catalogue beside what the vendors list, which costs nothing and is hostile text like any other."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aiohttp import web
from typer.testing import CliRunner

from hab_ray.catalog.models import Catalog, load_catalog
from hab_ray.cli.commands.preparing import models
from hab_ray.cli.main import app
from hab_ray.errors import Exit
from tests.cli.hostile_vendor import serving
from tests.conftest import Vendors

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "XAI_API_KEY")
SECRET = "-".join(["hab", "listed", "key", "0123456789abcdef"])
PATHS = {
    "openai": "/openai/v1",
    "anthropic": "/anthropic",
    "google": "/google",
    "xai": "/xai/v1",
    "openrouter": "/x/router/v1",
}
Check = Callable[..., tuple[int, str]]


def shown(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["models", *arguments])
    return done.exit_code, done.output


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Check:
    """What is shown of models beside the lists of vendors at another address; all keys are set."""
    for name in KEYS:
        monkeypatch.setenv(name, SECRET)
    shipped = load_catalog()

    def check(text: str, url: str, paths: Mapping[str, str] = PATHS) -> tuple[int, str]:
        moved = {name: shipped.providers[name].model_copy(update={"url": url + path}) for name, path in paths.items()}

        def extended() -> Catalog:
            return shipped.extended(moved)

        monkeypatch.setattr(models, "load_catalog", extended)
        status, printed = shown(text, "--check")
        assert SECRET not in printed
        return status, printed

    return check


def row(printed: str, name: str) -> str:
    """The line of a model, its cells one space apart."""
    (line,) = (line for line in printed.splitlines() if line.split()[:1] == [name])
    return " ".join(line.split())


def test_the_catalogue_shows_price_batch_context_end_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.delenv("XAI_API_KEY", raising=False)
    _, printed = shown()
    assert row(printed, "gpt-4.1") == "gpt-4.1 2/8 2027-01-14"
    assert row(shown("gpt-4.1")[1], "gpt-4.1") == "gpt-4.1 2/8 1/4 1M 2027-01-14"
    assert row(shown("grok")[1], "grok-3").endswith("- 131k gone 2026-05-15") and "grok-3 " not in printed
    assert row(printed, "smollm2-135m") == "smollm2-135m free"
    assert "openai (OPENAI_API_KEY is set)" in printed and "xai (XAI_API_KEY is not set)" in printed
    assert SECRET not in printed
    whole = "".join(shown(provider)[1] for provider in load_catalog().providers if provider in printed)
    assert {name for name in load_catalog().models if name not in whole} == set()


def test_a_text_chooses_and_a_wrong_one_is_told_what_is_near() -> None:
    _, printed = shown("HAIKU")
    assert "claude-haiku-5-5" in printed and "opus" not in printed
    for text, hint in (
        ("claude-haiku5", "did you mean claude-haiku-5-5"),
        ("#" * 5000, "`hab models` alone shows all"),
    ):
        status, printed = shown(text)
        assert status == Exit.CONFIGURATION and "no model of the catalogue has " in printed and hint in printed


def test_the_vendors_say_what_exists_what_is_gone_and_what_is_new(checked: Check, vendor: Vendors) -> None:
    accounts = {
        "openai": {"models": {"gpt-4.1-2025-04-14": {}, "gpt-9-sol": {}, "text-embedding-3-small": {}}},
        "anthropic": {"models": {"claude-opus-5-5": {}, "claude-opus-4-8": {"retired": True}}},
        "google": {"models": {"gemini-3.8-flash": {}, "gemini-9-pro": {}}},
        "xai": {"models": {"grok-4.7": {}}},
    }
    status, printed = checked("", vendor(accounts=accounts).url, PATHS | {"mistral": "/x/mistral/v1"})
    assert status == Exit.COMPLETE
    listed = {name: row(printed, name).split()[-1] for name in ("gpt-4.1", "gpt-4o", "claude-opus-5-5", "grok-4.7")}
    assert listed == {"gpt-4.1": "yes", "gpt-4o": "NO", "claude-opus-5-5": "yes", "grok-4.7": "yes"}
    assert row(printed, "claude-opus-4-8").endswith(" NO")
    assert "it lists 3 models; not in the catalogue: gpt-9-sol" in printed
    assert "not in the catalogue: gemini-9-pro" in printed
    assert "not asked: provider mistral: MISTRAL_API_KEY is not set" in printed
    assert row(printed, "mistral-large-4").endswith(" ?")


def test_lists_come_by_pages_and_one_without_an_end_is_given_up(checked: Check) -> None:
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path_qs)
        number = len(asked)
        model = {"id": f"claude-{number}", "name": f"models/gemini-{number}", "lifecycle": "active"}
        more = number < 3 or "endless" in request.path
        page = {"data": [model], "models": [model], "has_more": more, "last_id": model["id"]}
        return web.json_response(page | ({"nextPageToken": f"a&b{number}"} if more else {}))

    with serving(answer) as url:
        _, printed = checked("claude-opus", url, {"anthropic": ""})
        assert "it lists 3 models" in printed and asked[1:] == [
            f"/v1/models?limit=1000&after_id=claude-{number}" for number in (1, 2)
        ]
        asked.clear()
        _, printed = checked("gemini-3", url, {"google": ""})
        assert "it lists 3 models" in printed and asked[1].endswith("models?pageSize=1000&pageToken=a%26b1")
        asked.clear()
        status, printed = checked("claude-opus", url, {"anthropic": "/endless"})
        assert status == Exit.CONFIGURATION and "no vendor could be asked" in printed
        assert len(asked) == 100


HOSTILE = "\x1b]0;owned\x07\u202egpt-\n9 [bold]" + SECRET


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, {"data": [{"id": HOSTILE}]}),
        (401, {"error": {"message": HOSTILE}}),
        (500, HOSTILE),
        (200, {"data": [{"id": 7}]}),
        (200, []),
        (302, {"error": HOSTILE}),
    ],
)
def test_a_list_is_hostile_text_and_holds_no_key(checked: Check, status: int, body: Any) -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(body, status=status) if not isinstance(body, str) else web.Response(text=body)

    with serving(answer) as url:
        _, printed = checked("gpt", url, {"openai": ""})
    assert "\x1b" not in printed and "\u202e" not in printed
    assert ("not asked: " in printed) is (body != {"data": [{"id": HOSTILE}]})
