from dataclasses import replace
from datetime import date

import pytest

from hab_ray.catalog.base import UsdPrice
from hab_ray.config.sweep import checked_sweep
from hab_ray.drafting.answers import Answers, Makers, OwnEndpoint
from hab_ray.drafting.text import Cost, sweep_text
from hab_ray.inputs.yaml_text import parse_yaml

TODAY = date(2026, 11, 24)
MAKERS = Makers("gpt-4.1", "text-embedding-3-small")
COST = Cost(1_500_000_000, 3_000_000_000, 2.5)


@pytest.mark.parametrize(
    "endpoint",
    [
        None,
        OwnEndpoint("https://gateway.example/v1", like="anthropic", key_env="GATEWAY_KEY"),
        OwnEndpoint("http://10.0.0.7:8000/v1", price=UsdPrice(input=0.25, output=1)),
    ],
)
@pytest.mark.parametrize("tests", [None, 50])
def test_what_is_written_is_what_was_answered(endpoint: OwnEndpoint | None, tests: int | None) -> None:
    models, judges = ["claude-haiku-5-5"], ("gpt-6.1-terra",)
    if endpoint:
        models.append("off: 'odd' #name")
    given = Answers("first", tuple(models), judges, ("encourage_learning",), tests, endpoint)
    text = sweep_text(given, MAKERS if tests else None, TODAY, "first.yaml", COST)
    sweep = checked_sweep(parse_yaml(text), "first.yaml")
    assert [subject.model for subject in sweep.subjects] == [given.name_in_sweep(model) for model in models]
    assert [judge.model for judge in sweep.judges] == [given.name_in_sweep(judge) for judge in judges]
    assert (sweep.name, sweep.dimensions, sweep.budget_usd) == ("first", ("encourage_learning",), 2.5)
    assert sweep.tests == (None if tests else "seeds")
    assert (sweep.select and sweep.select.tests) == tests
    if endpoint:
        written = sweep.providers[endpoint.name]
        assert (written.url, written.like, written.key_env) == (endpoint.url, endpoint.like, endpoint.key_env)
        assert written.price == endpoint.price


@pytest.mark.parametrize(
    ("like", "done"), [("openai", "delete this line"), (None, "add its requests_per_minute and tokens_per_minute")]
)
def test_a_proxy_on_this_machine_gets_its_vendors_limits_by_what_the_remark_says(like: str | None, done: str) -> None:
    endpoint = OwnEndpoint("http://localhost:4000/v1", like, price=None if like else UsdPrice(input=1, output=1))
    text = sweep_text(Answers("first", ("gpt-4.1",), ("gpt-4.1",), (), None, endpoint), None, TODAY, "first.yaml", None)
    (line,) = [line for line in text.splitlines() if "limits:" in line]
    assert line.endswith(f"a server on this machine; if it forwards to a vendor, {done}")
    catalog = checked_sweep(parse_yaml(text), "first.yaml").catalog
    assert catalog.providers[endpoint.name].limits.requests_per_minute is None
    elsewhere = Answers(
        "first", ("gpt-4.1",), ("gpt-4.1",), (), None, replace(endpoint, url="https://gateway.example/v1")
    )
    assert "limits:" not in sweep_text(elsewhere, None, TODAY, "first.yaml", None)
    if like:
        catalog = checked_sweep(parse_yaml(text.replace(line, "")), "first.yaml").catalog
        assert catalog.find("gateway/gpt-4.1").limits == catalog.find("gpt-4.1").limits


def test_the_price_stands_at_the_head() -> None:
    given = Answers("first", ("gpt-6-luna",), ("gpt-6.1-terra",))
    head = sweep_text(given, None, TODAY, "first.yaml", COST).splitlines()[0]
    unpriced = sweep_text(given, None, TODAY, "first.yaml", None)
    assert "planned at $1.50 ($3.00 if all went online)" in head
    assert "$" not in unpriced and "budget" not in unpriced
