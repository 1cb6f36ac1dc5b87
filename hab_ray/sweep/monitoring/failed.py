"""Finds a run's permanently failed rows, and models, subjects and judges without a usable row.

Rows are read in the views, and those of embeddings, which have no view, in the store.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

import pyarrow.compute as pc

from hab_ray.catalog.models import IF_SUBSTITUTED
from hab_ray.progress import FailedRows, RowReason
from hab_ray.rows import State
from hab_ray.stages.graph import Shard
from hab_ray.storage.folder import open_folder
from hab_ray.storage.replies.parts import part_columns
from hab_ray.storage.replies.records import RecordKind, prefix_of
from hab_ray.storage.replies.store import Store, failed_keys
from hab_ray.work import Work, call_stage, serves_frozen

REASONS_SHOWN = 3
_IDS = ("id", "candidate_id", "test_id", "sample", "replicate")


@dataclass
class _Rows:
    """Row counts of a stage and model, or of a stage on one subject: by state in the views, and failures by reason.

    `substitutes` are the reasons of the `substituted` rows. `final` failures are not worth sending again.
    """

    states: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    substitutes: Counter[str] = field(default_factory=Counter)
    final: int = 0


@dataclass(frozen=True)
class FailureReport:
    """Permanently failed `rows`, their counts by stage and model, and messages on groups without a usable row."""

    rows: tuple[RowReason, ...] = ()
    failed: tuple[FailedRows, ...] = ()
    without_ok: tuple[str, ...] = ()


def failure_report(work: Work) -> FailureReport:
    """Read the states of all rows that come from calls.

    Raises:
        DamagedFile: a view or a file of the store cannot be read.
    """
    by_model: dict[tuple[str, str], _Rows] = defaultdict(_Rows)
    by_subject: dict[tuple[str, str], _Rows] = defaultdict(_Rows)
    failed_rows: list[RowReason] = []
    for shard, states, failed, substitutes in chain(_in_views(work), _without_view(work)):
        failed_rows += [RowReason(shard.file, _row_id(row), row["reason"]) for row in failed]
        by_model[shard.stage, shard.name].final += len(failed) if failed and serves_frozen(work, shard) else 0
        for rows in (by_model[shard.stage, shard.name], by_subject[shard.stage, shard.subject]):
            rows.states += states
            rows.reasons.update(row["reason"] for row in failed)
            rows.substitutes += substitutes
    groups = [(stage, f"of {name}", rows) for (stage, name), rows in by_model.items()]
    groups += [(stage, f"on {subject}", rows) for (stage, subject), rows in by_subject.items() if subject]
    return FailureReport(
        rows=tuple(failed_rows),
        failed=tuple(
            FailedRows(stage, name, rows.reasons.total(), tuple(rows.reasons.most_common(REASONS_SHOWN)), rows.final)
            for (stage, name), rows in by_model.items()
            if rows.reasons
        ),
        without_ok=tuple(_without_ok(*group) for group in groups if group[2].states and not group[2].states[State.OK]),
    )


# The rows of a shard by state, those that failed, and the reasons of those that another model answered.
_Found = tuple[Shard, Counter[str], list[dict[str, Any]], Counter[str]]


def _in_views(work: Work) -> Iterator[_Found]:
    folder = work.run.folder
    for shard in work.shards():
        if shard.spec.makes_calls and shard.spec.has_view and folder.exists(shard.file):
            table = part_columns(folder, shard.file, ["state", "reason", *_IDS])
            failed, substituted = (
                table.filter(pc.equal(table["state"], state.value)) for state in (State.FAILED, State.SUBSTITUTED)
            )
            states, substitutes = Counter(table["state"].to_pylist()), Counter(substituted["reason"].to_pylist())
            yield shard, states, failed.to_pylist(), substitutes


def _without_view(work: Work) -> Iterator[_Found]:
    """Yield the failed rows of shards without a view, whose other rows stay unread in the store."""
    folder = open_folder(work.sweep.store)
    store = Store(folder)
    for shard in work.shards():
        if not shard.spec.makes_calls or shard.spec.has_view:
            continue
        model = work.model(shard).name
        if folder.list(prefix_of(RecordKind.FAILURES, model)):
            tasks = work.tasks(shard)
            keys = [call.key for _, call in call_stage(work, shard).requests(tasks)]
            failing = failed_keys(folder, model, keys, since=0)
            asked = [task for task, key in zip(tasks, keys, strict=True) if key in failing]
            rows = work.settled(shard, asked, store).rows if asked else []
            yield shard, Counter(), [asdict(row) for row in rows if row.state is State.FAILED], Counter()


def _row_id(row: Mapping[str, Any]) -> str:
    return "#".join(str(row[name]) for name in _IDS if name in row and (name != "replicate" or row[name]))


def _without_ok(stage: str, of_or_on: str, rows: _Rows) -> str:
    states = ", ".join(f"{count} {state}" for state, count in rows.states.most_common())
    unusable = f"{stage}: none of the {rows.states.total():,} rows {of_or_on} can be used ({states})"
    if not rows.substitutes:
        return unusable
    ((answered, _),) = rows.substitutes.most_common(1)
    if answered.startswith("answered by ,"):
        return (
            f"{unusable}: the replies name no model, which only earlier versions of hab refused; another `run:` with "
            "the same `store:` uses these replies, and pays for none of them again"
        )
    return f"{unusable}: {answered}; {IF_SUBSTITUTED}"
