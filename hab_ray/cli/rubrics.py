"""`hab rubric check`, `hab rubric new` and `hab local pull`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from hab_ray.errors import ConfigError, Exit
from hab_ray.local import LocalError, default_cache, pull, sha256_of
from hab_ray.rubric import Fidelity, Rubric, check, imported_note, load_rubrics, themes_file, write_skeleton
from hab_ray.stages.prompts.wording import load_prompts, prompt_problems


def check_rubrics(folder: Path | None, console: Console) -> Exit:
    """Print every problem of a folder's rubrics and prompts, or what is in it."""
    problems = check(folder) + prompt_problems(folder)
    for problem in problems:
        console.print(str(problem), markup=False, soft_wrap=True)
    if problems:
        return Exit.CONFIGURATION
    for rubric in load_rubrics(folder).values():
        _show(f"{rubric.id}: {_contents(rubric)}, sha256 {rubric.sha256[:12]}", rubric.fidelity, console)
        if rubric.literal is not None:
            console.print(f"  {imported_note(rubric.literal)}", markup=False, highlight=False, soft_wrap=True)
    themes = themes_file(folder)
    _show(f"themes: {len(themes.shown)}, sha256 {themes.sha256[:12]}", themes.fidelity, console)
    prompts = load_prompts(folder)
    _show(f"prompts: version {prompts.version}, sha256 {prompts.sha256[:12]}", prompts.fidelity, console)
    return Exit.COMPLETE


def _contents(rubric: Rubric) -> str:
    issues = f"{len(rubric.judging.issues)} issues"
    if not rubric.can_generate:
        return f"{issues}, asked only from own tests"
    if not rubric.can_validate:
        return f"{len(rubric.seeds)} seeds, {issues}, no validation (made tests need `validate: off`)"
    if rubric.literal_validation is not None:
        return f"{len(rubric.seeds)} seeds, validation by one total, {issues}"
    return f"{len(rubric.seeds)} seeds, {len(rubric.criteria)} criteria, {issues}"


def _show(line: str, fidelity: Fidelity | None, console: Console) -> None:
    """What a file holds, and under it what of that equals the paper's benchmark and what does not."""
    console.print(line, markup=False, soft_wrap=True)
    for equal in fidelity.equals if fidelity else ():
        console.print(f"  equals the paper: {equal}", markup=False, highlight=False, soft_wrap=True)
    for other in fidelity.differs if fidelity else ():
        text = f"  differs: {other.what} Why: {other.why}"
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def new_rubric(name: str, folder: Path, console: Console) -> Exit:
    """Write the skeleton of a dimension and say what comes next."""
    path = write_skeleton(name, folder)
    console.print(
        f"{path}: written; fill it in, run `hab rubric check {folder}` until nothing is left, then name `rubrics: "
        f"{folder}` and the dimension in a sweep file",
        markup=False,
        soft_wrap=True,
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
