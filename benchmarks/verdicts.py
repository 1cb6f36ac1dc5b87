"""What the stages read out of fuzzed replies, beside an independent scorer of the same rules.

    python benchmarks/verdicts.py                          60,000 replies
    python benchmarks/verdicts.py --replies 6000 --seed 1 --shown 20

Ends with status 1 where the two differ. Shown are the first differences, by the seed that makes each again.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from random import Random

from benchmarks.replies import Grammar
from hab_ray.calls import Finish, Reply, Usage
from hab_ray.catalog.models import Model, ModelEntry
from hab_ray.config.sections import Generate, Judge, Validate
from hab_ray.rows import Candidate, ChosenTest, Response, State, Verdict
from hab_ray.rubric import Rubric, load_rubrics, read_library
from hab_ray.stages.method.generate import CandidateTask, GenerateStage
from hab_ray.stages.method.judge import JudgeStage
from hab_ray.stages.method.validate import ValidateStage
from hab_ray.stages.prompts.wording import load_prompts
from hab_ray.stages.verdict_rows import VerdictTask
from tests.stages.verdict_rules import Nothing, read_letters, read_list, whole

REPLIES = 60_000
TRUNCATED = 0.05
PER_CALL = 3
DIMENSION = "ask_clarifying_questions"
TEXT = "Of what?"
MODEL = Model("some-model", ModelEntry(provider="vendor", wire="wire"))
Said = tuple[str, ...] | None
"""The letters and the assessment, or the prompts; None where nothing was read."""


@dataclass(frozen=True)
class Reader:
    """A stage's reading and the scorer's, of the same list; it is drawn as often as its weight says."""

    key: str
    letters: tuple[str, ...]
    read: Callable[[Reply], Said]
    expected: Callable[[str, bool], Said]
    weight: int


@dataclass(frozen=True)
class Difference:
    """A reply that the two read otherwise."""

    key: str
    seed: str
    text: str
    read: Said
    expected: Said


def reply(text: str, truncated: bool) -> Reply:
    """A model's reply."""
    finish = Finish.TRUNCATED if truncated else Finish.OK
    return Reply("k", finish, Usage(), 0, "wire", "", "", datetime(2026, 11, 1, tzinfo=UTC), text=text)


@cache
def readers() -> tuple[Reader, ...]:
    """The stages that read lists out of replies, each beside its rules: of every rubric, of one the queries."""
    rubrics = load_rubrics()
    of_rubrics = (reader for rubric in rubrics.values() for reader in (_judging(rubric), _validating(rubric)))
    return (*of_rubrics, _generating(rubrics[DIMENSION]))


def _judging(rubric: Rubric) -> Reader:
    stage = JudgeStage(rubric, load_prompts(), Judge(model=MODEL.name, name="judge"), MODEL)
    response = Response("t", rubric.id, "subject", 0, State.OK, TEXT, "ok", "{}", "m", "", "", "k")
    asked_again = VerdictTask(ChosenTest("t", rubric.id, "What?", "", "", None), response, ask=1)
    issues = rubric.issue_letters()

    def judged(given: Reply) -> Said:
        found = stage.parse(asked_again, given)
        if not isinstance(found, Verdict) or found.issues is None:
            return None
        return (*found.issues, found.assessment)

    return Reader("issues", issues, judged, lambda text, cut: _letters(text, "issues", issues, cut), weight=3)


def _validating(rubric: Rubric) -> Reader:
    stage = ValidateStage(rubric, load_prompts(), MODEL, Validate(model=MODEL.name, keep=1))
    candidate = Candidate("c", rubric.id, State.OK, "What?", "", "", "", "k")
    criteria = tuple(criterion.letter for criterion in rubric.criteria)

    def validated(given: Reply) -> Said:
        found = stage.parse(candidate, given)
        return (*found.deductions, found.reason) if found.state is State.OK else None

    return Reader("deductions", criteria, validated, lambda text, cut: _letters(text, "deductions", criteria, cut), 1)


def _generating(rubric: Rubric) -> Reader:
    given = Generate(model=MODEL.name, candidates=PER_CALL, per_call=PER_CALL)
    stage = GenerateStage(rubric, read_library().shown_themes(), load_prompts(), MODEL, given, 0)

    def generated(given: Reply) -> Said:
        found = [stage.parse(CandidateTask(0, index), given) for index in range(PER_CALL)]
        prompts = tuple(candidate.prompt if candidate.state is State.OK else "" for candidate in found)
        return prompts if any(prompts) else None

    return Reader("queries", rubric.issue_letters(), generated, _prompts, weight=6)


def _letters(text: str, key: str, allowed: tuple[str, ...], truncated: bool) -> Said:
    try:
        found = read_letters(text, key, allowed, truncated)
    except Nothing:
        return None
    return (*found.letters, found.assessment)


def _prompts(text: str, truncated: bool) -> Said:
    try:
        members = read_list(text, "queries", truncated)
    except Nothing:
        return None
    texts = [member.get("prompt") if isinstance(member, dict) else None for member in members]
    prompts = [whole(text).strip() if isinstance(text, str) else "" for text in [*texts, *[None] * PER_CALL][:PER_CALL]]
    return tuple(prompts) if any(prompts) else None


def differences(count: int, seed: int, told: Counter[str]) -> Iterator[Difference]:
    """Every reply of so many that is read otherwise than by the rules; `told` counts what the rules read of each."""
    for number in range(count):
        label = f"{seed}/{number}"
        random = Random(label)
        reader = random.choices(readers(), [reader.weight for reader in readers()])[0]
        text = Grammar(random, reader.key, reader.letters).reply()
        truncated = random.random() < TRUNCATED
        expected = reader.expected(text, truncated)
        told[f"{reader.key} {'unreadable' if expected is None else 'readable'}"] += 1
        read = reader.read(reply(text, truncated))
        if read != expected:
            yield Difference(reader.key, label, text, read, expected)


def main() -> int:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replies", type=int, default=REPLIES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shown", type=int, default=5)
    asked = parser.parse_args()
    told: Counter[str] = Counter()
    found = list(differences(asked.replies, asked.seed, told))
    for one in found[: asked.shown]:
        print(f"{one.key} {one.seed}: {json.dumps(one.text)}\n  read {one.read!r}\n  by the rules {one.expected!r}")
    for name in sorted(told):
        print(f"{name:<24}{told[name]:8}{100 * told[name] / asked.replies:8.1f} %")
    print(f"{'differences':<24}{len(found):8}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
