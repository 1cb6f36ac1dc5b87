"""The calls of a sweep, found the way the run finds them: each shard's tasks taken as far as the store carries them.

Where a task does not exist yet (a test not generated, a response not given) a stand-in takes its place, and the
line is not exact. A call that several rows or shards share counts once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from hab_ray.calls import Call, ChatCall, Outcome, Usage
from hab_ray.config import Validate
from hab_ray.plan.figures import Figures, Line
from hab_ray.plan.typical import (
    ANSWER_TOKENS,
    BYTES_A_TOKEN,
    Material,
    answer_tokens,
    coming_candidates,
    coming_tests,
    verdicts_to_come,
)
from hab_ray.prices import Mode, input_bytes, rate
from hab_ray.rows import Candidate, ChosenTest
from hab_ray.stages.generate import without_duplicates
from hab_ray.stages.judge import JudgeStage, VerdictTask
from hab_ray.stages.respond import PAPER_SETTINGS, RespondStage, response_id
from hab_ray.stages.validate import ValidateStage, best
from hab_ray.storage.store import Store
from hab_ray.work import ROW_TYPES, Settled, Shard, StageName, Work, settle, tests_file

NONE_TO_COME: Material[Any] = Material(())


@dataclass
class _Tally:
    """Counts the calls of one shard."""

    work: Work
    shard: Shard
    figures: Figures = field(default_factory=Figures)
    dearest: int = 0
    exact: bool = True

    def __post_init__(self) -> None:
        self._entry = self.work.model(self.shard).entry
        self._online, self._batch = rate(self._entry, Mode.ONLINE), rate(self._entry, Mode.BATCH)

    def add(self, count: int, call: Call, said: float, most_said: float) -> None:
        """Count calls like this one, which say so many bytes on average, typically and at most."""
        answer, most_answer = self._answers(call)
        usage = Usage(input=round(count * said / BYTES_A_TOKEN), output=count * answer)
        most_input, most_output = round(count * most_said), count * most_answer
        self.dearest = max(self.dearest, self._online.bound(round(most_said), most_answer))
        self.figures += Figures(
            calls=count,
            batchable=count if self._entry.batch else 0,
            input=usage.input,
            output=usage.output,
            most_input=most_input,
            most_output=most_output,
            online=self._online.cost(usage),
            most_online=self._online.bound(most_input, most_output),
            batch=self._batch.cost(usage),
            most_batch=self._batch.bound(most_input, most_output),
        )

    def _answers(self, call: Call) -> tuple[int, int]:
        """The output tokens of a call, typically and at most."""
        if not isinstance(call, ChatCall):
            return 0, 0
        generate, limit = self.work.sweep.generate, call.params.max_tokens
        queries = generate.per_call if generate else 1
        return answer_tokens(self.shard.stage, self._entry, limit, queries), self._entry.output_limit(limit)

    def add_reused(self, count: int) -> None:
        """Count calls that are in the store."""
        self.figures += Figures(calls=count, reused=count)

    def line(self) -> Line:
        """What was counted."""
        shard, model = self.shard, self.work.model(self.shard).name
        return Line(shard.stage, shard.name, model, shard.dimension, self.exact, self.figures, self.dearest)


@dataclass
class Counting:
    """Counts the calls of a resolved sweep against a store."""

    work: Work
    store: Store
    _seen: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def lines(self) -> Iterator[Line]:
        """Every line of the plan, dimension by dimension, in the order of the method."""
        for model in self.work.models:
            self.store.refresh(model)
        given = self.work.given_tests() if self.work.sweep.tests is not None else None
        for dimension in self.work.rubrics:
            shards = [s for s in self.work.shards() if s.dimension == dimension]
            if given is None:
                tests = yield from self._making(dimension, {s.stage: s for s in shards})
            else:
                tests = Material(given[dimension])
            yield from self._answering(shards, tests)

    def _making(self, dimension: str, shards: Mapping[StageName, Shard]) -> Generator[Line, None, Material[ChosenTest]]:
        """The stages that make a dimension's tests, and what tests there will be."""
        assert self.work.sweep.generate is not None and self.work.sweep.select is not None
        rubric, generate = self.work.rubrics[dimension], shards[StageName.GENERATE]
        line, settled = self._count(generate, self.work.tasks(generate))
        yield line
        candidates = without_duplicates(settled.rows) if self.work.sweep.deduplicate == "exact" else settled.rows
        coming = coming_candidates(rubric, self.work.sweep.generate, len(settled.open))
        pool = Material(ValidateStage.tasks(candidates), coming.to_come, coming.typical, coming.longest)
        if isinstance(self.work.sweep.validation, Validate):
            line, settled = self._count(shards[StageName.VALIDATE], pool.known, pool)
            yield line
            pool = self._validated(pool, settled, self.work.sweep.validation)
        line, _ = self._count(shards[StageName.SELECT], pool.known, pool)
        yield line
        if self.work.run.has(tests_file(dimension)):
            return Material(self.work.tests(dimension))
        wanted = min(self.work.sweep.select.tests, pool.count)
        return coming_tests(rubric, Material((), wanted, coming.typical, coming.longest))

    def _validated(self, pool: Material[Candidate], settled: Settled, settings: Validate) -> Material[Candidate]:
        if pool.to_come or settled.open:
            return Material((), min(settings.keep, pool.count), pool.typical, pool.longest)
        return Material(best(pool.known, settled.rows, settings, self.work.sweep.seed))

    def _answering(self, shards: Sequence[Shard], tests: Material[ChosenTest]) -> Iterator[Line]:
        for shard in (s for s in shards if s.stage is StageName.RESPOND):
            stage = self.work.stage(shard)
            assert isinstance(stage, RespondStage)
            coming = Material((), tests.to_come * stage.samples, stage.tasks(tests.typical), stage.tasks(tests.longest))
            line, settled = self._count(shard, stage.tasks(tests.known), coming)
            yield line
            verdicts = self._verdicts(shard, tests, settled)
            for judge in (s for s in shards if s.stage is StageName.JUDGE and s.subject == shard.name):
                line, _ = self._count(judge, verdicts.known, verdicts)
                yield line

    def _verdicts(self, responses: Shard, tests: Material[ChosenTest], settled: Settled) -> Material[VerdictTask]:
        """What is there to be judged of a subject's responses, given and to come."""
        entry, subject = self.work.model(responses).entry, self.work.subject(responses.name)
        most = entry.output_limit(subject.params.over(PAPER_SETTINGS).max_tokens)
        still_open = {row_id for row_id, _ in settled.open}
        samples = range(self.work.sweep.samples)
        waiting = [t for t in tests.known for n in samples if response_id(t.id, n) in still_open]
        return Material(
            known=JudgeStage.tasks(tests.known, settled.rows),
            to_come=len(waiting) + tests.to_come * len(samples),
            typical=verdicts_to_come(waiting or tests.typical, ANSWER_TOKENS[StageName.RESPOND]),
            longest=verdicts_to_come(waiting or tests.longest, most),
        )

    def _count(self, shard: Shard, tasks: Sequence[Any], coming: Material[Any] = NONE_TO_COME) -> tuple[Line, Settled]:
        """A shard's line, and how far the store has it."""
        tally, stage = _Tally(self.work, shard), self.work.stage(shard)
        settled, found = self._settle(shard, tasks)
        seen = self._seen[self.work.model(shard).name]
        tally.add_reused(len(found - seen))
        seen |= found
        for call in {call.key: call for _, call in settled.open}.values():
            if call.key not in seen:
                seen.add(call.key)
                tally.add(1, call, input_bytes(call), input_bytes(call))
        if coming.to_come:
            typical, longest = ([call for _, call in stage.requests(some)] for some in (coming.typical, coming.longest))
            tally.add(coming.to_come, typical[0], fmean(map(input_bytes, typical)), fmean(map(input_bytes, longest)))
            tally.exact = False
        return tally.line(), settled

    def _settle(self, shard: Shard, tasks: Sequence[Any]) -> tuple[Settled, set[str]]:
        """The shard's rows and open calls, and the keys of its calls that need not be paid for."""
        stage, model, run = self.work.stage(shard), self.work.model(shard).name, self.work.run
        chosen = shard.stage is StageName.SELECT and run.has(shard.file)
        if chosen or (shard.stage is not StageName.SELECT and tasks and run.count(shard.file) == len(tasks)):
            row_type: type[Any] = ROW_TYPES[shard.stage]
            rows = [] if chosen else run.read(row_type, shard.file)
            return Settled(rows, []), {call.key for _, call in stage.requests(tasks)}
        found: set[str] = set()

        def read(keys: Sequence[str]) -> Mapping[str, Outcome]:
            outcomes = self.store.read(model, keys)
            found.update(outcomes)
            return outcomes

        return settle(stage, tasks, read), found
