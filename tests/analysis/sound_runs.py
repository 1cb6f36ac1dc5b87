"""A run without a fault, in which tests plant trouble, and its findings."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from hab_ray.analysis.marks import OVERALL
from hab_ray.analysis.signs.finding import Finding
from hab_ray.analysis.tables.trust.findings import findings
from hab_ray.analysis.tables.trust.people import PeopleAgreed
from hab_ray.rows import Verdict
from hab_ray.stages.replies.verdicts import score as points_left
from hab_ray.work import Work
from tests.small_runs import MakeRun, Shape, revise, summary_of, verdict_files

DIMENSIONS, SUBJECTS, JUDGES = ("ask_clarifying_questions", "correct_misinformation"), ("good", "poor"), ("one", "two")
FIRST, TESTS = DIMENSIONS[0], 12


def change(work: Work, verdict: Callable[[Verdict], Verdict], judges: Sequence[str] = JUDGES) -> None:
    """Change the verdicts of some judges, whose scores then follow from their issues."""

    def scored(row: Verdict) -> Verdict:
        made = verdict(row)
        rubric = work.rubrics[row.dimension]
        return made if made.issues is None else replace(made, score=points_left(rubric, made.issues))

    revise(work, Verdict, scored, *verdict_files(work, *judges))


def sound(make_run: MakeRun, judges: tuple[str, ...] = JUDGES, tests: int = TESTS) -> Work:
    """A run without a fault but that its tests were given: judges agree, one subject is better."""
    work = make_run(Shape(subjects=SUBJECTS, judges=judges, dimensions=DIMENSIONS, tests=tests))

    def truth(row: Verdict) -> Verdict:
        random = Random(f"{row.test_id} {row.subject}")
        likely = 0.8 if row.subject == "poor" else 0.05
        named = tuple(letter for letter in work.rubrics[row.dimension].issue_letters()[1:3] if random.random() < likely)
        return replace(row, issues=named, assessment=f"{row.judge} on {row.subject} in {row.test_id}")

    change(work, truth, judges)
    return work


def kinds(work: Work) -> set[str]:
    return {finding.kind for finding in findings(summary_of(work))}


def finding(work: Work, kind: str) -> Finding:
    (found,) = (one for one in findings(summary_of(work)) if one.kind == kind)
    return found


def among(alpha: float | None, low: float | None, high: float | None, answers: int = 50) -> PeopleAgreed:
    return PeopleAgreed(OVERALL, None, None, None, answers, 3, None, alpha, low, high, None, None, None, False)
