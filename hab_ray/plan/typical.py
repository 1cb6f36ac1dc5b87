"""What stands in for texts that do not exist yet, and how long answers are taken to be.

The lengths are assumptions, meant to be a little high: 150 words are about 200 tokens, a seed query about as many,
a verdict or validation is an assessment of a few sentences and some letters, and a model that thinks spends about
`THINKING_TOKENS` before it answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from hab_ray.catalog import ModelEntry, Thinking
from hab_ray.config import Generate
from hab_ray.rows import Candidate, ChosenTest, Response, State
from hab_ray.rubric import Rubric
from hab_ray.stages.judge import VerdictTask
from hab_ray.stages.select import seed_tests
from hab_ray.work import StageName

T = TypeVar("T")

BYTES_A_TOKEN = 4
THINKING_TOKENS = 600
ANSWER_TOKENS: Mapping[StageName, int] = {
    StageName.GENERATE: 200,
    StageName.VALIDATE: 200,
    StageName.SELECT: 0,
    StageName.RESPOND: 300,
    StageName.JUDGE: 250,
}


@dataclass(frozen=True)
class Material(Generic[T]):
    """What a stage works on: what is there, and how many more will come, like `typical` and at most like `longest`."""

    known: Sequence[T]
    to_come: int = 0
    typical: Sequence[T] = ()
    longest: Sequence[T] = ()

    @property
    def count(self) -> int:
        """How many there will be."""
        return len(self.known) + self.to_come


def answer_tokens(stage: StageName, entry: ModelEntry, limit: int, queries: int) -> int:
    """The output tokens a call is taken to need; `queries` is how many a call of generation asks for."""
    visible = ANSWER_TOKENS[stage] * (queries if stage is StageName.GENERATE else 1)
    thinking = 0 if entry.thinking is Thinking.NONE else min(THINKING_TOKENS, entry.thinking_reserve)
    return min(visible, limit) + thinking


def coming_candidates(rubric: Rubric, settings: Generate, count: int) -> Material[Candidate]:
    """Candidates that are still to be generated: like the rubric's seeds, at most a whole reply each."""
    longest = _text(settings.max_tokens)
    return Material(
        known=(),
        to_come=count,
        typical=[_candidate(rubric, test.prompt, test.context) for test in seed_tests(rubric)],
        longest=[_candidate(rubric, longest, longest if rubric.context else "")],
    )


def coming_tests(rubric: Rubric, candidates: Material[Candidate]) -> Material[ChosenTest]:
    """Tests that are still to be chosen from such candidates."""
    typical, longest = _tests(rubric, candidates.typical), _tests(rubric, candidates.longest)
    return Material((), candidates.to_come, typical, longest)


def _tests(rubric: Rubric, candidates: Sequence[Candidate]) -> list[ChosenTest]:
    return [ChosenTest(c.id, rubric.id, c.prompt, c.context, rubric.system, None) for c in candidates]


def verdicts_to_come(tests: Sequence[ChosenTest], answer_tokens: int) -> list[VerdictTask]:
    """Verdicts on responses that are still to be given, one a test, each of so many tokens."""
    return [VerdictTask(test, _response(test, _text(answer_tokens))) for test in tests]


def _text(tokens: int) -> str:
    return "x" * (tokens * BYTES_A_TOKEN)


def _candidate(rubric: Rubric, prompt: str, context: str) -> Candidate:
    return Candidate("", rubric.id, State.OK, prompt, context, theme="", reason="", reply_key="")


def _response(test: ChosenTest, text: str) -> Response:
    return Response(
        test_id=test.id,
        dimension=test.dimension,
        subject="",
        sample=0,
        state=State.OK,
        text=text,
        finish="",
        settings="",
        model_reported="",
        served_by="",
        reason="",
        reply_key="",
    )
