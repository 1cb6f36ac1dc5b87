"""What goes wrong in a rehearsal, as a YAML file says it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from hab_ray.errors import ConfigError
from hab_ray.simulator import BatchFault, Fault, LineFaults


class Trouble(BaseModel):
    """Faults of calls, of whole batches and of their lines.

    `queue_tokens` is, by wire name, the most input tokens that a model's open batches may hold at the vendor.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    calls: tuple[Fault, ...] = ()
    batches: tuple[BatchFault, ...] = ()
    lines: LineFaults = LineFaults()
    queue_tokens: Mapping[str, int] = {}


def load_trouble(path: Path) -> Trouble:
    """Read a file of faults.

    Raises:
        ConfigError: it cannot be used; one line for each problem.
    """
    try:
        return Trouble.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--faults {path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"--faults {path}: not valid YAML: {error}") from None
    except ValidationError as error:
        lines = (f"--faults {path}: {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ConfigError("\n".join(lines)) from None
