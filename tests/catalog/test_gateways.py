"""Endpoints that are like a vendor of the catalogue: what they keep of it, and what they never do."""

from datetime import date
from typing import Any

import pytest

from hab_ray.catalog.models import Catalog, Limits, ModelEntry, ProviderEntry, load_catalog
from hab_ray.catalog.prices import Mode, priced, rate

TODAY = date(2026, 11, 23)
ELSEWHERE = "https://gateway.example.org/v1"
OPENAI = load_catalog().providers["openai"]


def entry(**said: Any) -> ProviderEntry:
    return ProviderEntry.model_validate({"like": "openai", "url": ELSEWHERE, **said})


def catalog(**said: Any) -> Catalog:
    return load_catalog().extended({"gateway": entry(**said)})


def found(name: str = "gpt-6-luna", **said: Any) -> ModelEntry:
    return priced(catalog(**said).find(f"gateway/{name}"), TODAY)


def vendors(name: str = "gpt-6-luna") -> ModelEntry:
    return priced(load_catalog().find(name), TODAY)


@pytest.mark.parametrize("name", ["gpt-6-luna", "gpt-5.5", "gpt-5.5-2026-04-23"])
def test_a_model_is_the_catalogues_but_for_its_batches(name: str) -> None:
    theirs = vendors("gpt-6-luna" if name == "gpt-6-luna" else "gpt-5.5")
    assert found(name) == theirs.model_copy(update={"provider": "gateway", "batch": None})
    assert found(name).price and found(name).limits == OPENAI.limits


@pytest.mark.parametrize(
    ("like", "name", "kind"), [("anthropic", "claude-haiku-4-5", "anthropic"), ("mistral", "mistral-large-4", "openai")]
)
def test_any_vendors_protocol_comes_with_its_models(like: str, name: str, kind: str) -> None:
    shown = catalog(like=like)
    assert shown.providers["gateway"].kind == kind
    assert shown.find(f"gateway/{name}").wire == load_catalog().find(name).wire


def test_batches_are_had_where_it_is_said_or_at_the_vendors_own_address() -> None:
    theirs = vendors()
    assert found(batch=True).batch == theirs.batch
    assert found(batch=False).batch is found().batch is None
    assert found(url=OPENAI.url).batch == found(url=f"{OPENAI.url}/").batch == found(url=None).batch == theirs.batch
    assert found(url=OPENAI.url, batch=False).batch is None
    own = found(batch={"discount": 0.25}, price={"input": 8})
    assert rate(own, Mode.BATCH).input == rate(own, Mode.ONLINE).input * 0.75


@pytest.mark.parametrize(
    ("url", "is_vendors"),
    [
        ("https://api.openai.com/v1", True),
        ("https://API.openai.com/v1/", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://eu-west-1.api.x.ai/v1", True),
        (ELSEWHERE, False),
        ("https://notapi.openai.com/v1", False),
        ("https://api.openai.com.example.org/v1", False),
        ("http://127.0.0.1:8000/v1", False),
    ],
)
def test_addresses_of_a_vendors_regions_are_the_vendors(url: str, is_vendors: bool) -> None:
    assert load_catalog().is_vendors(url) is is_vendors


def test_batch_terms_of_a_model_are_kept() -> None:
    theirs = vendors("grok-4.3")
    assert found("grok-4.3", like="xai", batch=True).batch == theirs.batch
    assert theirs.batch and theirs.batch.discount == 0.2
    assert found("grok-4.7", like="xai", batch=True).batch is None


def test_what_is_said_goes_before_the_vendors() -> None:
    said = found(
        limits={"concurrent": 3},
        price={"input": 7, "output": 8},
        models={"gpt-6-luna": {"thinking": "none", "most_output": 5}},
        batch=True,
    )
    assert said.limits == Limits(concurrent=3)
    assert said.price and (said.price.input, said.price.output) == (7, 8)
    assert said.batch and said.batch.price and said.batch.price.input == 3.5
    assert (said.thinking, said.most_output, said.sampling) == ("none", 5, vendors().sampling)


def test_the_vendors_key_goes_to_the_vendor_alone() -> None:
    assert catalog().providers["gateway"].key_env is None
    assert catalog(key_env="GATEWAY_KEY").providers["gateway"].key_env == "GATEWAY_KEY"
    for url in (None, OPENAI.url, f"{OPENAI.url}/"):
        at_the_vendor = catalog(url=url).providers["gateway"]
        assert (at_the_vendor.url, at_the_vendor.key_env) == (url or OPENAI.url, OPENAI.key_env)
    assert catalog(url=f"{OPENAI.url}2").providers["gateway"].key_env is None
    assert catalog(url=None, key_env="SECOND_KEY").providers["gateway"].key_env == "SECOND_KEY"


@pytest.mark.parametrize(
    "said", [{}, {"batch": True}, {"url": None}, {"limits": {}}, {"models": {"m": {"thinking": "none"}}}]
)
def test_an_entry_that_was_kept_and_read_again_means_the_same(said: dict[str, Any]) -> None:
    kept = ProviderEntry.model_validate_json(entry(**said).model_dump_json())
    assert kept == entry(**said)
    once = load_catalog().extended({"gateway": kept})
    assert once.sha256 == catalog(**said).sha256
    assert once.extended({"gateway": once.providers["gateway"]}).providers == once.providers


def test_the_record_of_an_entry_without_a_vendor_is_as_before() -> None:
    plain = ProviderEntry(kind="openai", url=ELSEWHERE)
    assert "like" not in plain.model_dump() and plain.model_dump()["kind"] == "openai"
