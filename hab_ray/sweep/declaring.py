"""Keeps in a run's record which analysis its sweep declares, before anything is asked."""

from __future__ import annotations

from datetime import datetime

from hab_ray.preregistration import Declaration, changed_sections
from hab_ray.resolve import keep_declaration, read_record
from hab_ray.rows import Response, State
from hab_ray.stages.respond import responses_file
from hab_ray.storage.store import Store
from hab_ray.work import Work


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
        answers=_answers(work, store),
        plan=plan,
    )
    keep_declaration(work, made)
    return _note(made) if last or made.answers else None


def _answers(work: Work, store: Store) -> int:
    """How many answers are in the run or in the store, whoever asked for them, and how many are given."""
    asked = (shard for shard in work.shards() if shard.spec.row is Response)
    total = 0
    for shard in asked:
        stored, viewed = work.settled(shard, work.tasks(shard), store).rows, work.run.read(Response, shard.file)
        total += max(sum(row.state is not State.FAILED for row in rows) for rows in (stored, viewed))
    given = work.sweep.responses.subjects if work.sweep.responses else ()
    return total + sum(work.run.count(responses_file(name, each)) or 0 for name in given for each in work.rubrics)


def _note(made: Declaration) -> str:
    if made.replaces is None:
        return f"analysis: declared when {made.answers:,} answers existed; the report says so"
    changed = "taken back" if made.plan is None else f"changed ({', '.join(made.changed) or 'declared again'})"
    return f"analysis: {changed} when {made.answers:,} answers existed; the report lists it"
