"""Beside the method: each judge reads some answers once more, to see whether its vendor has changed it meanwhile.

The answers (*sentinels*) are those to a subject's first tests, which are judged first. The judge is asked for them as
before, once the subject's other answers in the dimension are judged, and again whenever the run goes on after a week.
How many show which shift: `hab_ray.analysis.power.sentinels`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime

from typing_extensions import override

from hab_ray.calls import ChatCall, Outcome
from hab_ray.rows import ChosenTest, Rejudged, Response, State, Verdict
from hab_ray.stages.base import Again, CallStage, Forecast, Forecasts, Rows
from hab_ray.stages.method.judge import JudgeStage
from hab_ray.stages.verdict_rows import VerdictTask

_BEYOND_REPLICATES = 1_000_000  # so that no call is taken for that of a replicate
_OF_VERDICTS = [field.name for field in fields(Rejudged) if field.name not in ("repeat", "before", "before_at")]


@dataclass(frozen=True)
class RejudgeTask:
    """A sentinel to be judged once more; `before` is the score of the judge's first verdict, which came `before_at`."""

    verdict: VerdictTask
    repeat: int
    before: float
    before_at: str | None


@dataclass(frozen=True)
class RejudgeStage(CallStage[RejudgeTask, Rejudged]):
    """Lets a judge, which reads each answer once in `judging`, read `sentinels` of one subject's again.

    Of the tests every `stride`-th from `first` on comes first, so that subjects take turns and many tests are read.
    """

    judging: JudgeStage
    sentinels: int
    first: int
    stride: int
    pauses: tuple[datetime, ...] = ()

    @override
    def tasks(self, rows: Rows) -> list[RejudgeTask]:
        chosen = self._chosen([test.id for test in rows[ChosenTest]])
        scored = {verdict.test_id: verdict for verdict in rows[Verdict] if self._is_first(verdict)}
        asked = {task.test.id: task for task in self.judging.tasks(rows) if task.response.sample == 0}
        return [
            task for name in chosen if name in asked and name in scored for task in self._of(asked[name], scored[name])
        ]

    def _chosen(self, test_ids: Sequence[str]) -> list[str]:
        turns = sorted(range(len(test_ids)), key=lambda at: ((at - self.first) % self.stride, at))
        return [test_ids[at] for at in turns[: self.sentinels]]

    def _is_first(self, verdict: Verdict) -> bool:
        is_own = verdict.judge == self.judging.judge.name
        return is_own and verdict.sample == verdict.replicate == 0 and verdict.state is State.OK

    def _of(self, task: VerdictTask, scored: Verdict) -> Iterator[RejudgeTask]:
        at = datetime.fromisoformat(scored.at) if scored.at else None
        rested = sum(at is None or pause > at for pause in self.pauses)
        for repeat in range(1, rested + 2):
            yield _again(task, repeat, scored.score or 0, scored.at)

    @override
    def requests(self, tasks: Iterable[RejudgeTask]) -> Iterator[tuple[str, ChatCall]]:
        return self.judging.requests(task.verdict for task in tasks)

    @override
    def parse(self, task: RejudgeTask, outcome: Outcome) -> Rejudged | Again[RejudgeTask]:
        found = self.judging.parse(task.verdict, outcome)
        if isinstance(found, Again):
            return Again(replace(task, verdict=found.task))
        of_verdict = {name: getattr(found, name) for name in _OF_VERDICTS}
        return Rejudged(**of_verdict, repeat=task.repeat, before=task.before, before_at=task.before_at)

    @override
    def answer_tokens(self) -> int:
        return self.judging.answer_tokens()

    @override
    def forecast_tasks(self, rows: Forecasts) -> Forecast[RejudgeTask]:
        """The sentinels that are judged; as long as verdicts are to come, as many more as make up the number."""
        known = self.tasks(Rows({row_type: forecast.known for row_type, forecast in rows.items()}))
        if not rows[Verdict].to_come:
            return Forecast(known)
        verdicts = self.judging.forecast_tasks({row_type: rows[row_type] for row_type in (Response, ChosenTest)})
        to_come = max(0, min(self.sentinels, verdicts.count) - len(known))
        typical, longest = (_alike(some or verdicts.known) for some in (verdicts.typical, verdicts.longest))
        return Forecast(known, to_come, typical, longest)


def _again(task: VerdictTask, repeat: int, before: float, before_at: str | None) -> RejudgeTask:
    return RejudgeTask(replace(task, replicate=_BEYOND_REPLICATES + repeat), repeat, before, before_at)


def _alike(tasks: Sequence[VerdictTask]) -> list[RejudgeTask]:
    return [_again(task, repeat=1, before=0, before_at=None) for task in tasks]
