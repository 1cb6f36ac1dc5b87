"""Verdicts that come malformed: those that can be read give the truth, the others are asked again, and no score."""

import json
from collections.abc import Collection
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from hab_ray.rehearse.profile import Play
from hab_ray.rehearse.trouble import Trouble
from hab_ray.results import open_run
from hab_ray.rows import State, Verdict, from_table
from hab_ray.stages.method.judge import JudgeStage
from hab_ray.stages.replies import verdicts
from hab_ray.stages.replies.reading import Named, Unreadable, named_letters
from hab_simulator import Malformed
from hab_simulator.truth.malformed import written
from tests.rehearse.conftest import StageOf
from tests.rehearse.mutants import then

ROUGH = Malformed(prose=0.15, fenced=0.15, thinking=0.2, two_objects=0.2, broken_off=0.2)


def first_object(text: str, key: str, allowed: Collection[str]) -> Named:
    """Mutant of `named_letters`: the first JSON object counts."""
    try:
        found, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
        return Named(tuple(found[key]), "")
    except (ValueError, KeyError):
        raise Unreadable("it holds no verdict") from None


def scored_0(found: Any) -> Any:
    """Mutant of a stage's verdict: what cannot be read is scored 0."""
    is_unread = isinstance(found, Verdict) and found.state is State.UNREADABLE
    return replace(found, state=State.OK, issues=(), score=0) if is_unread else found


def test_what_can_be_read_is_recovered_and_the_rest_is_in_no_mean(
    stage: StageOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    rough = stage(Play(seed=1, trouble=Trouble(verdicts=ROUGH)))
    done = rough.rehearse()
    assert done.passed, [*done.comparison.rows.wrong, *done.comparison.wrong_cells]
    rows = from_table(Verdict, open_run(rough.work.run_path).verdicts())
    assert {(row.state, row.asks) for row in rows} == {(State.OK, 1), (State.OK, 2), (State.UNREADABLE, 2)}
    with monkeypatch.context() as patch:
        patch.setattr(verdicts, "named_letters", first_object)
        rough.settle()
        found = rough.compare_stored()
        assert not found.passed and any("planted without a score" in row for row in found.rows.wrong)
    then(JudgeStage, "parse", scored_0)(monkeypatch)
    rough.settle()
    found = rough.compare_stored()
    assert not found.passed and any("score 0, planted without" in row for row in found.rows.wrong)


@pytest.mark.parametrize("seed", range(30))
def test_why_a_broken_reply_cannot_be_read_does_not_depend_on_its_words(seed: int) -> None:
    reasons = set()
    for words in ("Short.", "The answer names no source for what it says. " * 9):
        value = {"assessment": words, "issues": ["A"]}
        said = written(value, "issues", "AB", Malformed(broken_off=1.0), Random(seed))
        with pytest.raises(Unreadable) as caught:
            named_letters(said.text, "issues", "AB")
        reasons.add(str(caught.value))
    assert len(reasons) == 1
