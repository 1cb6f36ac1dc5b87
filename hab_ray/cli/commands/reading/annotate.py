"""`hab annotate`: make forms for human raters."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from hab_ray.cli.ending import ends_with_status, say
from hab_ray.cli.options import RunFolderArgument
from hab_ray.errors import ConfigError, Exit

command = typer.Typer(help="Make forms for people to rate a run's answers.", no_args_is_help=True)


@command.command("sheet")
@ends_with_status
def sheet_command(
    run: RunFolderArgument,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The new folder for the raters' files.")],
    per_dimension: Annotated[
        int | None,
        typer.Option(metavar="N", help="Answers per dimension, spread over the subjects.", show_default=False),
    ] = None,
    per_subject: Annotated[
        int | None, typer.Option(metavar="N", help="Instead: answers per subject and dimension.", show_default=False)
    ] = None,
    raters: Annotated[int, typer.Option(metavar="N", help="Number of raters; each rates every answer.")] = 3,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the sample.")] = 0,
) -> Exit:
    """Write a form per rater with a sample of answers.

    A form works in any browser, also offline, and comes as CSV too. The files name no subject; the key stays in the
    run's folder. Name the files that raters send back under `raters:` in the sweep, give `hab run` again (`hab
    rehearse` after a rehearsal), which costs nothing, then `hab agreement`.
    """
    from hab_ray.analysis.sources import Texts, sources_of
    from hab_ray.exchange.sheets import SheetPlan, draw_sheet, write_sheet
    from hab_ray.results import open_run
    from hab_ray.storage.simulated import command_of

    opened = open_run(run)
    if out.resolve().is_relative_to(Path(str(opened.location))):
        raise ConfigError(f"--out: {out} is in the run's folder, which holds the key; name a folder elsewhere")
    items = draw_sheet(opened, SheetPlan(per_dimension, per_subject, raters, seed))
    key = write_sheet(opened, items, out)
    say(f"a form and a CSV for {'each of ' * (raters > 1)}{', '.join(items[0].raters)}: {out}")
    wanted = per_dimension or (per_subject or 0) * len(opened.subjects)
    counts = Counter(item.dimension for item in items)
    for dimension in opened.dimensions:
        if counts[dimension] < wanted:
            say(f"{dimension}: {counts[dimension]} answers, there are no more", "yellow")
    say(f"sheet {items[0].sheet}, seed {seed}: {len(items)} answers each; keep the key {key} from the raters")
    for source in sources_of(opened):
        is_shown = source.texts in (Texts.QUERIES, Texts.ANSWERS, Texts.WORDING)
        if is_shown and not source.origin.has_licence:
            say(f"NOTE: the forms show {source}; give them only to people with whom you may share it", "yellow")
    maker = command_of(opened.location)
    again = f"`{maker}`{' with the same options' if maker == 'hab rehearse' else ''}"
    say(f"next: name the files they send back under `raters:` in the sweep, and give {again} again at no cost")
    return Exit.COMPLETE
