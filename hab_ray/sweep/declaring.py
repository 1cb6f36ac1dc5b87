"""Keeps in a run's record which analysis its sweep declares, before anything is asked."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hab_ray.config.preregistration import Declaration, Existing, changed_sections
from hab_ray.rows import Response, State, Verdict
from hab_ray.stages.views import responses_file
from hab_ray.storage.record import amend_record, read_record
from hab_ray.storage.replies.store import Store
from hab_ray.work import Shard, Work


def declare(work: Work, store: Store, now: datetime) -> str | None:
    """Record the sweep's analysis where it is another than was declared last; what there is to say of that.

    The run's given tests and answers must be in their places: what is answered already is counted with the record.
    """
    record, plan = read_record(work.run_path), work.sweep.analysis
    if record is None:
        return None
    last = record.declarations[-1] if record.declarations else None
    before, digest = last.plan if last else None, plan.sha256 if plan else None
    if digest == (last.sha256 if last else None):
        return None
    made = Declaration(
        at=now,
        sha256=digest,
        replaces=last.sha256 if last else None,
        changed=changed_sections(before, plan) if last else (),
        existing=_existing(work, store),
        plan=plan,
    )
    amend_record(work.run_path, declarations=(*record.declarations, made))
    return _note(made) if last or made.existing.has_results else None


def _existing(work: Work, store: Store) -> Existing:
    """What is there, whoever asked for it: the store may be shared."""
    given = work.sweep.responses.subjects if work.sweep.responses else ()
    asked = [shard for shard in work.shards() if shard.spec.row is Response]
    on_given = [shard for shard in work.shards() if shard.spec.row is Verdict and shard.subject in given]
    files = [responses_file(subject, dimension) for subject in given for dimension in work.rubrics]
    return Existing(
        answers=sum(_rows(work, store, shard) for shard in asked),
        given=sum(work.run.count(file) or 0 for file in files),
        verdicts=sum(_rows(work, store, shard) for shard in on_given),
    )


def _rows(work: Work, store: Store, shard: Shard) -> int:
    """How many of a shard's rows were answered, as the store or the shard's view has it."""
    stored = work.settled(shard, work.tasks(shard), store).rows
    row_type: type[Any] = shard.spec.row
    viewed = work.run.read(row_type, shard.file)
    return max(sum(row.state is not State.FAILED for row in rows) for rows in (stored, viewed))


def _note(made: Declaration) -> str:
    if made.replaces is None:
        return f"analysis: declared when {made.existing} existed; the report says so"
    changed = "taken back" if made.plan is None else f"changed ({', '.join(made.changed) or 'declared again'})"
    return f"analysis: {changed} when {made.existing} existed; the report lists it"
