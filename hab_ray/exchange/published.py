"""A run's scored responses in the columns of the benchmark's published data set, one row per response and judge.

The published data set has no ids and joins rows by the prompt's text; our ids are extra columns.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from hab_ray.analysis.sources import Texts
from hab_ray.exchange.sharing import Sharing
from hab_ray.results import Run
from hab_ray.results.run import tests_with_calls
from hab_ray.rows import ChosenTest, Response, Verdict, from_table, to_table
from hab_ray.rubric import Rubric
from hab_ray.stages.method.respond import whole_system
from hab_ray.stages.prompts.literal import AnyWording, wording_of
from hab_ray.stages.prompts.wording import Prompts, load_prompts
from hab_ray.storage.own_texts import kept_texts


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A scored response. `score` is 0..10; `misinformation` is the test's second text, null if it has none.

    `evaluator_response` holds the assessment and issue letters read from the judge's reply, or the letters alone if the
    assessment is not shared. The evaluator's prompts are null if the rubric or the prompts have changed since the
    verdict. Other texts that are not shared are null. `finish` says whether the response was cut, `call` is the test's
    generation call: a sweep that reads these rows needs both.
    """

    dimension: str
    prompt: str | None
    misinformation: str | None
    subject_model: str
    subject_system_prompt: str | None
    subject_response: str | None
    evaluator_model: str
    evaluator_system_prompt: str | None
    evaluator_prompt: str | None
    evaluator_response: str
    score: int
    test_id: str
    sample: int
    replicate: int
    finish: str
    call: str | None


@dataclass(frozen=True)
class _Asked:
    """What the judges of a dimension are asked by a rubric and prompts; computed once for all of its verdicts."""

    rubric: Rubric
    prompts: Prompts

    @cached_property
    def wording(self) -> AnyWording:
        return wording_of(self.prompts.judge, self.rubric)

    @cached_property
    def system(self) -> str:
        return self.wording.fill_system({"rubric": self.rubric})

    @cached_property
    def digests(self) -> tuple[str, str]:
        return self.rubric.sha256, self.prompts.sha256

    def user(self, test: ChosenTest, response: Response) -> str:
        values = {"rubric": self.rubric, "prompt": test.prompt, "context": test.context, "response": response.text}
        return self.wording.fill_user(values)


@dataclass(frozen=True)
class Evaluations:
    """The evaluations of a run, read lazily."""

    run: Run
    sharing: Sharing

    def tables(self) -> Iterator[pa.Table]:
        """Yield one table per subject and dimension, with tests in order."""
        for subject in self.run.subjects:
            for dimension in self.run.dimensions:
                yield to_table(Evaluation, list(self._part(subject, dimension)))

    def _part(self, subject: str, dimension: str) -> Iterator[Evaluation]:
        tests = {test.id: test for test in from_table(ChosenTest, tests_with_calls(self.run, dimension))}
        responses = {
            (row.test_id, row.sample): row for row in from_table(Response, self.run.responses(subject, dimension))
        }
        for verdict in from_table(Verdict, self.run.verdicts(subject=subject, dimension=dimension)):
            test, response = tests.get(verdict.test_id), responses.get((verdict.test_id, verdict.sample))
            if test is not None and response is not None and verdict.score is not None:
                yield self._row(test, response, verdict, int(verdict.score))

    def _row(self, test: ChosenTest, response: Response, verdict: Verdict, score: int) -> Evaluation:
        sharing, dimension, subject = self.sharing, test.dimension, response.subject
        has_queries = not sharing.without(Texts.QUERIES, dimension)
        has_answer = not sharing.without_answers(dimension, subject)
        has_assessment = not sharing.without_assessments(verdict.judge, dimension, subject)
        asked = self._asked[dimension]
        is_current = (verdict.rubric_sha256, verdict.prompts_sha256) == asked.digests
        has_wording = is_current and not sharing.without(Texts.WORDING, dimension)
        system = whole_system(self._own_systems.get(subject, ""), test)
        assessment = {"assessment": verdict.assessment} if has_assessment else {}
        return Evaluation(
            dimension=dimension,
            prompt=test.prompt if has_queries else None,
            misinformation=test.context or None if has_queries else None,
            subject_model=subject,
            subject_system_prompt=None if sharing.without_system(dimension) else system,
            subject_response=response.text if has_answer else None,
            evaluator_model=verdict.judge,
            evaluator_system_prompt=asked.system if has_wording else None,
            evaluator_prompt=asked.user(test, response) if has_wording and has_answer else None,
            evaluator_response=json.dumps({**assessment, "issues": verdict.issues}, ensure_ascii=False),
            score=score,
            test_id=test.id,
            sample=verdict.sample,
            replicate=verdict.replicate,
            finish=response.finish,
            call=test.call,
        )

    @cached_property
    def _own_systems(self) -> dict[str, str]:
        return {subject.name: subject.system for subject in self.run.record.sweep.subjects}

    @cached_property
    def _asked(self) -> Mapping[str, _Asked]:
        record = self.run.record
        kept = kept_texts(self.run.location, record).text("prompts")
        prompts = load_prompts(record.sweep.rubrics, record.prompts_version, record.fence_version, kept)
        return {name: _Asked(rubric, prompts) for name, rubric in self.run.rubrics.items()}
