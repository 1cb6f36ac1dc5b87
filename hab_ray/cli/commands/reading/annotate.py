"""`hab annotate`: draw answers of a run for people to rate."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from hab_ray.cli.ending import ends_with_status, say
from hab_ray.cli.options import RunFolderArgument
from hab_ray.errors import ConfigError, Exit

command = typer.Typer(help="What people are to rate of a run.", no_args_is_help=True)


@command.command("sheet")
@ends_with_status
def sheet_command(
    run: RunFolderArgument,
    out: Annotated[Path, typer.Option(help="The new folder for what raters get.")],
    per_dimension: Annotated[
        int | None, typer.Option(help="Answers of each dimension, spread over the subjects.", show_default=False)
    ] = None,
    per_subject: Annotated[
        int | None, typer.Option(help="Instead: answers of each subject in each dimension.", show_default=False)
    ] = None,
    raters: Annotated[int, typer.Option(help="How many people rate; each rates every answer.")] = 3,
    seed: Annotated[int, typer.Option(help="Another seed draws another sample.")] = 0,
) -> Exit:
    """Draw answers for people to rate: for each rater a form for any browser, offline too, and the same as CSV.

    No subject is named in these files; the key stays in the run's folder. Name what raters send back under `raters:`
    in the sweep, give `hab run` again, which costs nothing, then `hab agreement`.
    """
    from hab_ray.analysis.sources import sources_of
    from hab_ray.exchange.sheets import SheetPlan, draw_sheet, write_sheet
    from hab_ray.results import open_run

    wanted, opened = SheetPlan(per_dimension, per_subject, raters, seed), open_run(run)
    if out.resolve().is_relative_to(Path(str(opened.location))):
        raise ConfigError(f"--out: {out} is in the run's folder, which holds the key; name a folder elsewhere")
    items = draw_sheet(opened, wanted)
    written = write_sheet(opened, items, out)
    for path in written.files:
        say(str(path))
    for dimension, count in Counter(item.dimension for item in items).items():
        by_subject = Counter(item.subject for item in items if item.dimension == dimension)
        fewest, most = min(by_subject.values()), max(by_subject.values())
        span = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        lacks = count < (per_dimension or (per_subject or 0) * len(opened.subjects))
        of_each = f"{dimension}: {count} answers, {span} of each of {len(by_subject)} subjects"
        say(f"{of_each}: there are no more" if lacks else of_each)
    say(
        f"sheet {items[0].sheet}, seed {seed}: {', '.join(items[0].raters)} rate all {len(items)} answers each; the "
        f"key is {written.key} and goes to nobody who rates"
    )
    for source in sources_of(opened):
        if not source.origin.has_licence:
            say(f"NOTE: the forms show {source}; give them to nobody to whom you may not pass that on", "yellow")
    say("name the files that come back under `raters:` in the sweep, then give `hab run` again: it costs nothing")
    return Exit.COMPLETE
