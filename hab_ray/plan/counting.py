"""The calls of a sweep, found the way the run finds them: each shard's tasks taken as far as the store carries them.

Where a task does not exist yet (a test not generated, a response not given) a stand-in takes its place, and the
line is not exact. A call that several rows or shards share counts once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from hab_ray.calls import Call, Outcome
from hab_ray.config import Validate
from hab_ray.plan.drafts import Cell, Draft, Measured
from hab_ray.plan.figures import Line
from hab_ray.plan.typical import (
    ANSWER_TOKENS,
    BYTES_A_TOKEN,
    Material,
    coming_candidates,
    coming_tests,
    verdicts_to_come,
)
from hab_ray.prices import input_bytes
from hab_ray.rows import Candidate, ChosenTest
from hab_ray.stages.base import Stage
from hab_ray.stages.generate import without_duplicates
from hab_ray.stages.judge import JudgeStage, VerdictTask
from hab_ray.stages.respond import PAPER_SETTINGS, RespondStage, response_id
from hab_ray.stages.validate import ValidateStage, best
from hab_ray.storage.store import Store
from hab_ray.work import ROW_TYPES, Settled, Shard, StageName, Work, settle, tests_file

NONE_TO_COME: Material[Any] = Material(())


@dataclass(frozen=True)
class _Heard:
    """A stage, and the calls it asked for."""

    stage: Stage[Any, Any]
    calls: dict[str, Call] = field(default_factory=dict)

    def requests(self, tasks: Iterable[Any]) -> Iterator[tuple[str, Call]]:
        """See Stage."""
        for row_id, call in self.stage.requests(tasks):
            self.calls[call.key] = call
            yield row_id, call

    def parse(self, task: Any, outcome: Outcome) -> Any:
        """See Stage."""
        return self.stage.parse(task, outcome)


@dataclass
class Counting:
    """Counts the calls of a resolved sweep against a store."""

    work: Work
    store: Store
    _seen: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def lines(self) -> Iterator[Line]:
        """Every line of the plan, dimension by dimension, in the order of the method."""
        drafts = list(self.drafts())
        measured: defaultdict[Cell, Measured] = defaultdict(Measured)
        for draft in drafts:
            measured[draft.cell] += draft.measured
        return (draft.line(measured[draft.cell]) for draft in drafts)

    def drafts(self) -> Iterator[Draft]:
        """What is found of every shard, in the same order."""
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

    def _making(
        self, dimension: str, shards: Mapping[StageName, Shard]
    ) -> Generator[Draft, None, Material[ChosenTest]]:
        """The stages that make a dimension's tests, and what tests there will be."""
        assert self.work.sweep.generate is not None and self.work.sweep.select is not None
        rubric, generate = self.work.rubrics[dimension], shards[StageName.GENERATE]
        draft, settled = self._count(generate, self.work.tasks(generate))
        yield draft
        candidates = without_duplicates(settled.rows) if self.work.sweep.deduplicate == "exact" else settled.rows
        coming = coming_candidates(rubric, self.work.sweep.generate, len(settled.open))
        pool = Material(ValidateStage.tasks(candidates), coming.to_come, coming.typical, coming.longest)
        if isinstance(self.work.sweep.validation, Validate):
            draft, settled = self._count(shards[StageName.VALIDATE], pool.known, pool)
            yield draft
            pool = self._validated(pool, settled, self.work.sweep.validation)
        draft, _ = self._count(shards[StageName.SELECT], pool.known, pool)
        yield draft
        if self.work.run.has(tests_file(dimension)):
            return Material(self.work.tests(dimension))
        wanted = min(self.work.sweep.select.tests, pool.count)
        return coming_tests(rubric, Material((), wanted, coming.typical, coming.longest))

    def _validated(self, pool: Material[Candidate], settled: Settled, settings: Validate) -> Material[Candidate]:
        if pool.to_come or settled.open:
            return Material((), min(settings.keep, pool.count), pool.typical, pool.longest)
        return Material(best(pool.known, settled.rows, settings, self.work.sweep.seed))

    def _answering(self, shards: Sequence[Shard], tests: Material[ChosenTest]) -> Iterator[Draft]:
        for shard in (s for s in shards if s.stage is StageName.RESPOND):
            stage = self.work.stage(shard)
            assert isinstance(stage, RespondStage)
            coming = Material((), tests.to_come * stage.samples, stage.tasks(tests.typical), stage.tasks(tests.longest))
            draft, settled = self._count(shard, stage.tasks(tests.known), coming)
            yield draft
            verdicts = self._verdicts(shard, tests, settled)
            for judge in (s for s in shards if s.stage is StageName.JUDGE and s.subject == shard.name):
                draft, _ = self._count(judge, verdicts.known, verdicts)
                yield draft

    def _verdicts(self, responses: Shard, tests: Material[ChosenTest], settled: Settled) -> Material[VerdictTask]:
        """What is there to be judged of a subject's responses, given and to come."""
        entry, subject = self.work.model(responses).entry, self.work.subject(responses.name)
        most = entry.output_limit(subject.params.over(PAPER_SETTINGS).max_tokens)
        still_open = {row_id for row_id, _ in settled.open}
        samples = range(self.work.sweep.samples)
        waiting = [t for t in tests.known for n in samples if response_id(t.id, n) in still_open]
        given = [len(row.text.encode()) / BYTES_A_TOKEN for row in settled.rows]
        answer = round(fmean(given)) if given else ANSWER_TOKENS[StageName.RESPOND]
        return Material(
            known=JudgeStage.tasks(tests.known, settled.rows),
            to_come=len(waiting) + tests.to_come * len(samples),
            typical=verdicts_to_come(waiting or tests.typical, answer),
            longest=verdicts_to_come(waiting or tests.longest, most),
        )

    def _count(self, shard: Shard, tasks: Sequence[Any], coming: Material[Any] = NONE_TO_COME) -> tuple[Draft, Settled]:
        """What is found of a shard, and how far the store has it."""
        draft, stage = Draft(self.work, shard), self.work.stage(shard)
        settled, found = self._settle(shard, tasks)
        seen = self._seen[self.work.model(shard).name]
        new = found.keys() - seen
        draft.reused, draft.measured = len(new), sum((found[key] for key in new), Measured())
        seen |= new
        for row_id, call in settled.open:
            if call.key not in seen:
                seen.add(call.key)
                draft.open.append((row_id, call))
                draft.add(1, call, input_bytes(call), input_bytes(call))
        if coming.to_come:
            typical, longest = ([call for _, call in stage.requests(some)] for some in (coming.typical, coming.longest))
            draft.add(coming.to_come, typical[0], fmean(map(input_bytes, typical)), fmean(map(input_bytes, longest)))
            draft.exact = False
        return draft, settled

    def _settle(self, shard: Shard, tasks: Sequence[Any]) -> tuple[Settled, dict[str, Measured]]:
        """The shard's rows and open calls, and by key what those calls took that need not be paid for.

        A shard that is complete tells nothing of what its calls took: its replies are not read again.
        """
        stage, model, run = self.work.stage(shard), self.work.model(shard).name, self.work.run
        chosen = shard.stage is StageName.SELECT and run.has(shard.file)
        if chosen or (shard.stage is not StageName.SELECT and tasks and run.count(shard.file) == len(tasks)):
            row_type: type[Any] = ROW_TYPES[shard.stage]
            rows = [] if chosen else run.read(row_type, shard.file)
            return Settled(rows, []), {call.key: Measured() for _, call in stage.requests(tasks)}
        heard = _Heard(stage)
        found: dict[str, Measured] = {}

        def read(keys: Sequence[str]) -> Mapping[str, Outcome]:
            outcomes = self.store.read(model, keys)
            found.update((key, Measured.of(heard.calls[key], outcome)) for key, outcome in outcomes.items())
            return outcomes

        return settle(heard, tasks, read), found
