"""`hab init`: write a sweep from a few questions."""

import math
import os
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from hab_ray.catalog.models import folder_name, load_catalog
from hab_ray.catalog.prices import NANO
from hab_ray.cli.ending import ends_with_status, say
from hab_ray.cli.questions import InitOptions, collect_answers
from hab_ray.config.sweep import checked_sweep
from hab_ray.drafting.answers import Answers, Examples, Makers
from hab_ray.drafting.text import Cost, sweep_text
from hab_ray.errors import ConfigError, Exit
from hab_ray.inputs.yaml_text import parse_yaml
from hab_ray.planning import Plan, make_plan
from hab_ray.planning.preflight import preflight
from hab_ray.planning.problems import refuse_errors
from hab_ray.providers.access import has_secret, variables_of
from hab_ray.resolve import resolve
from hab_ray.rubric import load_rubrics
from hab_ray.visible import usd
from hab_ray.work import Work

_BUDGET_MARGIN = 1.5


def init_sweep(path: Path, options: InitOptions) -> Exit:
    """Write a sweep file that can be planned and run; print its cost and the keys that are still missing.

    Raises:
        ConfigError: the file exists, an answer is invalid, or a model cannot be called for another reason than a
            missing key. Nothing is written then.
    """
    if path.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"{path}: give a file name that ends in .yaml")
    if path.exists():
        raise ConfigError(f"{path}: the file exists; give another name, such as {path.stem}-2.yaml")
    now = datetime.now(UTC)
    keys = {name: entry.key_env for name, entry in load_catalog().providers.items() if entry.key_env}
    with_key = frozenset(name for name, variable in keys.items() if has_secret(variable, os.environ))
    examples = Examples(with_key, now.date())
    answers = collect_answers(folder_name(path.stem.lower()), options, list(load_rubrics()), examples)
    makers = examples.makers(answers) if answers.tests else None
    file = shlex.quote(f"./{path}" if str(path).startswith("-") else str(path))  # no option of a shell command
    work = _work(sweep_text(answers, makers, now.date(), file, None), path, now)
    cost = _cost(make_plan(work))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as opened:
        opened.write(sweep_text(answers, makers, now.date(), file, cost))
    online = f" ({usd(cost.online)} all online)" if cost.online > cost.as_sent else ""
    say(f"{path}: written; planned at {usd(cost.as_sent)}{online}; nothing was sent or paid")
    if makers:
        say(f"{makers.chat} writes and checks the tests, {makers.embedding} compares them; --tests seeds needs neither")
    for remark in _elsewhere(answers, makers, work):
        say(remark, "yellow")
    for problem in preflight(work, os.environ, now.date()):
        say(str(problem), "yellow")
    say(f"next: hab rehearse {file}, hab plan {file}, hab run {file}")
    return Exit.COMPLETE


def _work(text: str, path: Path, now: datetime) -> Work:
    """Return the work of a sweep's text; raise ConfigError if it could not run even with all keys set."""
    work = resolve(checked_sweep(parse_yaml(text), str(path)), now)
    providers = {model.entry.provider for model in work.models.values()}
    wanted = (variable for name in providers for variable in variables_of(work.catalog.providers[name]))
    refuse_errors(preflight(work, dict(os.environ) | dict.fromkeys(wanted, "set"), now.date()))
    return work


def _elsewhere(answers: Answers, makers: Makers | None, work: Work) -> Iterator[str]:
    """Say which models are not called at the endpoint that was given."""
    if endpoint := answers.endpoint:
        for model in dict.fromkeys((*answers.models, *answers.judges)):
            provider = work.models[answers.name_in_sweep(model)].entry.provider
            if provider != endpoint.name:
                own = f"write {endpoint.name}/{model} for the endpoint's own model of that name"
                yield f"{model} is called at {provider}, not at {endpoint.url}; {own}"
        if makers and (provider := work.models[makers.embedding].entry.provider) != endpoint.name:
            own = (
                f"`embedding: {endpoint.name}/NAME`, and under its provider `models: {{NAME: {{purpose: embedding}}}}`"
            )
            yield f"{makers.embedding} is called at {provider}; if the endpoint has an embedding model, write {own}"


def _cost(plan: Plan) -> Cost:
    """Return a plan's cost. Its budget allows for longer answers than planned and lets batches end within a day."""
    outlook = plan.outlook
    budget = max(outlook.smallest, outlook.in_a_day or 0, round(_BUDGET_MARGIN * outlook.bill)) if outlook.bill else 0
    return Cost(plan.as_sent, plan.total.online, _rounded_up(budget / NANO))


def _rounded_up(dollars: float) -> float:
    """Round up to whole dollars, below ten dollars to tenths."""
    return math.ceil(10 * dollars) / 10 if dollars < 10 else float(math.ceil(dollars))


@ends_with_status
def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The sweep file to write.")] = Path("first.yaml"),
    *,
    options: InitOptions,
) -> Exit:
    """Write a sweep file from a few questions or from options, and show its price. Sends nothing and writes no keys."""
    return init_sweep(file, options)
