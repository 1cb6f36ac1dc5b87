"""The text of a sweep file that `hab init` writes: each key with a word on what it does, and no key of an account."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from hab_ray.drafting.answers import Answers, Makers, OwnEndpoint

# Of the candidates that are written, the paper keeps two thirds and asks a sixth.
WRITTEN_PER_TEST, KEPT_PER_TEST = 6, 4
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")
_WORDS_OF_YAML = {"true", "false", "yes", "no", "on", "off", "null", "all"}
_COLUMN = 60


@dataclass(frozen=True)
class Cost:
    """What a sweep is planned at, in dollars: as its modes send it, all online, and a budget that it can end within."""

    as_sent: float
    online: float
    budget: float


def sweep_text(answers: Answers, makers: Makers | None, today: date, cost: Cost | None) -> str:
    """A sweep file; its head names the price, once that is planned.

    `makers` make the tests, None where the rubrics' own are asked.
    """
    return "\n".join([*_head(answers, today, cost), *_keys(answers, makers, cost)]) + "\n"


def _head(answers: Answers, today: date, cost: Cost | None) -> Iterator[str]:
    price = ""
    if cost:
        price = f", planned at ${cost.as_sent:,.2f}" + (
            f" (${cost.online:,.2f} if all went online)" * (cost.online > cost.as_sent)
        )
    yield f"# Written by `hab init` on {today}{price}."
    file = f"{answers.name}.yaml"
    yield f"#   hab rehearse {file}    the whole sweep against a simulator: no key, nothing is paid"
    yield f"#   hab plan {file}        what it costs now, how long it takes, and what stands in its way"
    yield f"#   hab run {file}         shows the plan, asks, and spends; the same command again goes on"
    yield "# docs/sweep.md explains every key there is."


def _keys(answers: Answers, makers: Makers | None, cost: Cost | None) -> Iterator[str]:
    yield _line(f"name: {_scalar(answers.name)}", f"the run's folder is runs/{answers.name}")
    listed = f"[{', '.join(map(_scalar, answers.dimensions))}]" if answers.dimensions else "all"
    yield _line(f"dimensions: {listed}", "`hab rubric check` lists them")
    if makers is None:
        yield _line("tests: seeds", "the rubrics' own queries: a first look, not the benchmark")
    else:
        yield from _made(answers.tests or 0, makers)
    if answers.endpoint:
        yield from _provider(answers.endpoint)
    yield "subjects:"
    yield from _listed(answers, answers.models, "who is measured; `hab models` shows who can be")
    yield "judges:"
    yield from _listed(answers, answers.judges, "who names the issues of each answer")
    if cost and cost.budget:
        yield _line(f"budget_usd: {cost.budget:g}", "hard, also across crashes; raise it, and the run goes on")
    yield _line("mode: auto", "batch: half the price at most vendors, up to a day; online: at once")


def _made(tests: int, makers: Makers) -> Iterator[str]:
    chat, embedding = _scalar(makers.chat), _scalar(makers.embedding)
    written, kept = WRITTEN_PER_TEST * tests, KEPT_PER_TEST * tests
    yield _line(f"generate: {{model: {chat}, candidates: {written}}}", "queries written for each dimension")
    yield _line(f"validate: {{model: {chat}, keep: {kept}}}", "the best of them")
    yield _line(f"select: {{embedding: {embedding}, tests: {tests}}}", "the most diverse of these are asked")


def _provider(endpoint: OwnEndpoint) -> Iterator[str]:
    yield "providers:"
    yield f"  {endpoint.name}:"
    if endpoint.like:
        yield _line(f"    like: {endpoint.like}", "its models, prices and limits; `batch: true` if it takes batches")
    else:
        yield _line("    kind: openai", "the protocol that it speaks")
    yield f"    url: {_scalar(endpoint.url)}"
    if endpoint.key_env:
        yield _line(f"    key_env: {endpoint.key_env}", "the variable that holds the key, never the key itself")
    if endpoint.price:
        price = f"{{input: {endpoint.price.input:g}, output: {endpoint.price.output:g}}}"
        yield _line(f"    price: {price}", "dollars per million tokens")


def _listed(answers: Answers, models: Iterable[str], remark: str) -> Iterator[str]:
    first, *others = (f"  - {_scalar(answers.called(model))}" for model in models)
    yield _line(first, remark)
    yield from others


def _line(text: str, remark: str) -> str:
    return f"{text:<{_COLUMN}}  # {remark}"


def _scalar(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS_OF_YAML else json.dumps(text)
