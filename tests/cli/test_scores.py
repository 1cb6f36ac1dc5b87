"""`hab scores`: what it prints in each form are the run's own scores and ranks."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest

from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.errors import Exit
from hab_ray.location import Location
from hab_ray.report import write_scores
from hab_ray.results import open_run
from hab_ray.rows import Score, from_table
from hab_ray.storage.record import RUBRIC, amend_record, read_record
from hab_ray.storage.run import MARKER, SCORES
from hab_ray.storage.simulated import NOTICE
from hab_ray.work import Work
from tests.conftest import Desk
from tests.small_runs import Shape, summary_of, write_run

SUBJECTS = ("alpha", "b_50%", "gamma")


@pytest.fixture
def work(desk: Desk) -> Work:
    shape = Shape(subjects=SUBJECTS, judges=("strict", "mild"), tests=9, fail=0.05)
    return write_run(desk.folder / "runs/example", shape)


def written(work: Work) -> dict[tuple[str, str], dict[str, float]]:
    write_scores(summary_of(work))
    rows = open_run(work.run_path).scores(judge=PANEL).to_pylist()
    return {(row["subject"], row["dimension"]): row for row in rows}


def test_every_form_has_the_scores_and_ranks_of_the_run(desk: Desk, work: Work) -> None:
    scores = written(work)
    ranks = {row["subject"]: row for row in open_run(work.run_path).analysis("leaderboard").to_pylist()}
    found = json.loads(desk.hab("scores", "runs/example", "--json").stdout)
    best_first = sorted(SUBJECTS, key=lambda subject: -scores[subject, OVERALL]["mean"])
    assert [row["subject"] for row in found["rows"]] == best_first
    for row in found["rows"]:
        assert row["rank"] == {end: ranks[row["subject"]][end] for end in ("first", "last")}
        for dimension in (OVERALL, *work.rubrics):
            score = scores[row["subject"], dimension]
            assert row[dimension] == {"value": score["mean"], "low": score["low"], "high": score["high"]}
        assert row["answers"] == scores[row["subject"], OVERALL]["n"]
    assert "0 (worst) to 1 (faultless)" in found["unit"] and any("strict, mild" in note for note in found["notes"])
    assert any("Before use" in note for note in found["notes"])

    warned, header, rows = desk.hab("scores", "runs/example", "--format", "csv").stdout.partition("rank_first,")
    assert "The judges may agree no better than chance." in warned
    table = list(csv.DictReader(io.StringIO(header + rows)))
    assert [float(row["overall_high"]) for row in table] == [scores[one, OVERALL]["high"] for one in best_first]
    latex = desk.hab("scores", "runs/example", "--format", "latex").stdout
    assert latex.count(r"\footnotesize") == 2 and "Before use" not in latex
    assert r"b\_50\% &" in latex and f"${scores['b_50%', OVERALL]['mean']:.2f}_" in latex
    markdown = desk.hab("scores", "runs/example", "--format", "markdown").stdout
    assert f"| {scores['alpha', OVERALL]['mean']:.2f} [" in markdown and "95 % intervals" in markdown


def test_the_terminal_says_first_what_has_to_be_known(desk: Desk, work: Work) -> None:
    written(work)
    work.run.folder.put(MARKER, b"")
    shown = desk.hab("scores", "runs/example").stdout
    title = open_run(Location.of(work.run_path)).analysis("findings").column("title")[0].as_py()
    assert shown.index(NOTICE) < shown.index(title) < shown.index("overall")
    assert NOTICE in " ".join(json.loads(desk.hab("scores", "runs/example", "--json").stdout)["notes"])


def test_without_scores_it_says_how_to_get_them(desk: Desk, work: Work) -> None:
    assert "hab report" in desk.says("scores", "runs/example", status=Exit.CONFIGURATION)
    desk.says("report", "runs/example")
    desk.says("scores", "runs/example")


def test_a_report_says_whether_the_scores_that_came_with_the_folder_are_its_verdicts(desk: Desk, work: Work) -> None:
    assert "in the folder" not in desk.says("report", "runs/example")
    assert "the scores that were in the folder are the same (27 compared)" in desk.says("report", "runs/example")
    scores = from_table(Score, open_run(work.run_path).scores())
    edited = [replace(s, mean=0.99) if (s.subject, s.dimension) == ("alpha", OVERALL) else s for s in scores]
    work.run.write(Score, SCORES, edited)
    found = desk.says("report", "runs/example")
    assert "of the 27 scores that were in the folder are others now, such as alpha, overall, by panel: 0.990" in found
    *rest, last = [replace(s, mean=s.mean and s.mean + 4e-6) for s in scores]
    work.run.write(Score, SCORES, [*rest, replace(last, mean=None, low=None, high=None, n=7)])
    found = desk.says("report", "runs/example")
    assert f"such as {last.subject}, {last.dimension}, by {last.judge}: none of 7 answers before, 0." in found
    moved = [replace(s, low=0.125) if (s.subject, s.dimension) == ("alpha", OVERALL) else s for s in scores]
    work.run.write(Score, SCORES, moved)  # as by another method of intervals, of an earlier version
    found = desk.says("report", "runs/example")
    assert re.search(r"alpha, overall, by panel: (0\.\d+) \(0\.125 to (.*)\) of .*, \1 \(0\.\d+ to \2\) of", found)
    work.run.folder.put(SCORES, b"damaged")
    assert "the scores that were in the folder cannot be read" in desk.says("report", "runs/example")


def test_a_run_of_an_earlier_version_is_reported_without_its_store_as_it_was_read(desk: Desk, work: Work) -> None:
    record = read_record(work.run_path)
    assert record is not None
    versions = {**record.versions, "stages of other packages": "none"}
    amend_record(work.run_path, reader_version=1, versions=versions)
    found = desk.says("report", "runs/example")
    assert "the verdicts are reported as an earlier version of hab read them" in " ".join(found.split())
    again = read_record(work.run_path)
    assert again is not None and again.reader_version == 1
    page = (work.run_path.path / "report/index.html").read_text("utf-8")
    assert "version of python" in page and "stages of other packages" not in page


def test_a_report_says_that_a_rubric_is_not_the_one_of_the_run(desk: Desk, work: Work) -> None:
    record = read_record(work.run_path)
    assert record is not None and "changed since the run" not in desk.says("report", "runs/example")
    name = next(iter(record.rubric_hashes))
    amend_record(work.run_path, hashes={**record.hashes, f"{RUBRIC}{name}": "0" * 64})
    assert f"rubric {name}: changed since the run" in desk.says("report", "runs/example")
