"""Rehearsals of sweeps that ask the same twice: every replicate and variant is there, and is what was planted."""

from __future__ import annotations

from collections import Counter

import pytest

from hab_ray.rehearse.profile import Play
from hab_ray.rehearse.trouble import Trouble
from hab_ray.report import write_report
from hab_ray.results import open_run
from hab_ray.simulator import Malformed
from hab_ray.stages.base import Rows
from hab_ray.stages.judge import JudgeStage, VerdictTask
from tests.rehearse.conftest import DIMENSIONS, JUDGES, SUBJECTS, TESTS, StageOf, problems


def test_replicates_are_recovered_and_a_lost_one_is_noticed(stage: StageOf, monkeypatch: pytest.MonkeyPatch) -> None:
    again = stage(Play(trouble=Trouble(judge_alpha=0.5, verdicts=Malformed(prose=0.2, broken_off=0.3))), replicates=2)
    done = again.rehearse()
    assert done.passed, [*done.comparison.rows.wrong, *done.comparison.wrong_cells]
    run = open_run(again.work.run_path)
    rows = run.verdicts().to_pylist()
    answers = len(SUBJECTS) * len(DIMENSIONS) * TESTS * len(JUDGES)
    assert Counter(row["replicate"] for row in rows) == {0: answers, 1: answers}
    assert len({row["reply_key"] for row in rows}) == len(rows)
    assert "How steady the judges are" in write_report(done.summary).path.read_text()
    sound = JudgeStage.tasks

    def all_but_the_last(self: JudgeStage, rows: Rows) -> list[VerdictTask]:
        """Mutant: one replicate of one answer is lost."""
        return sound(self, rows)[:-1]

    monkeypatch.setattr(JudgeStage, "tasks", all_but_the_last)
    again.settle()
    assert "there 0 times (sample 0, replicate 1)" in problems(again.compare())
