"""Logs of Inspect (the package inspect-ai) for `inspect view`, one per subject and dimension."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.sources import Texts
from hab_ray.catalog.models import folder_name
from hab_ray.errors import ConfigError, installing
from hab_ray.exchange.sharing import Sharing
from hab_ray.results import Answer, Run, Transcript
from hab_ray.rows import ChosenTest, Response, State, Verdict
from hab_ray.stages.method.respond import whole_system

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample
    from inspect_ai.model import ChatMessage, ModelUsage
    from inspect_ai.scorer import Score

METRIC = "mean"


def write(run: Run, sharing: Sharing, folder: Path) -> dict[str, int]:
    """Write a log per subject and dimension; return the number of samples in each.

    Raises:
        ConfigError: inspect-ai is not installed.
    """
    try:
        from inspect_ai.log import write_eval_log
    except ImportError:
        raise ConfigError(f"--format inspect: inspect-ai is missing; {installing('inspect')}") from None
    counts = {}
    for subject in run.subjects:
        for dimension in run.dimensions:
            name = f"{folder_name(subject)}-{dimension}.eval"
            log = _LogBuilder(run, sharing, subject, dimension).build()
            write_eval_log(log, folder / name)
            counts[name] = len(log.samples or ())
    return counts


@dataclass(frozen=True)
class _LogBuilder:
    run: Run
    sharing: Sharing
    subject: str
    dimension: str

    def build(self) -> EvalLog:
        from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalResults, EvalSpec, EvalStats

        transcripts = list(self.run.transcripts(self.dimension, self.subject))
        samples = [
            self._sample(transcript.test, answer, answer.response)
            for transcript in transcripts
            for answer in transcript.answers
            if answer.response is not None
        ]
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
            metadata={"sweep": self.run.name, "hashes": self.run.record.hashes_in_use},
        )
        results = EvalResults(
            total_samples=len(transcripts) * self.run.record.sweep.samples,
            completed_samples=sum(sample.error is None for sample in samples),
            scores=list(self._means()),
        )
        stats = EvalStats(model_usage=_usage(row for transcript in transcripts for row in _rows(transcript)))
        return EvalLog(status="success", eval=spec, results=results, stats=stats, samples=samples)

    def _means(self) -> Iterator[Any]:
        """Yield the panel's mean first: Inspect's list of logs shows the first score of each."""
        from inspect_ai.log import EvalMetric, EvalScore

        rows = self.run.scores(subject=self.subject, dimension=self.dimension).to_pylist()
        for row in sorted(rows, key=lambda row: row["judge"] != PANEL):
            if row["mean"] is not None:
                metric = EvalMetric(name=METRIC, value=row["mean"])
                yield EvalScore(name=row["judge"], scorer=row["judge"], metrics={METRIC: metric})

    def _sample(self, test: ChosenTest, answer: Answer, response: Response) -> EvalSample:
        """Return a sample. Texts that are not shared are empty (Inspect allows no null) and named in the metadata."""
        from inspect_ai.log import EvalError, EvalSample
        from inspect_ai.model import ModelOutput

        text, reason = ("", "") if self._left_out(Texts.ANSWERS) else (response.text, response.reason)
        failed = EvalError(message=reason, traceback="", traceback_ansi="")
        scored = (verdict for verdict in answer.verdicts if verdict.score is not None)
        shown = {} if self._left_out(Texts.QUERIES) else {"context": test.context}
        left_out = [str(texts) for texts in (Texts.QUERIES, Texts.ANSWERS, Texts.WORDING) if self._left_out(texts)]
        return EvalSample(
            id=test.id,
            epoch=answer.sample + 1,
            input="" if self._left_out(Texts.QUERIES) else test.prompt,
            target="",
            messages=list(self._messages(test, response)),
            output=ModelOutput.from_content(response.model_reported or answer.subject, text),
            scores={f"{v.judge}#{v.replicate}" if v.replicate else v.judge: self._score(v) for v in scored},
            model_usage=_usage(_rows(Transcript(test, (answer,)))),
            metadata={
                "dimension": test.dimension,
                "state": str(response.state),
                **shown,
                **({"left_out": left_out} if left_out else {}),
            },
            error=None if response.state is State.OK else failed,
        )

    def _messages(self, test: ChosenTest, response: Response) -> Iterator[ChatMessage]:
        from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

        own = next((each.system for each in self.run.record.sweep.subjects if each.name == self.subject), "")
        system = "" if self.sharing.without_system(self.dimension) else whole_system(own, test)
        if system:
            yield ChatMessageSystem(content=system)
        if not self._left_out(Texts.QUERIES):
            yield ChatMessageUser(content=test.prompt)
        if not self._left_out(Texts.ANSWERS):
            yield ChatMessageAssistant(content=response.text, model=response.model_reported or None)

    def _left_out(self, texts: Texts) -> bool:
        if texts is Texts.ANSWERS:
            return self.sharing.without_answers(self.dimension, self.subject)
        return self.sharing.without(texts, self.dimension)

    def _score(self, verdict: Verdict) -> Score:
        from inspect_ai.scorer import Score

        assert verdict.score is not None
        is_left_out = self.sharing.without_assessments(verdict.judge, self.dimension, self.subject)
        return Score(
            value=verdict.score / 10,
            answer=None if verdict.issues is None else " ".join(verdict.issues),
            explanation=None if is_left_out else verdict.assessment,
            metadata={"score": verdict.score, "rater": str(verdict.kind)},
        )


def _rows(transcript: Transcript) -> Iterator[tuple[str, Response | Verdict]]:
    """Yield the responses and verdicts on a test, with the names of their subjects and judges."""
    for answer in transcript.answers:
        if answer.response is not None:
            yield answer.subject, answer.response
        yield from ((verdict.judge, verdict) for verdict in answer.verdicts)


def _usage(rows: Iterable[tuple[str, Response | Verdict]]) -> dict[str, ModelUsage]:
    """Sum the known token counts by subject and judge."""
    from inspect_ai.model import ModelUsage

    usages: dict[str, ModelUsage] = {}
    for name, row in rows:
        if row.input_tokens is not None and row.output_tokens is not None:
            total = row.input_tokens + row.output_tokens
            usage = ModelUsage(input_tokens=row.input_tokens, output_tokens=row.output_tokens, total_tokens=total)
            usages[name] = usages[name] + usage if name in usages else usage
    return usages
