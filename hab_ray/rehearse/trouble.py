"""Faults of a rehearsal, and settings read from YAML files."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field, ValidationError

from hab_ray.catalog.base import Strict
from hab_ray.errors import ConfigError
from hab_ray.inputs.files import BadInput, plain_words
from hab_ray.inputs.yaml_text import yaml_file
from hab_ray.visible import one_line
from hab_simulator import BatchFault, Fault, LineFaults, Malformed

_Settings = TypeVar("_Settings", bound=BaseModel)


class People(Strict):
    """`raters` people who each rate a `share` of the answers. `bias` is added to the true score, clipped to 0..10.

    A fractional bias is applied on average.
    """

    raters: int = Field(default=0, ge=0, le=1000)
    share: float = Field(default=1.0, gt=0, le=1)
    bias: float = Field(default=0.0, ge=-10, le=10)


class Trouble(Strict):
    """Faults of calls, batches and batch lines; malformed verdicts, and disagreement of judges.

    `judge_alpha` is Krippendorff's alpha among judges on each letter. `queue_tokens` maps a model's wire name to the
    most input tokens that its open batches may hold at the vendor. `people` rate answers once they are judged.
    """

    calls: tuple[Fault, ...] = ()
    batches: tuple[BatchFault, ...] = ()
    lines: LineFaults = LineFaults()
    queue_tokens: Mapping[str, int] = {}
    verdicts: Malformed = Malformed()
    judge_alpha: float = Field(default=0.7, ge=0, le=1)
    people: People = People()


def load_settings(kind: type[_Settings], option: str, path: Path | None) -> _Settings:
    """Read the YAML file that an option names; without one, return the defaults.

    Raises:
        ConfigError: the file cannot be used; one line per problem.
    """
    try:
        return kind.model_validate((yaml_file(path) if path else None) or {})
    except BadInput as error:
        raise ConfigError(one_line(f"{option} {path}: {error}")) from None
    except ValidationError as error:
        lines = (one_line(f"{option} {path}: {'.'.join(map(str, e['loc']))}: {plain_words(e)}") for e in error.errors())
        raise ConfigError("\n".join(lines)) from None
