"""The table of vendors, and vendors that other distributions add to it; their calls are in test_plugin_batches.py."""

import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from hab_ray.calls import ChatCall, Message, Params, Role
from hab_ray.catalog.models import ModelEntry, load_catalog
from hab_ray.catalog.vendors import VENDORS
from hab_ray.config.sweep import load_sweep
from hab_ray.errors import ConfigError
from hab_ray.planning.preflight import preflight
from hab_ray.planning.problems import Severity
from hab_ray.providers import connect, connect_batch, load_vendor
from hab_ray.providers.anthropic.batch import AnthropicBatches
from hab_ray.providers.anthropic.chat import AnthropicProvider
from hab_ray.providers.base import BrokenReader, Endpoint, Provider, read_answer
from hab_ray.providers.batching import BatchApi
from hab_ray.providers.google.batch import GoogleBatches
from hab_ray.providers.google.chat import GoogleProvider
from hab_ray.providers.openai.batch import OpenAIBatches
from hab_ray.providers.openai.chat import OpenAIProvider
from hab_ray.providers.vendor import Vendor
from hab_ray.providers.xai.batch import XaiBatches
from hab_ray.providers.xai.chat import XaiProvider
from hab_ray.resolve import resolve, write_record
from hab_ray.storage.record import read_record
from tests.distributions import Distributions
from tests.providers.conftest import KEY

# That these are what a vendor has to have is proven by mypy: the vendors name them as text, to be imported late.
CLIENTS: dict[str, tuple[Callable[[Endpoint], Provider], Callable[[Endpoint], BatchApi]]] = {
    "openai": (OpenAIProvider, OpenAIBatches),
    "anthropic": (AnthropicProvider, AnthropicBatches),
    "google": (GoogleProvider, GoogleBatches),
    "xai": (XaiProvider, XaiBatches),
}
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DIALECT = """
from hab_ray.providers.openai import PROTOCOL
from hab_ray.providers.openai.batch import OpenAIBatches
from hab_ray.providers.openai.chat import OpenAIProvider
from hab_ray.providers.vendor import Vendor

VENDOR = Vendor(OpenAIProvider, OpenAIBatches, PROTOCOL)
ONLINE = Vendor(OpenAIProvider, None, PROTOCOL)
"""


def endpoint(kind: str) -> Endpoint:
    return Endpoint("lab", kind, "http://127.0.0.1:9", KEY, 5.0)


def refused(kind: str) -> str:
    with pytest.raises(ConfigError) as caught:
        connect(endpoint(kind))
    return str(caught.value)


def sweep_file(folder: Path, kind: str) -> Path:
    """A sweep at one provider of a kind, whose models are said to be asked by batch too."""
    provider = {"kind": kind, "url": "http://lab", "price": {"input": 1}, "batch": {"discount": 0.5}}
    sweep = {"name": "s", "tests": "seeds", "subjects": ["lab/m"], "judges": ["lab/m"], "providers": {"lab": provider}}
    path = folder / "s.yaml"
    path.write_text(yaml.safe_dump({**sweep, "run": str(folder / "run"), "store": str(folder / "store")}))
    return path


@pytest.mark.parametrize("kind", CLIENTS)
async def test_a_vendor_has_the_clients_that_its_names_stand_for(kind: str) -> None:
    vendor, endpoint = load_vendor(kind), Endpoint("p", kind, "http://127.0.0.1:1", KEY, 1.0)
    assert vendor.connect_batch is not None
    clients = vendor.connect(endpoint), vendor.connect_batch(endpoint)
    assert tuple(map(type, clients)) == CLIENTS[kind]
    for client in clients:
        await client.close()


def test_every_built_in_vendor_is_in_the_table_under_its_name() -> None:
    assert VENDORS.names() == list(VENDORS.built_in)
    assert {kind: load_vendor(kind).protocol.played_as for kind in VENDORS.names()} == {k: k for k in VENDORS.built_in}
    assert {provider.kind for provider in load_catalog().providers.values()} <= set(VENDORS.built_in)


def test_an_unknown_kind_is_told_with_the_kinds_there_are(distributions: Distributions, tmp_path: Path) -> None:
    distributions.install("acme-hab", "0.3", "acme_hab", DIALECT, acme="acme_hab:VENDOR")
    path = sweep_file(tmp_path, "acmee")
    with pytest.raises(ConfigError) as caught:
        load_sweep(path)
    (told,) = str(caught.value).splitlines()
    assert told.startswith(f"{path}: providers.lab.kind: there is no kind 'acmee'")
    assert "openai, anthropic, google, xai, acme." in told and "install the package" in told


def test_a_vendor_without_batches_says_what_to_remove(distributions: Distributions) -> None:
    distributions.install("acme-hab", "0.3", "acme_hab", DIALECT, acme="acme_hab:ONLINE")
    with pytest.raises(ConfigError, match="kind 'acme' take no batches; remove `batch:`"):
        connect_batch(endpoint("acme"))


def test_what_a_kind_cannot_do_is_said_before_the_run(distributions: Distributions, tmp_path: Path) -> None:
    distributions.install("acme-hab", "0.3", "acme_hab", DIALECT, acme="acme_hab:ONLINE", whole="acme_hab:VENDOR")
    whole = resolve(load_sweep(sweep_file(tmp_path, "whole")), NOW)
    assert preflight(whole, {}, NOW.date()) == []
    (problem,) = preflight(resolve(load_sweep(sweep_file(tmp_path, "acme")), NOW), {}, NOW.date())
    assert problem.severity is Severity.ERROR and "providers.lab: its kind does not support batches" in str(problem)


def test_a_run_of_a_kind_that_is_not_installed_can_be_read(distributions: Distributions, tmp_path: Path) -> None:
    distributions.install("acme-hab", "0.3", "acme_hab", DIALECT, acme="acme_hab:VENDOR")
    work = resolve(load_sweep(sweep_file(tmp_path, "acme")), NOW)
    write_record(work, NOW)
    distributions.uninstall_all()
    record = read_record(work.run_path)
    assert record is not None and record.sweep.providers["lab"].kind == "acme"
    with pytest.raises(ConfigError, match=r"there is no kind 'acme'.* the run in .*/run has it from .* acme-hab 0\.3$"):
        load_sweep(tmp_path / "s.yaml")
    with pytest.raises(ConfigError, match=r"the package that adds this kind$"):
        load_sweep(tmp_path / "s.yaml", {"run": str(tmp_path / "other")})


BROKEN = {
    "no module": ("", "gone:VENDOR", "No module named 'gone'"),
    "no attribute": ("", "acme_hab:VENDOR", "VENDOR"),
    "bad import": ("import no_such_sdk", "acme_hab:VENDOR", "no_such_sdk"),
    "bad code": ("1 / 0", "acme_hab:VENDOR", "ZeroDivisionError"),
    "ends the process": ("raise SystemExit(0)", "acme_hab:VENDOR", "SystemExit: 0"),
    "no address": ("", "acme-hab:VENDOR", "not written MODULE:ATTRIBUTE"),
    "no vendor": ("VENDOR = 7", "acme_hab:VENDOR", "it is a int and not a"),
    "cannot connect": (
        f"{DIALECT}\nVENDOR = Vendor(lambda where: where.nowhere, None, PROTOCOL)",
        "acme_hab:VENDOR",
        "nowhere",
    ),
    "no protocol": (
        f"{DIALECT}\nVENDOR = Vendor(OpenAIProvider, None, None)",
        "acme_hab:VENDOR",
        "Vendor.protocol has to be WireProtocol, not NoneType",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_distribution_is_named_with_the_remedy(how: str, distributions: Distributions) -> None:
    code, target, cause = BROKEN[how]
    distributions.install("acme-hab", "0.3", "acme_hab", code, acme=target)
    told = refused("acme")
    assert "acme-hab 0.3" in told and cause in told
    assert "update or repair that package, or uninstall it" in told and KEY not in told


READERS = {
    "raises": ('        return body["choice"]', "(acme_hab.py, line 10) cannot read an answer", "KeyError: 'choice'"),
    "ends the process": ("        raise SystemExit(0)", "acme-hab 0.3 (acme_hab.py, line 10)", "SystemExit: 0"),
    "no answer": ('        return "Yes."', "acme-hab 0.3 cannot read an", "it is read as a str, not as an Answer"),
    "no text": ("        return Answer(Finish.OK, Usage(1), '', text=None)", "acme-hab 0.3", "its text is read as a"),
    "no usage": ("        return Answer(Finish.OK, {}, '')", "acme-hab 0.3", "its usage is read as a dict, not as"),
    **{
        f"{field}={number}": (
            f"        return Answer(Finish.OK, Usage(**{{{field!r}: {number}}}), '')"
            if field in ("input", "cached", "cache_written", "output", "reasoning")
            else f"        return Answer(Finish.OK, Usage(), '', {field}={number})",
            "acme-hab 0.3",
            f"its {field} is read as {cause}",
        )
        for field, number, cause in (
            ("input", "-5", "-5, not as a number from 0 to"),
            ("cached", "0.5", "a float, not as an int"),
            ("cache_written", "None", "a NoneType, not as an int"),
            ("output", "float('inf')", "a float, not as an int"),
            ("reasoning", "True", "a bool, not as an int"),
            ("stated_nanousd", "-(10**9)", "-1,000,000,000, not as a number from 0 to"),
            ("stated_nanousd", "float('nan')", "a float, not as an int"),
            ("stated_nanousd", "10**15", "1,000,000,000,000,000, not as a number from 0 to"),
            ("bill_known", "None", "a NoneType, not as a bool"),
        )
    },
}
READER = """
from hab_ray.calls import Answer, Finish, Usage
from hab_ray.providers.openai import PROTOCOL
from hab_ray.providers.openai.batch import OpenAIBatches
from hab_ray.providers.openai.chat import OpenAIProvider
from hab_ray.providers.vendor import Vendor

class AcmeProvider(OpenAIProvider):
    def read_chat(self, body):
{code}

VENDOR = Vendor(AcmeProvider, OpenAIBatches, PROTOCOL)
"""


@pytest.mark.parametrize("how", READERS)
async def test_a_package_that_cannot_read_ends_its_provider(how: str, distributions: Distributions) -> None:
    """Each further answer would be paid for and lost."""
    code, package, cause = READERS[how]
    distributions.install("acme-hab", "0.3", "acme_hab", READER.format(code=code), acme="acme_hab:VENDOR")
    provider = connect(endpoint("acme"))
    with pytest.raises(BrokenReader) as caught:
        read_answer(provider, {}, None)
    assert package in str(caught.value) and cause in str(caught.value) and "Repair" in str(caught.value)
    await provider.close()


def test_a_kind_of_two_distributions_is_refused(distributions: Distributions) -> None:
    distributions.install("acme-hab", "0.3", "acme_hab", DIALECT, acme="acme_hab:VENDOR")
    distributions.install("acme-too", "1", "acme_too", DIALECT, acme="acme_too:VENDOR")
    told = refused("acme")
    assert "acme-hab 0.3" in told and "acme-too 1" in told and "uninstall all but one" in told


def test_no_distribution_takes_the_place_of_a_built_in_vendor(distributions: Distributions) -> None:
    distributions.install("evil", "1", "evil", "raise SystemExit", openai="evil:VENDOR")
    assert VENDORS.names() == list(VENDORS.built_in)
    assert isinstance(load_vendor("anthropic"), Vendor)
    with pytest.raises(ConfigError, match=r"'openai' is in several packages \(hab-ray, evil 1\); .* all but hab-ray$"):
        load_vendor("openai")


async def test_an_error_in_our_own_code_is_not_blamed_on_a_distribution() -> None:
    with pytest.raises(AttributeError) as caught:
        connect(Endpoint("lab", "google", None, KEY, 1.0))  # type: ignore[arg-type]
    assert "package" not in "".join(traceback.format_exception_only(caught.value))


WRONG = {
    "chat": ("    def chat(self, call, entry):\n        return {}", "AcmeProvider.chat has to return Wire, not dict"),
    "send": ("    async def send(self, wire):\n        return {}", "send has to return Exchange, not dict"),
    "no coroutine": ("    def send(self, wire):\n        return {}", "send has to return Awaitable, not dict"),
    "limits": ("    list_limits = 100", "AcmeProvider.list_limits has to be ListLimits, not int"),
}
WRONG_PROVIDER = READER.replace("    def read_chat(self, body):\n", "")
CALL = ChatCall("lab", "m", None, "", (Message(Role.USER, "Hi."),), Params(max_tokens=9))


@pytest.mark.parametrize("how", WRONG)
async def test_a_package_whose_client_makes_something_else_is_named(how: str, distributions: Distributions) -> None:
    code, told = WRONG[how]
    distributions.install("acme-hab", "0.3", "acme_hab", WRONG_PROVIDER.format(code=code), acme="acme_hab:VENDOR")
    with pytest.raises(ConfigError, match=rf"the package acme-hab 0\.3 is broken: .*{told}; update or repair"):
        provider = connect(endpoint("acme"))
        await provider.send(provider.chat(CALL, ModelEntry(provider="lab", wire="m")))


async def test_a_distribution_whose_batches_make_something_else_is_named(distributions: Distributions) -> None:
    code = DIALECT + "class B(OpenAIBatches):\n    async def since(self, newest):\n        return [{}]\n"
    code += "VENDOR = Vendor(OpenAIProvider, B, PROTOCOL)\n"
    distributions.install("acme-hab", "0.3", "acme_hab", code, acme="acme_hab:VENDOR")
    with pytest.raises(
        ConfigError, match=r"acme-hab 0\.3 is broken: B\.since has to return .*SeenB.*, not list\[dict\]"
    ):
        await connect_batch(endpoint("acme")).since(None)


def test_a_distribution_that_connects_by_no_client_is_named(distributions: Distributions) -> None:
    code = DIALECT.replace("Vendor(OpenAIProvider, OpenAIBatches", "Vendor(lambda _: None, lambda _: {}")
    distributions.install("acme-hab", "0.3", "acme_hab", code, acme="acme_hab:VENDOR")
    assert "it connects by a NoneType without chat, close, embed, list_limits, read_chat," in refused("acme")
    with pytest.raises(
        ConfigError, match=r"acme-hab 0\.3 .* it connects by a dict without batch_size, cancel, clean_u"
    ):
        connect_batch(endpoint("acme"))
