"""The questions of `hab init` about everything its options leave open; without a terminal, an error."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, TypeVar

import typer

from hab_ray.catalog.addresses import checked_url
from hab_ray.cli.ending import is_interactive
from hab_ray.drafting.answers import (
    NONE,
    Answers,
    Examples,
    OwnEndpoint,
    catalogue_models,
    dimensions_of,
    models_at,
    models_behind,
    number_of_tests,
    price_of,
    variable,
    vendor_like,
)
from hab_ray.errors import ConfigError

Answer = TypeVar("Answer")
_HOST = re.compile(r"[\w.-]+:\d+(/|$)")


@dataclass(frozen=True)
class InitOptions:
    """The options of `hab init`; it asks for those that are None or empty."""

    model: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A model to measure: at the endpoint, else from `hab models`. Repeatable."),
    ] = None
    dimension: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A dimension, or all. Repeatable.")] = None
    tests: Annotated[
        str | None,
        typer.Option(metavar="N|seeds", help="Number of tests per dimension, or seeds for the rubrics' own queries."),
    ] = None
    judge: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A judge. Repeatable.")] = None
    endpoint: Annotated[str | None, typer.Option(metavar="URL", help="Your own gateway or server.")] = None
    like: Annotated[
        str | None, typer.Option(metavar="VENDOR", help="With --endpoint: the vendor that the gateway forwards to.")
    ] = None
    key_env: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="With --endpoint: the variable that holds its key.")
    ] = None
    price: Annotated[
        str | None, typer.Option(metavar="IN/OUT", help="With --endpoint: dollars per million tokens; 0/0 = free.")
    ] = None

    def missing(self) -> list[str]:
        """Return the names of the options that would have to be asked for."""
        given = {"--model": self.model, "--dimension": self.dimension, "--tests": self.tests, "--judge": self.judge}
        if self.endpoint is not None and self.like is None:
            given["--price (or --like)"] = self.price
        return [option for option, value in given.items() if not value]


def collect_answers(name: str, options: InitOptions, dimensions: Sequence[str], examples: Examples) -> Answers:
    """Take answers from the options and ask for the others; raise ConfigError for an invalid one or no terminal."""
    missing = options.missing()
    if missing and not is_interactive():
        raise ConfigError(f"hab init: there is no terminal to ask on; add {', '.join(missing)}")
    if options.endpoint is None and (options.like or options.key_env or options.price):
        raise ConfigError("hab init: --like, --key-env and --price need --endpoint URL; add it, or leave them out")
    models, endpoint = _models(options, examples)
    return Answers(
        name=name,
        models=models,
        dimensions=_dimensions(options.dimension, dimensions),
        tests=_ask(
            "How many tests per dimension (such as 50; seeds = its own 12 queries)",
            number_of_tests,
            "seeds",
            options.tests,
        ),
        judges=_judges(options.judge, models, endpoint, examples),
        endpoint=endpoint,
    )


def _models(options: InitOptions, examples: Examples) -> tuple[tuple[str, ...], OwnEndpoint | None]:
    url, given = options.endpoint, tuple(options.model or ())
    if url is None and not given:
        known = examples.models(options.like)
        such = f"separated by commas, such as {', '.join(known)}"
        question = f"Which models ({such}; `hab models` lists all; or the URL of an endpoint)"
        given = _ask(question, lambda text: _models_or_url(_names(text, known[0])))
        url = given[0] if _is_url(given[0]) else None
    if url is None and _is_url(given[0]):
        raise ConfigError(f"{given[0]}: give the address of an endpoint by --endpoint")
    if url is None:
        return catalogue_models(given), None
    endpoint = _endpoint(url, options)
    if options.model:
        return models_at(endpoint, options.model), endpoint
    known = examples.models(endpoint.like)
    such = f", such as {', '.join(known)}" if endpoint.like else ", by its own names"
    question = f"Which models at this endpoint (separated by commas{such})"
    return _ask(question, lambda text: models_at(endpoint, _names(text, known[0]))), endpoint


def _endpoint(url: str, options: InitOptions) -> OwnEndpoint:
    """Return an endpoint; with its models as options, it has no vendor and key but those of the options."""
    if options.model:
        like, key_env = vendor_like(options.like or NONE), variable(options.key_env or NONE)
    else:
        question = "Whose models does it serve (openai, anthropic, ...: sets prices and limits; - = your own)"
        like = _ask(question, vendor_like, NONE, options.like)
        key_env = _ask("Environment variable with its key (- = none)", variable, NONE, options.key_env)
    if like is not None and options.price is None:  # the vendor's prices apply
        return OwnEndpoint(url, like, key_env)
    question = "Dollars per million tokens, input/output (such as 0.1/0.5; 0/0 = free)"
    return OwnEndpoint(url, like, key_env, _ask(question, price_of, given=options.price))


def _judges(
    given: list[str] | None, models: Sequence[str], endpoint: OwnEndpoint | None, examples: Examples
) -> tuple[str, ...]:
    check = partial(models_behind, endpoint) if endpoint else catalogue_models
    if given:
        return check(given)
    where = "served by the same endpoint or " if endpoint else ""
    default = examples.judge(endpoint, models)
    question = f"Which judges ({where}from `hab models`, separated by commas)"
    return _ask(question, lambda text: check(_names(text, default)), default)


def _models_or_url(names: tuple[str, ...]) -> tuple[str, ...]:
    """Check models of the catalogue, or an endpoint's URL, whose models are asked for later."""
    first = names[0]
    if _HOST.match(first):
        raise ConfigError(f"{first}: the address of an endpoint begins with http:// or https://")
    if not _is_url(first):
        return catalogue_models(names)
    if len(names) > 1:
        raise ConfigError("give the address of an endpoint alone; its models are asked for after it")
    try:
        return (checked_url(first),)
    except ValueError as problem:
        raise ConfigError(f"the address {problem}") from None


def _is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _dimensions(given: list[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    if given:
        return dimensions_of(given, known)
    question = f"Which dimensions (all, or some of {', '.join(known)})"
    return _ask(question, lambda text: dimensions_of(_names(text, known[0]), known), "all")


def _names(text: str, example: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ConfigError(f"type at least one, such as {example}")
    return names


def _ask(question: str, read: Callable[[str], Answer], default: str | None = None, given: str | None = None) -> Answer:
    """Ask until `read` accepts the answer, `default` if it is empty; print why it refuses one. Not asked if `given`."""
    while given is None:
        try:
            return read(typer.prompt(question, default=default or "", show_default=default is not None))
        except ConfigError as error:
            typer.echo(str(error))
    return read(given)
