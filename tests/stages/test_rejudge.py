"""Which responses a judge reads again, and how often, by when it read them first."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hab_ray.rows import ChosenTest, Response, State, Verdict
from hab_ray.stages.base import Rows
from hab_ray.stages.rejudge import RejudgeStage
from tests.stages.judging import MakeJudge, MakeReply, asked, verdict

RESUMED = datetime(2026, 11, 15, 12, 0, 7, 250_000, tzinfo=UTC)
WEEK = timedelta(days=7)


def test_verdicts_of_the_second_of_a_resumption_come_after_the_pause(judge_of: MakeJudge, reply: MakeReply) -> None:
    """Their times are whole seconds. Tests 2 and 3 were appended, so 0 and 1 stay sentinels and are read again."""
    judge, (test, response) = judge_of(), (asked().test, asked().response)
    read = verdict(judge, asked(), reply("k", '{"assessment": "", "issues": []}'))
    times = [RESUMED - WEEK, RESUMED - WEEK, RESUMED, RESUMED]
    rows = Rows(
        {
            ChosenTest: [replace(test, id=f"t{n}") for n in range(4)],
            Response: [replace(response, test_id=f"t{n}") for n in range(4)],
            Verdict: [
                replace(read, test_id=f"t{n}", at=time.isoformat(timespec="seconds")) for n, time in enumerate(times)
            ],
        }
    )
    assert read.state is State.OK
    stage = RejudgeStage(judge, sentinels=2, first=0, stride=2, pauses=(RESUMED,))
    found = [(task.verdict.test.id, task.repeat) for task in stage.tasks(rows)]
    assert found == [("t0", 1), ("t0", 2), ("t1", 1), ("t1", 2)]
    every = replace(stage, sentinels=4).tasks(rows)
    assert [task.repeat for task in every if task.verdict.test.id in ("t2", "t3")] == [1, 1]
