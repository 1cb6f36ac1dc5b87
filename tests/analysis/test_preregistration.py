"""What a reader is told of the analysis that was declared."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hab_ray.analysis.preregistration import UNDECLARED, preregistration_status
from hab_ray.config.preregistration import AnalysisPlan, Declaration, Existing
from hab_ray.config.sweep import Sweep
from hab_ray.storage.record import Record

STARTED = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


def plan(alpha: float) -> AnalysisPlan:
    return AnalysisPlan.model_validate({"primary": "overall", "alpha": alpha, "stopping": "fixed"})


def declared(days: int, alpha: float | None, answers: int, **more: Any) -> Declaration:
    new = None if alpha is None else plan(alpha)
    digest = new.sha256 if new else None
    return Declaration(
        at=STARTED + timedelta(days=days), sha256=digest, existing=Existing(answers=answers), plan=new, **more
    )


def record(*listed: Declaration) -> Record:
    sweep = Sweep.model_validate({"name": "x", "subjects": ["lab/a"], "judges": ["lab/j"]})
    return Record(sweep=sweep, as_of={}, hashes={}, versions={}, started=STARTED, declarations=listed)


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        ((declared(0, 0.05, 0),), ["declared on 2026-11-21, before the first answer."]),
        ((declared(2, 0.05, 12),), ["on 2026-11-23, when 12 answers existed", "not declared beforehand", "2026-11-21"]),
        (
            (declared(0, 0.05, 0), declared(1, 0.01, 7)),
            ["before the first answer", "changed once", "when 7 answers existed."],
        ),
        ((declared(0, 0.05, 0), declared(1, 0.01, 7), declared(2, 0.05, 9)), ["changed 2 times", "when 9 answers"]),
        ((declared(0, 0.05, 0), declared(1, None, 7)), ["Exploratory", "taken back on 2026-11-22"]),
    ],
)
def test_the_summary_says_when_it_was_declared_and_kept(listed: tuple[Declaration, ...], told: list[str]) -> None:
    found = preregistration_status(record(*listed))
    assert all(part in found.summary for part in told), found.summary
    assert ("exploratory" in found.summary.lower()) and len(found.changes) == len(listed) - 1
    assert bool(found.declared) == (listed[-1].plan is not None)


@pytest.mark.parametrize(
    ("existing", "told"),
    [
        (Existing(given=12), "before anything was asked; 12 answers were given with the sweep"),
        (Existing(given=12, verdicts=3), "when 0 answers and 3 verdicts on given answers existed already: it was not"),
    ],
)
def test_given_answers_exist_before_and_verdicts_on_them_need_not(existing: Existing, told: str) -> None:
    made = declared(0, 0.05, 0).model_copy(update={"existing": existing})
    assert told in preregistration_status(record(made)).summary


def test_an_edited_plan_is_told_by_its_digest() -> None:
    edited = declared(0, 0.05, 0).model_copy(update={"plan": plan(0.2)})
    assert "sweep.yaml was edited afterwards" in preregistration_status(record(edited)).summary
    assert "edited" not in preregistration_status(record(declared(0, 0.05, 0))).summary


def test_without_one_all_is_exploratory() -> None:
    found = preregistration_status(record())
    assert (found.summary, found.declared, found.changes) == (UNDECLARED, {}, ())


def test_changes_are_listed_with_both_digests() -> None:
    old, new = plan(0.05).sha256, plan(0.01).sha256
    changed = declared(1, 0.01, 7, replaces=old, changed=("alpha",))
    assert preregistration_status(record(declared(0, 0.05, 0), changed)).changes == (changed,) and changed.sha256 == new
