"""The questions of `hab init`, for what its options leave open; without a terminal they are errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import typer

from hab_ray.catalog.addresses import checked_url
from hab_ray.cli.ending import is_interactive
from hab_ray.drafting.answers import (
    Answers,
    OwnEndpoint,
    catalogue_models,
    dimensions_of,
    number_of_tests,
    price_of,
    variable,
    vendor_like,
)
from hab_ray.errors import ConfigError

Answer = TypeVar("Answer")
_NONE = "-"
_HOST = re.compile(r"[\w.-]+:\d+(/|$)")


@dataclass(frozen=True)
class InitOptions:
    """What the command line of `hab init` says; what is None or empty is asked."""

    models: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()
    tests: str | None = None
    judges: tuple[str, ...] = ()
    endpoint: str | None = None
    like: str | None = None
    key_env: str | None = None
    price: str | None = None

    def lacking(self) -> list[str]:
        """The options without which something would have to be asked."""
        given = {"--model": self.models, "--dimension": self.dimensions, "--tests": self.tests, "--judge": self.judges}
        if self.endpoint is not None and self.like is None:
            given["--price (or --like)"] = self.price
        return [option for option, value in given.items() if not value]


def answered(name: str, options: InitOptions, known: Sequence[str]) -> Answers:
    """The answers of the options and, where these leave something open, of the user.

    `known` are the dimensions that there are.

    Raises:
        ConfigError: an option cannot be used, or something is open and nobody is there to be asked.
    """
    lacking = options.lacking()
    if lacking and not is_interactive():
        raise ConfigError(f"hab init: nobody is there to be asked; give {', '.join(lacking)} too")
    if options.endpoint is None and (options.like or options.key_env or options.price):
        raise ConfigError("hab init: --like, --key-env and --price belong to --endpoint URL; add it, or leave them out")
    models, endpoint = _models(options)
    return Answers(
        name=name,
        models=models,
        dimensions=dimensions_of(options.dimensions, known) if options.dimensions else _which(known),
        tests=_open(options.tests, "How many tests of each dimension (seeds = its own 12 queries)", number_of_tests),
        judges=_judges(options.judges, endpoint),
        endpoint=endpoint,
    )


def _models(options: InitOptions) -> tuple[tuple[str, ...], OwnEndpoint | None]:
    url = options.endpoint
    given = options.models or _asked(
        "Which models (names of `hab models`, with commas; or the URL of an endpoint)",
        _names if url else _models_or_url,
    )
    if url is None and _is_url(given[0]):
        url, *others = given
        given = tuple(others) or _asked("Which models are asked there", _names)
    if url is None:
        return catalogue_models(given), None
    if options.models and options.endpoint:
        like, key_env = _vendor(options.like or _NONE), _variable(options.key_env or _NONE)
    else:
        like = _open(options.like, "A gateway to which vendor (openai, anthropic, ...; - = none)", _vendor)
        key_env = _open(options.key_env, "The variable that holds its key (- = none)", _variable)
    by_vendor = like is not None and options.price is None
    price = (
        None if by_vendor else _open(options.price, "Dollars per million tokens, input/output (0/0 = free)", price_of)
    )
    return given, OwnEndpoint(url, like, key_env, price)


def _judges(given: tuple[str, ...], endpoint: OwnEndpoint | None) -> tuple[str, ...]:
    """Of the catalogue; an endpoint may have others."""
    read = (lambda names: names) if endpoint else catalogue_models
    if given:
        return read(given)
    return _asked("Which judges (names of `hab models`, with commas)", lambda text: read(_names(text)))


def _models_or_url(text: str) -> tuple[str, ...]:
    """Models of the catalogue; or an endpoint's address and, behind it, any models."""
    first, *others = _names(text)
    if _is_url(first):
        return (_endpoint(first), *others)
    if _HOST.match(first):
        raise ConfigError(f"{first}: the address of an endpoint begins with http:// or https://")
    return catalogue_models((first, *others))


def _endpoint(url: str) -> str:
    try:
        return checked_url(url)
    except ValueError as problem:
        raise ConfigError(f"the address {problem}") from None


def _is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _which(known: Sequence[str]) -> tuple[str, ...]:
    question = f"Which dimensions (all, or some of {', '.join(known)})"
    return _asked(question, lambda text: dimensions_of(_names(text), known))


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ConfigError("name at least one")
    return names


def _vendor(text: str) -> str | None:
    return None if text.strip() == _NONE else vendor_like(text.strip())


def _variable(text: str) -> str | None:
    return None if text.strip() == _NONE else variable(text.strip())


def _open(given: str | None, question: str, read: Callable[[str], Answer]) -> Answer:
    return _asked(question, read) if given is None else read(given)


def _asked(question: str, read: Callable[[str], Answer]) -> Answer:
    """The first answer that can be read; what is wrong with others is said."""
    while True:
        try:
            return read(typer.prompt(question))
        except ConfigError as error:
            typer.echo(str(error))
