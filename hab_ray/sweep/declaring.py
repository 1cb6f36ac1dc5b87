"""Records the analysis that a sweep declares, before any call is sent."""

from datetime import datetime
from typing import Any

from hab_ray.config.preregistration import Declaration, Existing, changed_sections
from hab_ray.rows import Response, State, Verdict
from hab_ray.stages.views import responses_file
from hab_ray.storage.record import amend_record, read_record
from hab_ray.storage.replies.store import Store
from hab_ray.work import Shard, Work


def declare(work: Work, store: Store, now: datetime) -> str | None:
    """Record the sweep's analysis if it differs from the last one declared, and return a note for the user.

    Write the run's given tests and answers first: the record counts the rows that exist already.
    """
    record, plan = read_record(work.run_path), work.sweep.analysis
    if record is None:
        return None
    last = record.declarations[-1] if record.declarations else None
    last_sha256, sha256 = last.sha256 if last else None, plan.sha256 if plan else None
    if sha256 == last_sha256:
        return None
    declaration = Declaration(
        at=now,
        sha256=sha256,
        replaces=last_sha256,
        changed=changed_sections(last.plan, plan) if last else (),
        existing=_existing(work, store),
        plan=plan,
    )
    amend_record(work.run_path, declarations=(*record.declarations, declaration))
    return _note(declaration) if last or declaration.existing.has_results else None


def _existing(work: Work, store: Store) -> Existing:
    """Count the rows that exist, also those that another run paid for: runs may share a store."""
    given = work.sweep.responses.subjects if work.sweep.responses else ()
    responses = [shard for shard in work.shards() if shard.spec.row is Response]
    on_given = [shard for shard in work.shards() if shard.spec.row is Verdict and shard.subject in given]
    files = [responses_file(subject, dimension) for subject in given for dimension in work.rubrics]
    return Existing(
        answers=sum(_answered(work, store, shard) for shard in responses),
        given=sum(work.run.count(file) or 0 for file in files),
        verdicts=sum(_answered(work, store, shard) for shard in on_given),
    )


def _answered(work: Work, store: Store, shard: Shard) -> int:
    """Count the answered rows of a shard in the store or in its view, whichever has more."""
    stored = work.settled(shard, work.tasks(shard), store).rows
    row_type: type[Any] = shard.spec.row
    viewed = work.run.read(row_type, shard.file)
    return max(sum(row.state is not State.FAILED for row in rows) for rows in (stored, viewed))


def _note(declaration: Declaration) -> str:
    if declaration.replaces is None:
        return f"analysis: declared when {declaration.existing} existed; the report says so"
    sections = ", ".join(declaration.changed) or "declared again"
    change = "taken back" if declaration.plan is None else f"changed ({sections})"
    return f"analysis: {change} when {declaration.existing} existed; the report lists it"
