"""Vendors of another distribution, added by files alone; with batches it is run, rehearsed, and seen by the doctor.

That one is OpenAI's with differences: a field that every request must have, reasoning billed beside the completion
tokens, a count of its own, results of a batch under another name, and another word for a batch that has not ended.
"""

import json
import re
from pathlib import Path

import pytest
import yaml

from hab_ray.errors import Exit
from hab_ray.visible import usd
from hab_simulator import SimulatorClient
from tests.conftest import Desk, Vendors, ended
from tests.distributions import Distributions

DOCUMENT = Path(__file__).parents[2] / "docs/extending.md"
(DIALECT,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
WIRE = """
from dataclasses import replace

from hab_ray.providers.openai import PROTOCOL as OPENAIS
from hab_ray.providers.openai.batch import OpenAIBatches
from hab_ray.providers.openai.chat import OpenAIProvider, reasoning_on_top, tokens_counted
from hab_ray.providers.vendor import AtMost, Sum, Vendor


class AcmeProvider(OpenAIProvider):
    def chat(self, call, entry):
        wire = super().chat(call, entry)
        return replace(wire, body={**wire.body, "tone": "plain"})

    def read_usage(self, fields):
        return reasoning_on_top(tokens_counted(fields))


class AcmeBatches(OpenAIBatches):
    def body(self, record):
        return super().body({"response": record.get("outcome"), "error": record.get("error")})


PROTOCOL = replace(
    OPENAIS,
    played_as="acme",
    sums=(
        Sum("total_tokens", ("prompt_tokens", "completion_tokens", "completion_tokens_details.reasoning_tokens")),
        AtMost("prompt_units", "total_tokens"),
    ),
)
VENDOR = Vendor(AcmeProvider, AcmeBatches, PROTOCOL)
"""
PLAYED = """
from hab_simulator.asks import Refused
from hab_simulator.openai import compatible
from hab_simulator.openai.batch_lines import OpenAiLines
from hab_simulator.openai.bodies import error
from hab_simulator.openai.online import OpenAiOnline


class AcmeOnline(OpenAiOnline):
    def check(self, path, headers, account, body):
        if path == "chat/completions":
            if not isinstance(body, dict) or body.pop("tone", None) != "plain":
                raise Refused(error(400, "Every request needs a tone."))
        return super().check(path, headers, account, body)

    def usage(self, bill):
        used = super().usage(bill)
        used["completion_tokens"] -= bill.usage.reasoning
        return used | {"prompt_units": bill.usage.input}


class AcmeLines(OpenAiLines):
    def result(self, handle, answer):
        return super().result(handle, answer).replace(b'"response":', b'"outcome":', 1)

    def undone(self, handle, state):
        return super().undone(handle, state).replace(b'"response":', b'"outcome":', 1)


class Miscounting(AcmeOnline):
    def usage(self, bill):
        return super().usage(bill) | {"prompt_units": 1_000_000}


VENDOR = compatible(AcmeOnline(), AcmeLines)
WRONG = compatible(Miscounting(), AcmeLines)
"""
MODULES = {"acme_hab": WIRE, "acme_simulated": PLAYED}
GROUPS = {
    "hab_ray.providers": {"acme": "acme_hab:VENDOR"},
    "hab_simulator.vendors": {"acme": "acme_simulated:VENDOR", "wrong": "acme_simulated:WRONG"},
}
PRICE = {"input": 2.0, "output": 8.0}
MODEL = {"thinking": "always", "output_limit_field": "max_completion_tokens", "sampling": "fixed"}


@pytest.fixture
def acme(desk: Desk, distributions: Distributions, monkeypatch: pytest.MonkeyPatch) -> Distributions:
    distributions.install_modules("acme-hab", "0.3", MODULES, GROUPS)
    desk.environment["PYTHONPATH"] = str(distributions.site)
    monkeypatch.setenv("PYTHONPATH", str(distributions.site))
    return distributions


@pytest.fixture
def lab(acme: Distributions, vendor: Vendors) -> SimulatorClient:
    """A simulator in a process of its own, which plays the vendor by the distribution's files."""
    accounts = {
        f"x/{name}": {"kind": kind, "models": {"*": {"price": PRICE, "thinking": "always"}}}
        for name, kind in (("lab", "acme"), ("wrong", "wrong"))
    }
    batch = {"turnaround": {"kind": "fixed", "value_s": 0.3}}
    return SimulatorClient(vendor(accounts=accounts, batch=batch).url)


def sweep(desk: Desk, url: str, account: str = "lab") -> Path:
    """A sweep at the vendor: the subject is asked online, the judge by batch."""
    path = desk.folder / "acme.yaml"
    provider = {
        "kind": "acme",
        "url": f"{url}/x/{account}/v1",
        "price": PRICE,
        "batch": {"discount": 0.5},
        "batches": {"poll_s": 0.2, "longest_poll_s": 0.2, "in_doubt_s": 1},
        "models": {name: MODEL for name in ("subject", "judge")},
    }
    settings = {
        "name": "acme",
        "executor": "local",
        "tests": "seeds",
        "dimensions": ["encourage_learning"],
        "providers": {"lab": provider},
        "subjects": [{"model": "lab/subject", "mode": "online"}],
        "judges": [{"model": "lab/judge", "mode": "batch"}],
    }
    path.write_text(yaml.safe_dump(settings))
    return path


@pytest.mark.integration
def test_it_is_run_and_the_bill_is_the_meters(desk: Desk, lab: SimulatorClient) -> None:
    """In a new interpreter, as a user's shell starts it; the others are forked."""
    done = ended(desk.start_afresh("run", sweep(desk, lab.url), "--yes"))
    output = done.stdout
    assert done.returncode == 0, output
    meter = lab.meter()
    assert meter.charged > 0 and f"{usd(meter.charged)} paid" in output, output
    assert "our prices give" not in output


@pytest.mark.integration
def test_it_is_rehearsed_by_batch_and_the_bills_agree(desk: Desk, acme: Distributions) -> None:
    output = desk.says("rehearse", sweep(desk, "http://127.0.0.1:9"), "--turnaround", 0.5)
    assert "2 of 2 scores by dimension" in output and "the bills agree" in output, output
    assert re.search(r"1 batch with (\d+) calls, \1 billed", output), output


@pytest.mark.integration
def test_the_doctor_asks_its_own_questions(desk: Desk, lab: SimulatorClient) -> None:
    output = desk.says("doctor", sweep(desk, lab.url), "--live", "--batch", "--yes")
    assert "no difference" in output and f"{usd(lab.meter().charged)} paid" in output
    told = desk.says("doctor", sweep(desk, lab.url, "wrong"), "--live", "--yes", status=Exit.DIFFERENT)
    assert "`prompt_units` is 1000000, more than `total_tokens`" in " ".join(told.split())


@pytest.mark.integration
def test_a_vendor_that_nobody_plays_cannot_be_rehearsed(desk: Desk, distributions: Distributions) -> None:
    only = {"hab_ray.providers": GROUPS["hab_ray.providers"]}
    distributions.install_modules("acme-hab", "0.3", {"acme_hab": WIRE}, only)
    desk.environment["PYTHONPATH"] = str(distributions.site)
    told = " ".join(desk.says("rehearse", sweep(desk, "http://127.0.0.1:9"), status=2).split())
    assert "Traceback" not in told and "play 'acme'" in told and "hab_simulator.vendors" in told


def probed(desk: Desk, distributions: Distributions, url: str, code: str, status: int = 0) -> str:
    """A sweep at a provider of kind `acme`, of a distribution with this code, planned with one call each."""
    distributions.install("acme-hab", "0.3", "acme_hab", code, acme="acme_hab:VENDOR")
    desk.environment["PYTHONPATH"] = str(distributions.site)
    providers = {"sim": {"kind": "acme", "url": url, "price": {"input": 1, "output": 1}}}
    made = {"tests": "seeds", "generate": None, "validate": None, "select": None}
    path = desk.sweep("s", url, dimensions=["encourage_learning"], providers=providers, **made)
    return desk.says("plan", path, "--probe", 1, "--yes", status=status)


@pytest.mark.integration
def test_calls_of_the_documents_example_complete(desk: Desk, vendor: Vendors, distributions: Distributions) -> None:
    sim = vendor(accounts={"x/sim": {"models": {"*": {}}}}, keep_bodies=True)
    probed(desk, distributions, f"{sim.url}/x/sim/v1", DIALECT)
    bodies = [json.loads(call["body"]) for call in sim.calls()]
    assert {body["model"] for body in bodies} == {"alpha", "beta", "judge"}
    assert {body["user"] for body in bodies} == {"acme"}


@pytest.mark.integration
def test_a_broken_one_is_named_and_nothing_is_sent(desk: Desk, distributions: Distributions) -> None:
    told = " ".join(probed(desk, distributions, "http://127.0.0.1:9", "import no_such_sdk", status=2).split())
    assert "Traceback" not in told
    assert "providers.sim.kind" in told and "acme-hab 0.3" in told and "no_such_sdk" in told and "uninstall it" in told
    distributions.install_modules("acme-words", "1", {}, {"hab_ray.stages": {"count": "acme_gone:SPEC"}})
    examined = " ".join(desk.says("doctor", desk.folder / "s.yaml", status=2).split())
    assert "wrong package the kind 'acme' comes from the package acme-hab 0.3" in examined, examined
    assert "wrong package the stage 'count' comes from the package acme-words 1" in examined, examined


@pytest.mark.integration
def test_one_that_makes_no_requests_is_named_and_nothing_is_sent(desk: Desk, distributions: Distributions) -> None:
    code = DIALECT.replace('replace(wire, body={**wire.body, "user": "acme"})', '{**wire.body, "user": "acme"}')
    told = " ".join(probed(desk, distributions, "http://127.0.0.1:9", code, status=2).split())
    assert "the package acme-hab 0.3 is broken: AcmeProvider.chat has to return Wire, not dict; update" in told, told
