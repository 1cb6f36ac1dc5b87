"""What a rehearsal expects of rows that are not as simple as most."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hab_ray.rehearse.profile import digest
from hab_ray.rehearse.reader import RunReader
from hab_ray.rehearse.stability import wrong_generalisability
from hab_ray.rehearse.truth import Truth
from hab_ray.rows import Candidate, ChosenTest, State, Verdict
from hab_ray.stages.views import candidates_file, verdicts_file
from hab_ray.work import Work
from tests.small_runs import MakeRun, Shape, summary_of

DIMENSION = "correct_misinformation"


def truth_of(work: Work) -> Truth:
    """What a rehearsal expects if the simulator has answered nothing."""
    silent: Any = SimpleNamespace(answers=list, verdicts=list, manners=list)
    return Truth(work, silent)


def test_a_test_belongs_to_the_call_of_the_candidate_that_was_not_rejected_as_its_repeat(make_run: MakeRun) -> None:
    work = make_run(Shape(dimensions=(DIMENSION,)))
    first = Candidate(f"{DIMENSION}-00000-0", DIMENSION, State.OK, "Why?", "", "bees", "", "a")
    repeat = replace(first, id=f"{DIMENSION}-00001-0", state=State.REJECTED, reason="a repeat", reply_key="b")
    equal = replace(first, id=f"{DIMENSION}-00002-0", reply_key="c")  # `deduplicate: off` keeps it
    work.run.write(Candidate, candidates_file(DIMENSION), [first, repeat, equal])
    assert truth_of(work).calls[DIMENSION] == {digest("Why?"): f"{DIMENSION}-00000"}


@pytest.mark.parametrize("lost", [0, 4])
def test_errors_are_those_of_the_tests_that_all_judges_scored(make_run: MakeRun, lost: int) -> None:
    work = make_run(Shape(judges=("strict", "mild"), tests=12))
    for dimension in work.rubrics:
        tests = work.run.read(ChosenTest, f"tests/{dimension}.parquet")
        made = [
            Candidate(
                f"{dimension}-{at // 3:05d}-{at % 3}", dimension, State.OK, each.prompt, "", "bees", "", str(at // 3)
            )
            for at, each in enumerate(tests)
        ]
        work.run.write(Candidate, candidates_file(dimension), made)
        called = [replace(test, call=row.reply_key) for test, row in zip(tests, made, strict=True)]
        work.run.write(ChosenTest, f"tests/{dimension}.parquet", called)
    file = verdicts_file("mild", "alpha", DIMENSION)
    work.run.write(Verdict, file, work.run.read(Verdict, file)[lost:])
    assert list(wrong_generalisability(RunReader(summary_of(work), truth_of(work).calls))) == []
