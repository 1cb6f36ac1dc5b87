"""`hab rubric`: check rubrics, or start a new one."""

from pathlib import Path
from typing import Annotated

import typer

from hab_ray.cli.ending import ends_with_status, say
from hab_ray.errors import Exit
from hab_ray.rubric import Fidelity, Rubric, check, imported_note, read_library
from hab_ray.rubric.skeleton import write_skeleton
from hab_ray.stages.prompts.wording import load_prompts, prompt_problems
from hab_ray.visible import counted

command = typer.Typer(help="Check the rubrics that define the dimensions, or start a new one.", no_args_is_help=True)


@command.command("check")
@ends_with_status
def check_command(
    folder: Annotated[Path | None, typer.Argument(help="A folder of rubrics. Default: the built-in ones.")] = None,
) -> Exit:
    """List the problems of rubrics, or their contents."""
    if problems := check(folder) + prompt_problems(folder):
        for problem in problems:
            say(str(problem))
        return Exit.CONFIGURATION
    library = read_library(folder)
    for rubric in library.rubrics().values():
        _show(f"{rubric.id}: {_contents(rubric)}, sha256 {rubric.sha256[:12]}", rubric.fidelity)
        if rubric.literal is not None:
            say(f"  {imported_note(rubric.literal)}")
    themes = library.themes
    _show(f"themes: {len(themes.shown)}, sha256 {themes.sha256[:12]}", themes.fidelity)
    prompts = load_prompts(folder)
    _show(f"prompts: version {prompts.version}, sha256 {prompts.sha256[:12]}", prompts.fidelity)
    return Exit.COMPLETE


def _contents(rubric: Rubric) -> str:
    issues, seeds = counted(len(rubric.judging.issues), "issue"), counted(len(rubric.seeds), "seed")
    if not rubric.can_generate:
        return f"{issues}, for given tests only"
    if not rubric.can_validate:
        return f"{seeds}, {issues}, no validation (generated tests need `validate: off`)"
    if rubric.literal_validation is not None:
        return f"{seeds}, validation by a single total, {issues}"
    return f"{seeds}, {counted(len(rubric.criteria), 'criterion', 'criteria')}, {issues}"


def _show(line: str, fidelity: Fidelity | None) -> None:
    """Print a line on a file and, below it, what equals the paper's benchmark and what differs."""
    say(line)
    for equal in fidelity.equals if fidelity else ():
        say(f"  equals the paper: {equal}")
    for other in fidelity.differs if fidelity else ():
        say(f"  differs: {other.what} Why: {other.why}")


@command.command("new")
@ends_with_status
def new_command(
    name: Annotated[str, typer.Argument(metavar="ID", help="The dimension's id, e.g. admit_mistakes.")],
    folder: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the file; created if missing.")] = Path(
        "my_rubrics"
    ),
) -> Exit:
    """Write a template for a new dimension.

    It explains each field; `hab rubric check` lists what is left to fill in.
    """
    path = write_skeleton(name, folder)
    say(
        f"{path}: written; fill it in, run `hab rubric check {folder}` until it finds no problem, then name `rubrics: "
        f"{folder}` and the dimension in a sweep file"
    )
    return Exit.COMPLETE
