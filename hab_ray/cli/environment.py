"""Variables from a file: what `hab --env-file FILE` names, else the keys in the `.env` of the present folder."""

from __future__ import annotations

import os
from pathlib import Path

from hab_ray.errors import ConfigError
from hab_ray.inputs.env_text import env_file, env_keys
from hab_ray.inputs.files import BadInput

_USUAL = Path(".env")


def take_variables(file: Path | None) -> None:
    """Set the variables of a file that are not set; of `.env`, which nobody named, only keys.

    They stay in this process and those that it starts; nothing is copied or written.

    Raises:
        ConfigError: the file cannot be read.
    """
    path = file or _USUAL
    if file is None and not path.is_file():
        return
    try:
        found = env_keys(path) if file is None else env_file(path)
    except BadInput as error:
        raise ConfigError(f"{path}: {error}") from None
    for name, value in found.items():
        os.environ.setdefault(name, value)
