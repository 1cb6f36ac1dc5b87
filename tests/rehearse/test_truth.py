"""What a rehearsal expects of rows that are not as simple as most."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from hab_ray.rehearse.profile import digest
from hab_ray.rehearse.truth import Truth
from hab_ray.rows import Candidate, State
from hab_ray.stages.views import candidates_file
from tests.small_runs import MakeRun, Shape

DIMENSION = "correct_misinformation"


def test_a_test_belongs_to_the_call_of_the_candidate_that_was_not_rejected_as_its_repeat(make_run: MakeRun) -> None:
    work = make_run(Shape(dimensions=(DIMENSION,)))
    first = Candidate(f"{DIMENSION}-00000-0", DIMENSION, State.OK, "Why?", "", "bees", "", "a")
    repeat = replace(first, id=f"{DIMENSION}-00001-0", state=State.REJECTED, reason="a repeat", reply_key="b")
    equal = replace(first, id=f"{DIMENSION}-00002-0", reply_key="c")  # `deduplicate: off` keeps it
    work.run.write(Candidate, candidates_file(DIMENSION), [first, repeat, equal])
    silent: Any = SimpleNamespace(answers=list, verdicts=list, manners=list)
    assert Truth.of(work, silent).calls[DIMENSION] == {digest("Why?"): f"{DIMENSION}-00000"}
