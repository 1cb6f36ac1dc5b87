"""Where the files that a sweep file names are: beside it, else in the present folder, as all were before 0.1.

What a sweep reads is found so: rubrics, tests, answers, ratings, paraphrases. `run` and `store`, which it writes, are
in the present folder, so that a sweep that ships leaves nothing in the package.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hab_ray.visible import one_line

LOG = logging.getLogger("hab_ray.run")


def beside_the_file(given: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """A sweep file's keys with its relative paths as seen from the present folder; a note where one is old-fashioned.

    What is no path, and wrong, is left for the sweep's own checks.
    """
    folder = file.parent

    def place(key: str, path: Any) -> Any:
        is_relative = isinstance(path, str) and path and "://" not in path and not os.path.isabs(path)
        if not is_relative or (key == "tests" and path == "seeds") or folder == Path():
            return path
        near = str(folder / path)
        if os.path.exists(near) or not os.path.exists(path):
            return near
        told = f"{file}: {key}: {path} is not beside this file and is taken from the present folder"
        LOG.warning("%s", one_line(f"{told}; write the path as seen from the file"))
        return path

    def inside(section: Any, key: str, where: str) -> Any:
        return {**section, key: place(where, section[key])} if isinstance(section, dict) and key in section else section

    def each(section: Any, name: str, key: str) -> Any:
        listed = section.get(name)
        if not isinstance(listed, list):
            return section
        return {**section, name: [inside(one, key, f"variants.{name}.{key}") for one in listed]}

    changed = {key: place(key, given[key]) for key in ("rubrics", "tests") if key in given}
    if isinstance(given.get("raters"), list):
        changed["raters"] = [place("raters", rater) for rater in given["raters"]]
    if "responses" in given:
        responses = given["responses"]
        own = inside(responses, "file", "responses.file")
        changed["responses"] = place("responses", responses) if isinstance(responses, str) else own
    if isinstance(given.get("variants"), dict):
        changed["variants"] = each(each(given["variants"], "subjects", "tests"), "judges", "rubrics")
    return {**given, **changed}
