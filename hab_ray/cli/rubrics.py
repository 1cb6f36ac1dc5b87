"""`hab rubric check` and `hab local pull`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from hab_ray.errors import ConfigError, Exit
from hab_ray.local import LocalError, default_cache, pull, sha256_of
from hab_ray.rubric import check, load_rubrics
from hab_ray.stages.wording import prompt_problems


def check_rubrics(folder: Path | None, console: Console) -> Exit:
    """Print every problem of a folder's rubrics and prompts, or what is in it."""
    problems = check(folder) + prompt_problems(folder)
    for problem in problems:
        console.print(str(problem), soft_wrap=True)
    if problems:
        return Exit.CONFIGURATION
    for rubric in load_rubrics(folder).values():
        console.print(
            f"{rubric.id}: {len(rubric.generation.seeds)} seeds, {len(rubric.validation.criteria)} criteria, "
            f"{len(rubric.judging.issues)} issues, sha256 {rubric.sha256[:12]}"
        )
    return Exit.COMPLETE


def pull_weights(name: str, console: Console) -> Exit:
    """Fetch weights and print where they are."""
    try:
        path = pull(name, cache=default_cache())
    except LocalError as error:
        raise ConfigError(str(error)) from None
    console.print(f"{path}\nsha256 {sha256_of(path)}", soft_wrap=True)
    return Exit.COMPLETE
