"""Writes the file of `hab rubric new`: a rubric with every field explained and its texts still to be filled in."""

from importlib.resources import files
from pathlib import Path

from pydantic import ValidationError

from hab_ray.errors import ConfigError
from hab_ray.resources import bundled
from hab_ray.rubric.parts import RubricId

_FILE = "skeleton.txt"
_ID = "THE_ID"


def write_skeleton(name: str, folder: Path) -> Path:
    """Write the skeleton of the dimension `name` into a folder, created if missing, and return the file's path.

    Raises:
        ConfigError: the name is invalid or a built-in dimension's, the file exists, or `folder` is a file.
    """
    try:
        RubricId.validate_python(name)
    except ValidationError:
        raise ConfigError(
            f"{name!r} cannot name a dimension: write a lower-case letter, then lower-case letters, digits and _, at "
            "most 63 characters in all, such as admit_mistakes"
        ) from None
    built_in = bundled("rubrics").joinpath(f"{name}.yaml")
    if built_in.is_file():
        raise ConfigError(f"{name} is a built-in dimension; to change it, copy {built_in} to {folder} and edit that")
    path = folder / f"{name}.yaml"
    text = files("hab_ray.rubric").joinpath(_FILE).read_text(encoding="utf-8").replace(_ID, name)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder}: is a file, not a folder; name another with --folder")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path}: is there already; edit it, or give the new dimension another name") from None
    return path
