"""A run as logs of Inspect (the package inspect-ai), one for each subject and dimension, which `inspect view` opens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hab_ray.catalog import folder_name
from hab_ray.errors import ConfigError
from hab_ray.results import Answer, Run, Transcript
from hab_ray.rows import ChosenTest, Response, State, Verdict
from hab_ray.stages.respond import whole_system

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample
    from inspect_ai.scorer import Score

METRIC = "mean"


def write_logs(run: Run, folder: Path) -> Mapping[str, int]:
    """Write a log for each subject and dimension; how many samples each has.

    Raises:
        ConfigError: inspect-ai is not installed.
    """
    try:
        from inspect_ai.log import write_eval_log
    except ImportError:
        raise ConfigError(
            "--format inspect: the package inspect-ai is missing; pip install 'hab-ray[inspect]'"
        ) from None
    counts = {}
    for subject in run.subjects:
        for dimension in run.dimensions:
            name = f"{folder_name(subject)}-{dimension}.eval"
            log = _Log(run, subject, dimension).made()
            write_eval_log(log, folder / name)
            counts[name] = len(log.samples or ())
    return counts


@dataclass(frozen=True)
class _Log:
    """The log of one subject in one dimension."""

    run: Run
    subject: str
    dimension: str

    def made(self) -> EvalLog:
        from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalResults, EvalSpec

        transcripts = list(self.run.transcripts(self.dimension, self.subject))
        samples = [sample for transcript in transcripts for sample in self._samples(transcript)]
        spec = EvalSpec(
            created=self.run.record.started.isoformat(),
            task=f"hab_ray/{self.dimension}",
            run_id=self.run.record.id or "",
            model=self.subject,
            dataset=EvalDataset(
                name=self.dimension,
                samples=len(transcripts),
                sample_ids=[transcript.test.id for transcript in transcripts],
            ),
            config=EvalConfig(epochs=self.run.record.sweep.samples),
            metadata={"sweep": self.run.name, "hashes": dict(self.run.record.hashes)},
        )
        results = EvalResults(total_samples=len(samples), completed_samples=len(samples), scores=list(self._means()))
        return EvalLog(status="success", eval=spec, results=results, samples=samples)

    def _means(self) -> Iterator[Any]:
        from inspect_ai.log import EvalMetric, EvalScore

        for row in self.run.scores(subject=self.subject, dimension=self.dimension).to_pylist():
            if row["mean"] is not None:
                metric = EvalMetric(name=METRIC, value=row["mean"])
                yield EvalScore(name=row["judge"], scorer=row["judge"], metrics={METRIC: metric})

    def _samples(self, transcript: Transcript) -> Iterator[EvalSample]:
        own = next((each.system for each in self.run.record.sweep.subjects if each.name == self.subject), "")
        for answer in transcript.answers:
            if answer.response is not None:
                yield _sample(own, transcript.test, answer, answer.response)


def _sample(own_system: str, test: ChosenTest, answer: Answer, response: Response) -> EvalSample:
    from inspect_ai.log import EvalError, EvalSample
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser, ModelOutput

    system = whole_system(own_system, test)
    failed = EvalError(message=response.reason, traceback="", traceback_ansi="")
    return EvalSample(
        id=test.id,
        epoch=answer.sample + 1,
        input=test.prompt,
        target="",
        messages=[
            *([ChatMessageSystem(content=system)] if system else []),
            ChatMessageUser(content=test.prompt),
            ChatMessageAssistant(content=response.text, model=response.model_reported or None),
        ],
        output=ModelOutput.from_content(response.model_reported or answer.subject, response.text),
        scores={_scorer(verdict): _score(verdict) for verdict in answer.verdicts if verdict.score is not None},
        metadata={"dimension": test.dimension, "context": test.context, "state": str(response.state)},
        error=None if response.state is State.OK else failed,
    )


def _scorer(verdict: Verdict) -> str:
    return f"{verdict.judge}#{verdict.replicate}" if verdict.replicate else verdict.judge


def _score(verdict: Verdict) -> Score:
    from inspect_ai.scorer import Score

    assert verdict.score is not None
    return Score(
        value=verdict.score / 10,
        answer=None if verdict.issues is None else " ".join(verdict.issues),
        explanation=verdict.assessment,
        metadata={"score": verdict.score, "rater": str(verdict.kind)},
    )
