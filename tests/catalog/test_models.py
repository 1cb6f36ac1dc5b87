"""The catalogue: models by name, by provider and by file; names as folders."""

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from anthropic.resources.messages import messages as anthropic_messages
from hypothesis import example, given
from hypothesis import strategies as st
from openai.types.shared import chat_model

from hab_ray.calls import Params
from hab_ray.catalog.base import UsdPrice
from hab_ray.catalog.models import (
    Catalog,
    Limits,
    Model,
    ModelEntry,
    ProviderEntry,
    Purpose,
    Sampling,
    Thinking,
    accepted,
    folder_name,
    load_catalog,
)
from hab_ray.catalog.settings import unheeded
from hab_ray.errors import ConfigError


@pytest.fixture
def catalog() -> Catalog:
    """The shipped one and a lab's own endpoint."""
    lab = {
        "kind": "openai",
        "url": "http://lab:8000/v1",
        "limits": {"concurrent": 8},
        "price": {"input": 1},
        "models": {
            "emb": {"purpose": "embedding", "price": {"input": 0.02}, "limits": {"concurrent": 2}},
            "org/deep": {"sampling": "fixed"},
        },
    }
    return load_catalog().extended({"lab": ProviderEntry.model_validate(lab)})


def test_the_shipped_catalogue_holds_together() -> None:
    catalog = load_catalog()
    for name, entry in catalog.models.items():
        assert entry.provider in catalog.providers, name
        assert catalog.find(name).wire == entry.wire
    assert all(p.serve or (p.url and p.key_env) for p in catalog.providers.values())


@pytest.mark.parametrize(
    ("limits", "concurrent"), [(None, 4), ({}, 4), ({"patience_s": 5}, 4), ({"concurrent": 9}, 9), (Limits(), 4)]
)
def test_a_provider_that_hab_serves_gets_few_calls_at_a_time(limits: Any, concurrent: int) -> None:
    said = {"kind": "openai", "serve": True} | ({} if limits is None else {"limits": limits})
    mine = ProviderEntry.model_validate(said)
    found = load_catalog().extended({"mine": mine}).find("mine/tiny.gguf")
    assert found.limits and found.limits.concurrent == concurrent
    assert ProviderEntry.model_validate(mine.model_dump(mode="json")) == mine


FREE = UsdPrice(input=0)
FOUND: dict[str, dict[str, Any]] = {
    "smollm2-135m": {"provider": "local", "wire": "smollm2-135m", "purpose": Purpose.CHAT, "price": FREE},
    "wordllama": {"purpose": Purpose.EMBEDDING},
    "lab/some-model": {"wire": "some-model", "limits": Limits(concurrent=8), "price": UsdPrice(input=1)},
    "lab/emb": {"purpose": Purpose.EMBEDDING, "limits": Limits(concurrent=2), "price": UsdPrice(input=0.02)},
    "lab/org/deep": {"provider": "lab", "wire": "org/deep", "sampling": Sampling.FIXED},
    "lab/x.gguf": {"provider": "lab", "wire": "x.gguf", "weights": None, "sampling": Sampling.BOTH},
    **{
        f"local/{path}": {"provider": "local", "wire": "x", "weights": path, "price": FREE}
        for path in ("x.gguf", "models/x.gguf", "/data/models/x.gguf")
    },
}


@pytest.mark.parametrize("name", FOUND)
def test_a_model_is_found_by_its_name_at_a_provider_and_by_file(name: str, catalog: Catalog) -> None:
    """With what its provider says of it, or else of all its models."""
    entry = catalog.find(name)
    assert {key: getattr(entry, key) for key in FOUND[name]} == FOUND[name]


@pytest.mark.parametrize("name", ["gpt-99", "nowhere/model", "lab/", "/model", "", "lab"])
def test_an_unknown_model_is_named_with_what_is_known(name: str, catalog: Catalog) -> None:
    with pytest.raises(ConfigError) as told:
        catalog.find(name)
    assert f"unknown model {name!r}" in str(told.value)
    assert "lab, local" in str(told.value)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("gpt4.1", "gpt-4.1"),
        ("GPT-4.1", "gpt-4.1"),
        ("claude-opus-5.5", "claude-opus-5-5"),
        ("claude-haiku-4-5-2025100", "claude-haiku-4-5"),
        ("opena/gpt-4.1", "gpt-4.1"),
        ("llama-4-scout", "llama-4-scout-instruct"),
        ("lbb/org/deeep", "lab/org/deep"),
    ],
)
def test_an_unknown_model_is_told_what_may_have_been_meant(name: str, near: str, catalog: Catalog) -> None:
    everything = load_catalog().extended(catalog.providers)
    assert everything.near(name)[0] == near
    with pytest.raises(ConfigError, match=f"unknown model .* did you mean {near!r}"):
        everything.find(name)


def test_a_name_like_nothing_is_told_of_no_model(catalog: Catalog) -> None:
    assert load_catalog().near("vicuna" * 10_000) == []
    with pytest.raises(ConfigError) as told:
        load_catalog().find("")
    assert "did you mean" not in str(told.value)


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("w", True),
        ("w-2026-01-01", True),
        ("w-20260101", True),
        ("w-001", True),
        ("w-8b", False),
        ("w-mini", False),
        ("w-mini-2026-01-01", False),
        ("other", False),
        ("named", True),
    ],
)
def test_which_listed_names_are_a_models(name: str, same: bool) -> None:
    assert ModelEntry(provider="p", wire="w", reports=("named",)).covers(name) is same


def test_an_override_by_catalogue_name_is_the_models_unless_its_wire_name_has_one_too() -> None:
    def reserve(name: str, models: dict[str, int], like: str | None = "openai") -> int:
        given = {key: {"thinking_reserve": tokens} for key, tokens in models.items()}
        fields = {"like": like, "kind": "openai", "url": "https://x.example/v1", "models": given}
        provider = name.partition("/")[0] if "/" in name else "openai"
        return load_catalog().extended({provider: ProviderEntry.model_validate(fields)}).find(name).thinking_reserve

    by_name = {"gpt-5.5": 32000}
    assert reserve("gpt-5.5", by_name) == reserve("gw/gpt-5.5", by_name) == 32000
    assert reserve("gpt-5.5", {**by_name, "gpt-5.5-2026-04-23": 16000}) == 16000
    assert reserve("gpt-5.5", by_name, like=None) == 8192 and reserve("openai/gpt-5.5", by_name, like=None) == 32000


def test_a_sweeps_provider_replaces_one_of_the_same_name() -> None:
    mine = ProviderEntry(kind="openai", url="http://mine/v1")
    changed = load_catalog().extended({"openai": mine})
    assert changed.providers["openai"] == mine
    assert load_catalog().providers["openai"].url == "https://api.openai.com/v1"
    assert changed.sha256 != load_catalog().sha256


@pytest.mark.parametrize(
    ("capabilities", "taken"),
    [
        ({}, Params(5, 0.5, 0.9)),
        ({"sampling": Sampling.TEMPERATURE}, Params(5, 0.5)),
        ({"sampling": Sampling.FIXED}, Params(5)),
        ({"thinking": Thinking.OPTIONAL}, Params(5, 0.5, 0.9, "low")),
        ({"thinking": Thinking.ALWAYS, "sampling": Sampling.FIXED}, Params(5, effort="low")),
        ({"sampling": Sampling.IGNORED}, Params(5, 0.5, 0.9)),
        ({"thinking": Thinking.ALWAYS, "efforts": ()}, Params(5, 0.5, 0.9)),
        ({"efforts": ("high",), "sampling": Sampling.FIXED}, Params(5, effort="low")),
    ],
)
def test_a_model_is_sent_only_what_it_takes(capabilities: dict[str, Any], taken: Params) -> None:
    entry = ModelEntry(provider="p", wire="w", **capabilities)
    assert accepted(entry, Params(5, 0.5, 0.9, "low")) == taken
    assert accepted(entry, Params(5)) == Params(5)


@pytest.mark.parametrize(
    ("name", "in_vain"),
    [
        ("gpt-4.1", ["effort low not sent"]),
        ("gpt-6-luna", ["temperature 0.5 not sent", "top_p 0.9 not sent"]),
        ("claude-sonnet-4-6", ["top_p 0.9 not sent"]),
        ("claude-haiku-4-5", ["top_p 0.9 not sent", "effort low not sent"]),
        ("gemini-3.1-pro-preview", []),
        ("gemini-3.8-flash", ["temperature 0.5 sent", "top_p 0.9 sent"]),
        ("gemini-3.5-flash-lite", ["temperature 0.5 sent", "top_p 0.9 sent"]),
        ("grok-4.20-reasoning", ["effort low not sent"]),
        ("grok-4.3", []),
        ("mistral-large-4", ["top_p 0.9 not sent", "effort low not sent"]),
    ],
)
def test_what_is_asked_for_in_vain_is_known_with_its_reason(name: str, in_vain: list[str]) -> None:
    found = unheeded(load_catalog().find(name), Params(5, 0.5, 0.9, "low"))
    assert [f"{setting} {'sent' if setting.sent else 'not sent'}" for setting in found] == in_vain
    assert all(setting.why for setting in found) and unheeded(load_catalog().find(name), Params(5)) == ()


@pytest.mark.parametrize(
    ("reports", "name", "own"),
    [
        (None, "anything", True),
        ((), "w", True),
        ((), "w-2026-01-01", False),
        (("w-2026-01-01",), "w-2026-01-01", True),
        (("w-2026-01-01",), "w", True),
        (("w-2026-01-01",), "w-2026-01-02", False),
        ((), "", True),
        ((), "vendor/w", True),
        ((), "gateway/vendor/w", True),
        *(((), name, False) for name in ("vendor/w:free", "w:free", "v/w-mini", "vendor/new-w", "w/", "w/x", "new-w")),
    ],
)
def test_which_names_are_the_models_own(reports: tuple[str, ...] | None, name: str, own: bool) -> None:
    assert Model("m", ModelEntry(provider="p", wire="w", reports=reports)).is_itself(name) is own


def test_a_name_with_its_vendor_is_not_that_of_another_vendors_model() -> None:
    model = Model("m", ModelEntry(provider="p", wire="qwen/flash", reports=()))
    assert model.is_itself("gateway/qwen/flash")
    assert not any(model.is_itself(name) for name in ("flash", "glm/flash", "qwen/gateway/flash", "newqwen/flash"))


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("meta-llama/Llama-3 70B", "meta-llama-llama-3-70b-"),
        ("../../etc/passwd", "etc-passwd-"),
        ("..", "x-"),
        (".hidden", "hidden-"),
        ("GPT-4", "gpt-4-"),
        ("模型", "x-"),
        ("x" * 65, "x" * 50 + "-"),
        ("", "x-"),
    ],
)
def test_any_other_name_becomes_a_slug_and_a_hash(name: str, slug: str) -> None:
    assert folder_name(name).startswith(slug)
    assert len(folder_name(name)) == len(slug) + 8


def test_names_that_look_alike_have_folders_of_their_own() -> None:
    names = ["gpt-4", "GPT-4", "gpt 4", "gpt/4", "Gpt-4", "gpt-4 "]
    assert len({folder_name(name).casefold() for name in names}) == len(names)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"])))
@example("claude-3-5-sonnet-20241022")
@example("x" * 64)
def test_every_folder_is_plain_and_plain_names_stay(name: str) -> None:
    folder = folder_name(name)
    assert (folder == name) is (re.fullmatch("[a-z0-9][a-z0-9._-]{0,63}", name) is not None)
    assert 1 <= len(folder) <= 64
    assert folder[0].isalnum()
    assert set(folder) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")


# Announced ends, by the vendors' own lists and pages: none may be missing here, or a run would be planned past it.
ENDS = {
    "2026-10-23": ("o3-mini-2025-01-31", "o4-mini-2025-04-16"),
    "2026-11-30": ("claude-sonnet-4-5",),
    "2026-12-01": ("gemini-2.5-pro", "gemini-2.5-flash"),
    "2026-12-11": ("o3-2025-04-16", "gpt-5", "gpt-5-mini", "gpt-5-nano"),
    "2027-01-14": ("gpt-4.1", "gpt-4.1-mini", "gpt-4o", "gpt-4o-mini"),
    "2027-04-01": ("gpt-5.4-nano",),
    "2027-05-07": ("gemini-3.1-flash-lite",),
    "2028-05-14": ("gemini-embedding-001",),
}


def test_no_announced_end_is_missing_and_none_is_made_up() -> None:
    models = load_catalog().models
    dated = {name: str(end.ends) for name in models if (end := models[name].lifecycle)}
    assert {name: end for name, end in dated.items() if end > "2026-10-22"} == {
        name: end for end, names in ENDS.items() for name in names
    }


def test_every_end_that_the_installed_sdks_know_is_in_the_catalogue() -> None:
    known = {entry.wire: entry.lifecycle for entry in load_catalog().models.values()}
    listed = Path(chat_model.__file__).read_text().partition("Deprecated values:")[2]
    deprecated = set(re.findall(r'"([a-z0-9.-]+)"', listed))
    of_anthropic = set(vars(anthropic_messages)["DEPRECATED_MODELS"])  # private: where it is defined has changed once
    assert len(deprecated) > 20 and len(of_anthropic) > 2
    assert [wire for wire in known.keys() & (deprecated | of_anthropic) if known[wire] is None] == []


def test_who_answers_to_a_name_that_is_rerouted() -> None:
    models = load_catalog().models
    answered = {entry.lifecycle.answered_by for entry in models.values() if entry.lifecycle} - {None}
    assert answered == {"gemini-3.8-flash", "gemini-3.6-flash", "gemini-3.5-flash-lite"}
    assert answered <= {entry.wire for entry in models.values()}
    pro = models["gemini-2.5-pro"]
    assert (pro.wire_on(date(2026, 11, 30)), pro.wire_on(date(2026, 12, 1))) == ("gemini-2.5-pro", "gemini-3.8-flash")
    for name, entry in models.items():
        if entry.lifecycle and entry.lifecycle.answered_by:
            assert not Model(name, entry).is_itself(entry.lifecycle.answered_by)
