"""Resolves the paths in a sweep file: relative to the file itself, else to the current folder, as before version 0.1.

This holds for the files that a sweep reads. `run` and `store`, which it writes, are relative to the current folder, so
that a sweep that ships with the package writes nothing into it.
"""

import difflib
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from hab_ray.resources import bundled
from hab_ray.visible import one_line

LOG = logging.getLogger("hab_ray.run")
# `*` stands for every entry of a list.
_PATH_KEYS = (
    *("rubrics", "tests", "raters.*", "responses", "responses.file"),
    *("variants.subjects.*.tests", "variants.judges.*.rubrics"),
)
_MAX_COMPARED = 1000


def nearest_sweep(path: Path) -> str | None:
    """Return the YAML file whose path or name is most like that of a missing one, or None if none is like it.

    It is searched for in the same folder, in the current folder and among the shipped sweeps. Endings are not compared,
    as those of all files are alike.
    """
    own = (file for folder in dict.fromkeys((path.parent, Path(), Path("jobs"))) for file in folder.glob("*.y*ml"))
    shipped = (file.name for file in bundled("jobs").iterdir() if file.name.endswith(".yaml"))
    files = sorted({*map(str, islice(own, _MAX_COMPARED)), *(f"jobs/{name}" for name in shipped)})
    by_path = {str(Path(file).with_suffix("")): file for file in files}
    by_stem = {Path(file).stem: file for file in files}
    near = difflib.get_close_matches(str(path.parent / path.stem), by_path, n=1)
    return by_path[near[0]] if near else next(map(by_stem.get, difflib.get_close_matches(path.stem, by_stem)), None)


def resolve_paths(given: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Return a sweep file's keys with relative paths that work from the current folder, and `~` replaced.

    Log a warning for each file that is found in the current folder only. Values that are not paths are left to the
    sweep's own checks.
    """
    resolved: Any = dict(given)
    for key in _PATH_KEYS:
        resolved = _resolve_below(resolved, key.split("."), key.replace(".*", ""), file)
    return dict(resolved)


def _resolve_below(value: Any, steps: Sequence[str], key: str, file: Path) -> Any:
    if not steps:
        return _resolve(value, key, file)
    if steps[0] == "*":
        return [_resolve_below(entry, steps[1:], key, file) for entry in value] if isinstance(value, list) else value
    if not isinstance(value, dict) or steps[0] not in value:
        return value
    return {**value, steps[0]: _resolve_below(value[steps[0]], steps[1:], key, file)}


def _resolve(path: Any, key: str, file: Path) -> Any:
    if not isinstance(path, str) or not path or "://" in path or (key == "tests" and path == "seeds"):
        return path
    with suppress(ValueError):  # not a path
        path = os.path.expanduser(path)
    if os.path.isabs(path):
        return path
    beside = str(file.parent / path)
    if os.path.exists(beside) or not os.path.exists(path):
        return beside
    warning = f"{file}: {key}: {path} is not beside this file and is taken from the current folder"
    LOG.warning("%s", one_line(f"{warning}; write the path relative to the file"))
    return path
