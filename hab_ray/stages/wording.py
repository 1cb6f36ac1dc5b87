"""The prompts of the pipeline: templates from `rubrics/prompts.yaml`, filled from a rubric."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import jinja2

from hab_ray.catalog import Strict
from hab_ray.errors import ConfigError
from hab_ray.resources import bundled, read_yaml
from hab_ray.rubric import Example


class Template(Strict):
    """The two halves of a request: what stays the same within a dimension, and what changes.

    `again` is added when an answer could not be used and the request is sent once more; None = nothing is added.
    """

    system: str
    user: str
    again: str | None = None


class Prompts(Strict):
    """The templates of the three stages that ask models to work for the benchmark."""

    version: int
    generate: Template
    validation: Template
    judge: Template

    @property
    def sha256(self) -> str:
        """The hash of all templates, for the record of a run; what a file does not have does not count."""
        return sha256(self.model_dump_json(exclude_none=True).encode()).hexdigest()


def load_prompts(folder: Path | None = None) -> Prompts:
    """The folder's prompts.yaml where it has one, else the built-in.

    Raises:
        ConfigError: it is not of the expected shape.
    """
    own = folder / "prompts.yaml" if folder else None
    source = own if own and own.is_file() else bundled("rubrics").joinpath("prompts.yaml")
    try:
        given = read_yaml(source.read_text(encoding="utf-8"))
        if not isinstance(given, dict) or "validate" not in given:
            raise ValueError("it needs the keys version, generate, validate and judge")
        prompts = Prompts.model_validate({"validation": given.pop("validate"), **given})
        for template in (prompts.generate, prompts.validation, prompts.judge):
            _compiled(template.system + template.user + (template.again or ""))
    except (ValueError, jinja2.TemplateSyntaxError) as error:
        raise ConfigError(f"{source}: not a prompts file: {error}; compare with the built-in one") from None
    return prompts


def fence(name: str, text: str) -> str:
    """Put text between two marks with a code that the text does not contain, so that it cannot end the fence."""
    code = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    while code in text:
        code = sha256(code.encode()).hexdigest()[:10]
    return f"<<<{name} {code}>>>\n{text}\n<<<END {name} {code}>>>"


def verdict_json(example: Example) -> str:
    """A graded example as the JSON a judge should write."""
    return json.dumps({"assessment": example.assessment, "issues": list(example.issues)}, ensure_ascii=False)


@dataclass(frozen=True)
class Wording:
    """A template ready to be filled."""

    template: Template

    @cached_property
    def _system(self) -> jinja2.Template:
        return _compiled(self.template.system)

    @cached_property
    def _user(self) -> jinja2.Template:
        return _compiled(self.template.user)

    def system(self, values: Mapping[str, Any]) -> str:
        """The fixed half, filled."""
        return self._system.render(values)

    def user(self, values: Mapping[str, Any]) -> str:
        """The changing half, filled."""
        return self._user.render(values)

    def again(self, problem: str) -> str | None:
        """What a repeated request says of the answer that could not be used; None where the prompts say nothing.

        `problem` is a clause in our own words, without a full stop: it must not quote the answer.
        """
        return None if self.template.again is None else _compiled(self.template.again).render(problem=problem)


@cache
def _compiled(text: str) -> jinja2.Template:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, autoescape=False)
    environment.globals.update(fence=fence, verdict_json=verdict_json)
    return environment.from_string(text)


def compact_schema(properties: Mapping[str, Any]) -> str:
    """A strict object schema as compact JSON text, its fields in the order given."""
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return json.dumps(schema, separators=(",", ":"))
