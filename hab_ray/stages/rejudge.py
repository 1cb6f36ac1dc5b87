"""Not in the paper: each judge reads some responses again, which shows whether its vendor has changed the model.

These *sentinels* are responses to a subject's first tests, which are judged first. The judge gets the same request
again once the subject's other responses in the dimension are judged, and whenever the run resumes after a week or
more. `hab_ray.analysis.power.sentinels` tells how large a shift a number of sentinels can detect.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import datetime

from typing_extensions import override

from hab_ray.calls import ChatCall, Outcome
from hab_ray.rows import ChosenTest, Rejudged, Response, State, Verdict
from hab_ray.stages.base import Again, CallStage, Forecast, Forecasts, Rows
from hab_ray.stages.method.judge import JudgeStage
from hab_ray.stages.verdict_rows import VerdictTask

_FIRST_REPLICATE = 1_000_000  # above any real replicate, whose stored reply would be read instead
_VERDICT_FIELDS = [field.name for field in fields(Rejudged) if field.name not in ("repeat", "before", "before_at")]


@dataclass(frozen=True)
class RejudgeTask:
    """A sentinel to judge again. `before` is the score of the judge's first verdict, given at `before_at`."""

    verdict: VerdictTask
    repeat: int
    before: float
    before_at: str | None


@dataclass(frozen=True)
class RejudgeStage(CallStage[RejudgeTask, Rejudged]):
    """Has the judge of `judging` read `sentinels` responses of one subject again, once more after each of `pauses`.

    Every `stride`-th test, starting at `first`, comes first: each subject gets other tests, so that many are covered.
    Tests appended after a pause come last, so that the judge reads the same responses again as before.
    """

    judging: JudgeStage
    sentinels: int
    first: int
    stride: int
    pauses: tuple[datetime, ...] = ()

    @override
    def tasks(self, rows: Rows) -> list[RejudgeTask]:
        test_ids = [test.id for test in rows[ChosenTest]]
        verdicts = {verdict.test_id: verdict for verdict in rows[Verdict] if self._is_first(verdict)}
        judged_at = [_time_of(verdicts.get(id)) for id in test_ids]
        early = [[at for at, time in enumerate(judged_at) if time and _is_before(time, pause)] for pause in self.pauses]
        ends = [max(found) for found in early if found]  # a test between them had no verdict, and is no addition
        order = sorted(
            range(len(test_ids)), key=lambda at: (sum(at > end for end in ends), (at - self.first) % self.stride, at)
        )
        judged = {t.test.id: t for t in self.judging.tasks(rows) if t.response.sample == 0 and t.test.id in verdicts}
        chosen = (test_ids[at] for at in order[: self.sentinels])
        return [task for id in chosen if id in judged for task in self._repeats(judged[id], verdicts[id])]

    def _is_first(self, verdict: Verdict) -> bool:
        is_own = verdict.judge == self.judging.judge.name
        return is_own and verdict.sample == verdict.replicate == 0 and verdict.state is State.OK

    def _repeats(self, task: VerdictTask, first: Verdict) -> Iterator[RejudgeTask]:
        at = _time_of(first)
        pauses = sum(at is None or _is_before(at, pause) for pause in self.pauses)
        for repeat in range(1, pauses + 2):
            yield _repeated(task, repeat, first.score or 0, first.at)

    @override
    def requests(self, tasks: Iterable[RejudgeTask]) -> Iterator[tuple[str, ChatCall]]:
        return self.judging.requests(task.verdict for task in tasks)

    @override
    def parse(self, task: RejudgeTask, outcome: Outcome) -> Rejudged | Again[RejudgeTask]:
        found = self.judging.parse(task.verdict, outcome)
        if isinstance(found, Again):
            return Again(replace(task, verdict=found.task))
        verdict = {name: getattr(found, name) for name in _VERDICT_FIELDS}
        return Rejudged(**verdict, repeat=task.repeat, before=task.before, before_at=task.before_at)

    @override
    def answer_tokens(self) -> int:
        return self.judging.answer_tokens()

    @override
    def forecast_tasks(self, rows: Forecasts) -> Forecast[RejudgeTask]:
        """Forecast the judged sentinels, plus as many as are missing while verdicts are still to come."""
        known = self.tasks(Rows({row_type: forecast.known for row_type, forecast in rows.items()}))
        if not rows[Verdict].to_come:
            return Forecast(known)
        verdicts = self.judging.forecast_tasks({row_type: rows[row_type] for row_type in (Response, ChosenTest)})
        to_come = max(0, min(self.sentinels, verdicts.count) - len(known))
        typical, longest = (
            [_repeated(task, repeat=1, before=0, before_at=None) for task in tasks or verdicts.known]
            for tasks in (verdicts.typical, verdicts.longest)
        )
        return Forecast(known, to_come, typical, longest)


def _time_of(verdict: Verdict | None) -> datetime | None:
    return datetime.fromisoformat(verdict.at) if verdict and verdict.at else None


def _is_before(time: datetime, pause: datetime) -> bool:
    """Return whether a verdict came before a pause's end. Verdicts' times are whole seconds, rounded down."""
    return time < pause.replace(microsecond=0)


def _repeated(task: VerdictTask, repeat: int, before: float, before_at: str | None) -> RejudgeTask:
    return RejudgeTask(replace(task, replicate=_FIRST_REPLICATE + repeat), repeat, before, before_at)
