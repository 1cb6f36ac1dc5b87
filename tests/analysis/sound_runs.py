"""A run without a fault, in which tests plant trouble, and its findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from hab_ray.analysis.marks import OVERALL
from hab_ray.analysis.signs.finding import Finding
from hab_ray.analysis.summary import summarise
from hab_ray.analysis.tables.people import PeopleAgreed
from hab_ray.analysis.tables.trust.findings import findings
from hab_ray.results import open_run
from hab_ray.rows import Verdict
from hab_ray.stages.replies.verdicts import score as points_left
from hab_ray.stages.views import verdicts_file
from hab_ray.work import Work
from tests.small_runs import Shape

DIMENSIONS, SUBJECTS, JUDGES = ("ask_clarifying_questions", "correct_misinformation"), ("good", "poor"), ("one", "two")
FIRST, TESTS = DIMENSIONS[0], 12
MakeRun = Callable[[Shape], Work]
Change = Callable[[Verdict], Verdict]


def change(work: Work, verdict: Change, judges: Sequence[str] = JUDGES, dimensions: Sequence[str] = DIMENSIONS) -> None:
    """Change the verdicts of some judges, whose scores then follow from their issues."""
    for judge in judges:
        for subject in work.sweep.subject_names:
            for dimension in dimensions:
                file = verdicts_file(judge, subject, dimension)
                made = [verdict(row) for row in work.run.read(Verdict, file)]
                rubric = work.rubrics[dimension]
                scored = [r if r.issues is None else replace(r, score=points_left(rubric, r.issues)) for r in made]
                work.run.write(Verdict, file, scored)


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
    return {finding.kind for finding in findings(summarise(open_run(work.run_path)))}


def finding(work: Work, kind: str) -> Finding:
    (found,) = (one for one in findings(summarise(open_run(work.run_path))) if one.kind == kind)
    return found


def among(alpha: float | None, low: float | None, high: float | None, answers: int = 50) -> PeopleAgreed:
    return PeopleAgreed(OVERALL, None, None, None, answers, 3, None, alpha, low, high, None, None, None, False)
