"""Which reading made the scores of imported wording, and what the other would have made of the same replies."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from hab_ray.analysis.tables.trust.readings import Read, readings
from hab_ray.calls import Call, ChatCall
from hab_ray.exchange.export import warnings
from hab_ray.report import write_report
from hab_ray.resolve import write_record
from hab_ray.resources import bundled
from hab_ray.results import open_run
from hab_ray.rubric import Reading
from hab_ray.work import Shard, Work
from tests.instant import DIMENSIONS, NOW, Run, open_calls, work_of
from tests.small_runs import summary_of

READ, OWN = DIMENSIONS
# By the number of a judge's call: equal; a letter twice; no list; two objects; nothing.
REPLIES = ('{"issues": []}', '{"issues": ["B", "B"]}', '{"assessment": ""}', 'It returns {}. {"issues": ["B"]}', "none")


class Replying(Run):
    """A run whose judges' replies to imported wording repeat `REPLIES`, the same to a request that is made again."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.tests: dict[str, int] = {}

    def text(self, shard: Shard, call: Call) -> str:
        if shard.stage != "judge" or shard.dimension != READ or not isinstance(call, ChatCall):
            return super().text(shard, call)
        asked = self.tests.setdefault(str(call.messages), len(self.tests))
        return REPLIES[asked % len(REPLIES)]


def rubrics_with(folder: Path, reading: Reading) -> Path:
    """The built-in rubrics of two dimensions; one has imported wording for judges."""
    folder.mkdir()
    for dimension in DIMENSIONS:
        content = yaml.safe_load(bundled("rubrics").joinpath(f"{dimension}.yaml").read_text(encoding="utf-8"))
        if dimension == READ:
            user = ["Judge: ", {"value": "prompt"}, {"value": "response"}]
            origin = {"source": "a checkout", "licence": "cc0"}
            content["literal"] = {"origin": origin, "reading": reading.value, "judging": {"user": user}}
        (folder / f"{dimension}.yaml").write_text(yaml.safe_dump(content))
    return folder


def run_of(folder: Path, reading: Reading, **changes: Any) -> Replying:
    """A run of its own that is complete, in the store that all runs of the folder share."""
    rubrics, run = rubrics_with(folder / f"rubrics-{reading}", reading), str(folder / f"run-{reading}")
    work = work_of(folder, rubrics=str(rubrics), run=run, subjects=["house/a"], judges=["house/j"], **changes)
    write_record(work, NOW)
    return Replying(work)


@pytest.fixture
def strict(tmp_path: Path) -> Replying:
    run = run_of(tmp_path, Reading.STRICT)
    run.all()
    return run


def scores(run: Run) -> list[tuple[int | None, int | None]]:
    table = open_run(run.work.run_path).verdicts(dimension=READ, columns=["test_id", "score", "other_score"])
    return [(row["score"], row["other_score"]) for row in sorted(table.to_pylist(), key=lambda row: row["test_id"])]


def test_another_reading_pays_for_nothing_and_its_scores_are_the_other_column(tmp_path: Path, strict: Replying) -> None:
    published = run_of(tmp_path, Reading.PUBLISHED)
    assert open_calls(published.plan()) == {}
    published.all()
    assert published.paid == 0
    assert [(other, own) for own, other in scores(strict)] == scores(published)


def test_the_table_counts_where_the_readings_part(tmp_path: Path, strict: Replying) -> None:
    published = run_of(tmp_path, Reading.PUBLISHED)
    published.all()
    pairs = scores(strict)
    lines = {}
    for run, reading in ((strict, Reading.STRICT), (published, Reading.PUBLISHED)):
        summary = summary_of(run.work)
        (line,) = readings(summary)
        assert (line.judge, line.dimension, line.reading) == ("house/j", READ, reading)
        lines[reading] = line
        page = write_report(summary).path.read_text(encoding="utf-8")
        assert "Reading of imported wording</h2>" in page and f"<td>{reading.value}</td>" in page
        assert f"(reading: {reading.value})" in page
        assert any(f"(reading: {reading.value})" in line for line in warnings(summary.run))
    counted = [_counts(lines[reading]) for reading in (Reading.STRICT, Reading.PUBLISHED)]
    assert (
        counted[0]
        == counted[1]
        == [
            sum(a is not None and a == b for a, b in pairs),
            sum(a is not None and b is not None and a != b for a, b in pairs),
            sum(b is None and a is not None for a, b in pairs),
            sum(a is None and b is not None for a, b in pairs),
        ]
    )
    assert all(counted[0]) and lines[Reading.STRICT].neither
    assert lines[Reading.STRICT].replies == len(pairs)


def _counts(line: Read) -> list[int]:
    return [line.equal, line.differ, line.only_strict, line.only_published]


def test_a_sweep_in_our_words_has_no_such_table(tmp_path: Path) -> None:
    work = work_of(tmp_path, subjects=["house/a"], judges=["house/j"])
    write_record(work, NOW)
    run = Run(work)
    run.all()
    assert not readings(summary_of(work))


def test_replies_that_neither_reads_are_the_rest() -> None:
    assert Read("j", "d", Reading.STRICT, 10, 1, 2, 3, 3).neither == 1
