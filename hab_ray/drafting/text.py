"""The text of the sweep file that `hab init` writes: each key with a remark on what it does, and no API keys."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from urllib.parse import urlsplit

from hab_ray.catalog.addresses import LOOPBACK
from hab_ray.drafting.answers import Answers, Makers, OwnEndpoint
from hab_ray.visible import one_line, usd

# As in the paper: two thirds of the written candidates are kept, a sixth become tests.
WRITTEN_PER_TEST, KEPT_PER_TEST = 6, 4
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")
_WORDS_OF_YAML = {"true", "false", "yes", "no", "on", "off", "null", "all"}
_COLUMN = 60


@dataclass(frozen=True)
class Cost:
    """The planned cost of a sweep in nano-dollars by its own modes and all online, and a budget in dollars."""

    as_sent: int
    online: int
    budget_usd: float


def sweep_text(answers: Answers, makers: Makers | None, today: date, file: str, cost: Cost | None) -> str:
    """Return the text of a sweep file. Its head shows the commands for `file` and, if planned, the cost.

    `makers` generate the tests; None takes the rubrics' own queries. `file` is the path as a shell takes it.
    """
    return "\n".join([*_head(today, one_line(file), cost), *_keys(answers, makers, cost)]) + "\n"


def _head(today: date, file: str, cost: Cost | None) -> Iterator[str]:
    price = f", planned at {usd(cost.as_sent)}" if cost else ""
    if cost and cost.online > cost.as_sent:
        price += f" ({usd(cost.online)} if all went online)"
    yield f"# Written by `hab init` on {today}{price}."
    yield f"#   hab rehearse {file}    runs the whole sweep against a simulator, without keys or cost"
    yield f"#   hab plan {file}        shows the cost, the time and any problems"
    yield f"#   hab run {file}         shows the plan, asks, and spends; the same command resumes the run"
    yield "# docs/sweep.md explains every key."


def _keys(answers: Answers, makers: Makers | None, cost: Cost | None) -> Iterator[str]:
    yield _line(f"name: {_scalar(answers.name)}", f"the run's folder is runs/{answers.name}")
    dimensions = f"[{', '.join(map(_scalar, answers.dimensions))}]" if answers.dimensions else "all"
    yield _line(f"dimensions: {dimensions}", "`hab rubric check` lists them")
    if makers is None:
        yield _line("tests: seeds", "the rubrics' own queries: a first look, not the benchmark")
    else:
        yield from _generation(answers.tests or 0, makers)
    if answers.endpoint:
        yield from _provider(answers.endpoint)
    yield "subjects:"
    yield from _models(answers, answers.models, "the models to measure; `hab models` lists more")
    yield "judges:"
    yield from _models(answers, answers.judges, "the models that name the issues of each answer")
    if cost and cost.budget_usd:
        yield _line(f"budget_usd: {cost.budget_usd:g}", "hard limit, even across crashes; raise it to resume the run")
    yield _line("mode: auto", "batch: half the price at most vendors, up to a day; online: at once")


def _generation(tests: int, makers: Makers) -> Iterator[str]:
    chat, embedding = _scalar(makers.chat), _scalar(makers.embedding)
    written, kept = WRITTEN_PER_TEST * tests, KEPT_PER_TEST * tests
    yield _line(f"generate: {{model: {chat}, candidates: {written}}}", "queries written per dimension")
    yield _line(f"validate: {{model: {chat}, keep: {kept}}}", "the best of them")
    yield _line(f"select: {{embedding: {embedding}, tests: {tests}}}", "the most diverse of these become the tests")


def _provider(endpoint: OwnEndpoint) -> Iterator[str]:
    yield "providers:"
    yield f"  {endpoint.name}:"
    if endpoint.like:
        yield _line(f"    like: {endpoint.like}", "its models, prices and limits; add `batch: true` if it has batches")
    else:
        yield _line("    kind: openai", "the protocol it speaks")
    yield f"    url: {_scalar(endpoint.url)}"
    if urlsplit(endpoint.url).hostname in LOOPBACK:
        remedy = "delete this line" if endpoint.like else "add its requests_per_minute and tokens_per_minute"
        yield _line("    limits: {concurrent: 64}", f"a server on this machine; if it forwards to a vendor, {remedy}")
    if endpoint.key_env:
        yield _line(f"    key_env: {endpoint.key_env}", "the variable with the key, never the key itself")
    if endpoint.price:
        price = f"{{input: {endpoint.price.input:g}, output: {endpoint.price.output:g}}}"
        yield _line(f"    price: {price}", "dollars per million tokens")


def _models(answers: Answers, models: Iterable[str], remark: str) -> Iterator[str]:
    first, *others = (f"  - {_scalar(answers.name_in_sweep(model))}" for model in models)
    yield _line(first, remark)
    yield from others


def _line(text: str, remark: str) -> str:
    return f"{text:<{_COLUMN}}  # {remark}"


def _scalar(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS_OF_YAML else json.dumps(text)
