"""`hab agreement`: which command reads ratings, and which columns of a table for a paper say nothing."""

from dataclasses import replace

import pytest

from hab_ray.cli.commands.reading.agreement import SCORES_UNIT, UNIT, narrowed, paper_table
from hab_ray.cli.views.tables import as_latex, as_markdown
from hab_ray.results import open_run
from hab_ray.storage.run import MARKER
from tests.analysis.sound_runs import among
from tests.conftest import Desk
from tests.small_runs import Shape, write_run


@pytest.mark.parametrize("command", ["hab run", "hab rehearse"])
def test_a_run_without_ratings_names_the_command_that_reads_them(desk: Desk, command: str) -> None:
    write_run(desk.folder / "runs/example", Shape())
    if command == "hab rehearse":
        (desk.folder / "runs/example" / MARKER).touch()
    assert f"give the same `{command}` again" in desk.says("agreement", "runs/example", status=2)


@pytest.mark.parametrize(
    ("raters", "said"), [(1, "One says nothing"), (2, "2 people have rated. Fewer than 5 say little")]
)
def test_what_few_people_do_not_say_is_noted(desk: Desk, raters: int, said: str) -> None:
    run = open_run(write_run(desk.folder / "runs/example", Shape()).run_path)
    (note,) = paper_table(run, [replace(among(0.5, 0.4, 0.6), raters=raters)]).notes
    assert said in note and ("these raters" in note) == (raters > 1)


def test_a_paper_has_no_column_that_says_the_same_on_every_line(desk: Desk) -> None:
    run = open_run(write_run(desk.folder / "runs/example", Shape()).run_path)
    rows = [among(0.5, 0.4, 0.6), replace(among(0.7, 0.6, 0.8), judge="strict")]
    whole = paper_table(run, rows)
    table = narrowed(run, rows, few=3)
    assert [column.key for column in table.without_empty_columns().columns] == ["judge", "agreement", "difference"]
    counts = f"Every line: {rows[0].answers} answers, {rows[0].raters} raters."
    assert table.notes == (*whole.notes, counts) and table.unit == SCORES_UNIT
    assert table.caption == f"{whole.caption}: Overall"
    fewer = narrowed(run, [rows[0], replace(rows[1], answers=9)], few=3)
    assert [column.key for column in fewer.columns] == ["judge", "answers", "agreement", "difference", "reliable"]
    by_issue = [replace(row, dimension="d", issue=letter) for row, letter in zip(rows, "AB", strict=True)]
    assert "issue" in {column.key for column in narrowed(run, by_issue, few=3).columns}
    assert paper_table(run, by_issue).unit == UNIT


def test_a_paper_marks_lines_with_few_answers_as_the_terminal_does(desk: Desk) -> None:
    run = open_run(write_run(desk.folder / "runs/example", Shape()).run_path)
    enough, scarce = among(0.5, 0.4, 0.6), replace(among(0.7, 0.1, 1.0), judge="strict", answers=25)
    for few, marks in ((3, ["", "*"]), (None, ["*", "*"])):
        table = narrowed(run, [enough, scarce], few)
        assert [row[-1] for row in table.rows] == marks and table.notes[-1].startswith("* few answers")
        assert "{*}" in as_latex(table) and r"| \* |" in as_markdown(table)
    assert "{*}" not in as_latex(narrowed(run, [enough, enough], few=3))
