from dataclasses import replace
from datetime import date

import pytest

from hab_ray.catalog.base import UsdPrice
from hab_ray.catalog.models import load_catalog
from hab_ray.drafting.answers import (
    MAX_EXAMPLES,
    Answers,
    Examples,
    OwnEndpoint,
    models_at,
    number_of_tests,
    price_of,
    variable,
    vendor_like,
)
from hab_ray.errors import ConfigError

TODAY = date(2026, 11, 24)
GATEWAY = OwnEndpoint("https://gateway.example/v1", like="openai", key_env="GATEWAY_KEY")
SERVER = OwnEndpoint("http://10.0.0.7:8000/v1", price=UsdPrice(input=0, output=0))
SECRET = "-".join(["sk", "lives", "0123456789abcdef"])


def answers(endpoint: OwnEndpoint | None) -> Answers:
    return Answers("first", ("gpt-6-luna",), ("claude-sonnet-5-5",), endpoint=endpoint)


@pytest.mark.parametrize(
    ("endpoint", "model", "called"),
    [
        (None, "gpt-6-luna", "gpt-6-luna"),
        (GATEWAY, "gpt-6-luna", "gateway/gpt-6-luna"),
        (GATEWAY, "gateway/gpt-6-luna", "gateway/gpt-6-luna"),
        (GATEWAY, "claude-haiku-5-5", "claude-haiku-5-5"),
        (GATEWAY, "of-its-own", "gateway/of-its-own"),
        (GATEWAY, "anthropic/claude-new", "anthropic/claude-new"),
        (SERVER, "Qwen/Qwen3-32B", "endpoint/Qwen/Qwen3-32B"),
        (SERVER, "gpt-6-luna", "gpt-6-luna"),
    ],
)
def test_a_model_is_asked_where_it_is(endpoint: OwnEndpoint | None, model: str, called: str) -> None:
    """A gateway has its vendor's models, a server those that nobody else has."""
    assert answers(endpoint).name_in_sweep(model) == called


def test_a_name_given_as_an_endpoints_is_its_own_unless_it_begins_with_another_provider() -> None:
    names = ("gpt-4o", "Qwen/Qwen3-32B", "endpoint/gpt-4o", "openai/gpt-6-luna", "gpt-4o")
    at_server = models_at(SERVER, names)
    assert at_server == ("endpoint/gpt-4o", "endpoint/Qwen/Qwen3-32B", "openai/gpt-6-luna")
    assert tuple(map(answers(SERVER).name_in_sweep, at_server)) == at_server
    assert models_at(GATEWAY, ("gpt-6-luna", "claude-haiku-5-5")) == ("gpt-6-luna", "claude-haiku-5-5")


def test_tests_are_made_where_a_key_is() -> None:
    """The gateway before a provider whose key is set, that before one whose is not; nobody who is retired."""
    nobody, google = frozenset[str](), frozenset({"google"})
    assert Examples(nobody, TODAY).makers(answers(None)).chat == "gpt-4.1"
    assert Examples(google, TODAY).makers(answers(None)).embedding == "gemini-embedding-2"
    assert Examples(google, TODAY).makers(answers(GATEWAY)).embedding == "gateway/text-embedding-3-small"
    ends = load_catalog().models["gpt-4.1"].lifecycle
    assert ends and Examples(nobody, ends.ends).makers(answers(None)).chat == "gpt-6.1-terra"


def test_where_no_key_is_set_the_endpoints_own_models_write_and_judge() -> None:
    own = Answers("first", ("endpoint/a",), ("endpoint/j",), endpoint=SERVER)
    assert Examples(frozenset(), TODAY).makers(own).chat == "endpoint/j"
    assert Examples(frozenset(), TODAY).judge(SERVER, own.models) == "endpoint/a"
    assert Examples(frozenset({"google"}), TODAY).makers(own).chat == "gemini-3.8-flash"
    assert Examples(frozenset({"google"}), TODAY).judge(SERVER, own.models) == "gemini-3.8-flash"
    anthropics = replace(GATEWAY, like="anthropic")
    assert Examples(frozenset(), TODAY).makers(answers(anthropics)).chat == "gateway/claude-sonnet-5-5"


def test_a_key_is_not_taken_for_the_name_of_its_variable() -> None:
    with pytest.raises(ConfigError) as refused:
        variable(SECRET)
    assert SECRET not in str(refused.value) and ".env" in str(refused.value)
    assert variable(" GATEWAY_KEY ") == "GATEWAY_KEY" and variable("-") is None and vendor_like("-") is None
    assert vendor_like(" OpenAI") == "openai"


def test_what_cannot_be_read_is_refused() -> None:
    assert (number_of_tests("50"), number_of_tests("seeds")) == (50, None)
    assert price_of("0.1/0.5") == UsdPrice(input=0.1, output=0.5)
    for read, given in (
        (number_of_tests, "0"),
        (number_of_tests, "many"),
        (number_of_tests, "9" * 5_000),
        (price_of, "1"),
        (price_of, "0.1/1000001"),
        (price_of, f"{'9' * 400}/1"),
        (vendor_like, "nobody"),
    ):
        with pytest.raises(ConfigError):
            read(given)


@pytest.mark.parametrize("vendor", [None, *load_catalog().vendors])
def test_what_is_suggested_can_be_used(vendor: str | None) -> None:
    """No model that ends, none twice, and of a vendor only its own."""
    examples, models = Examples(frozenset(), TODAY), load_catalog().models
    named = examples.models(vendor)
    assert named and len(set(named)) == len(named) <= MAX_EXAMPLES
    judge = examples.judge(replace(GATEWAY, like=vendor) if vendor else None, ())
    assert all(models[name].lifecycle is None for name in (*named, judge))
    assert vendor is None or {models[name].provider for name in (*named, judge)} == {vendor}


def test_models_whose_key_is_set_come_first() -> None:
    examples = Examples(frozenset({"anthropic"}), TODAY)
    assert (examples.models(None)[0], examples.judge(None, ())) == ("claude-haiku-5-5", "claude-sonnet-5-5")
