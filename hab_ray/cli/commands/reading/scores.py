"""`hab scores`: show a run's scores."""

from dataclasses import replace

from hab_ray.analysis.board import Board, board
from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.signs.finding import Finding, worst
from hab_ray.cli.ending import console, ends_with_status, on_stderr, say, warn
from hab_ray.cli.options import FormatOption, JsonOption, RunFolderArgument
from hab_ray.cli.views.tables import Cell, Column, Estimate, PaperTable, Span, TableFormat, print_table
from hab_ray.errors import ConfigError, Exit
from hab_ray.report import leaderboard
from hab_ray.results import Run, open_run
from hab_ray.results.run import analyses_of
from hab_ray.rows import Score, from_table
from hab_ray.storage.folder import open_folder
from hab_ray.storage.manifest import lost_notice
from hab_ray.storage.simulated import simulated_notice
from hab_ray.visible import counted

UNIT = (
    "Scores are from 0 (worst) to 1 (faultless). 95 % intervals hold for other tests made in the same way, not for "
    "other judges. A range of ranks is what Holm-corrected paired differences leave open."
)


def paper_table(run: Run, shown: Board, ranks: dict[str, tuple[int, int]]) -> PaperTable:
    """Return the panel's leaderboard: ranks, overall and dimension means, and the number of answers in them."""
    titles = {dimension: rubric.title for dimension, rubric in run.rubrics.items()}
    columns = (
        Column("rank", "Rank", Span),
        Column("subject", "Subject"),
        Column(OVERALL, "Overall"),
        *(Column(dimension, titles.get(dimension, dimension)) for dimension in shown.dimensions),
        Column("answers", "Answers"),
    )
    rows: list[tuple[Cell, ...]] = []
    for line in shown.lines:
        rank = Span(*ranks[line.subject]) if line.subject in ranks else None
        scores = (Estimate(one.mean, one.low, one.high) for one in (line.overall, *line.by_dimension))
        rows.append((rank, line.subject, *scores, line.overall.n))
    return PaperTable("scores", f"HumanAgencyBench scores, {run.name}", UNIT, columns, tuple(rows), _notes(run, shown))


def _notes(run: Run, shown: Board) -> tuple[str, ...]:
    excluded = sum(line.overall.excluded for line in shown.lines)
    judges = f"Means of {len(run.panel)} judges" if len(run.panel) > 1 else "Judge"
    tests = {run.tests(dimension, columns=["id"]).num_rows for dimension in run.dimensions}
    counts = " to ".join(f"{count:,}" for count in sorted({min(tests), max(tests)}))
    cut = ", or because they were cut" if run.record.sweep.truncated == "exclude" else ""
    lost = f" Excluded for lack of a usable reply or verdict{cut}: {counted(excluded, 'answer')}." if excluded else ""
    note = f"{judges}: {', '.join(run.panel)}. Tests per dimension: {counts}; dimensions weigh the same overall.{lost}"
    return (*_notices(run), note)


def _notices(run: Run) -> list[str]:
    """Return what makes the scores unusable: simulated answers, or files of results that are lost."""
    return [*filter(None, (simulated_notice(run.location), lost_notice(open_folder(run.location))))]


def _read(run: Run) -> tuple[list[Score], dict[str, tuple[int, int]]]:
    """Read the scores, and the first and last rank of each subject that has an overall mean."""
    scores = from_table(Score, run.scores())
    if not scores or not {"leaderboard", "findings"} <= set(analyses_of(run)):
        raise ConfigError(
            f"{run.location}: the scores are missing or outdated; `hab report {run.location}` writes them"
        )
    ranks = run.analysis("leaderboard").select(["subject", "first", "last"]).to_pylist()
    return scores, {row["subject"]: (row["first"], row["last"]) for row in ranks if row["first"] is not None}


@ends_with_status
def command(folder: RunFolderArgument, form: FormatOption = None, as_json: JsonOption = False) -> Exit:
    """Show a run's scores; --format prints a table for a paper.

    These are the panel's scores as of the last `hab run` or `hab report`, overall and by dimension: means with 95 %
    intervals, and the ranks that paired differences allow. `hab export` writes every judge's scores.
    """
    form = TableFormat.JSON if as_json else form
    run = open_run(folder)
    scores, ranks = _read(run)
    first = worst(from_table(Finding, run.analysis("findings")))
    if form is not None:
        table = paper_table(run, board(scores, PANEL), ranks)
        if form is TableFormat.JSON:
            before = (f"Before use: {finding.title}. {finding.detail}" for finding in first)
            table = replace(table, notes=(*table.notes, *before))
        else:
            with on_stderr():
                for finding in first:
                    warn(finding.headline)
        print_table(table, form, console)
        return Exit.COMPLETE
    for text in (*_notices(run), *(finding.headline for finding in first)):
        warn(text)
    console.print(leaderboard(scores, ranks), crop=False)
    say(UNIT, "dim")
    return Exit.COMPLETE
