"""Reads a run's views for permanently failed rows, and for models, subjects and judges without a usable row."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hab_ray.progress import FailedRows, RowReason
from hab_ray.rows import State
from hab_ray.stages.graph import Shard
from hab_ray.storage.replies.parts import part_columns
from hab_ray.work import Work

REASONS_SHOWN = 3
_IDS = ("id", "candidate_id", "test_id", "sample", "replicate")


@dataclass
class _Rows:
    """Row counts of a stage and model, or of a stage on one subject: by state, and failures by reason."""

    states: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class FailureReport:
    """Permanently failed `rows`, their counts by stage and model, and messages on groups without a usable row."""

    rows: tuple[RowReason, ...] = ()
    failed: tuple[FailedRows, ...] = ()
    without_ok: tuple[str, ...] = ()


def failure_report(work: Work) -> FailureReport:
    """Read the states of all rows that come from calls.

    Raises:
        DamagedFile: a view cannot be read.
    """
    by_model: dict[tuple[str, str], _Rows] = defaultdict(_Rows)
    by_subject: dict[tuple[str, str], _Rows] = defaultdict(_Rows)
    failed_rows: list[RowReason] = []
    for shard, table in _views(work):
        states = Counter(table["state"].to_pylist())
        failed = table.filter(pc.equal(table["state"], State.FAILED.value)).to_pylist()
        failed_rows += [RowReason(shard.file, _row_id(row), row["reason"]) for row in failed]
        for rows in (by_model[shard.stage, shard.name], by_subject[shard.stage, shard.subject]):
            rows.states += states
            rows.reasons.update(row["reason"] for row in failed)
    return FailureReport(
        rows=tuple(failed_rows),
        failed=tuple(
            FailedRows(stage, name, rows.states[State.FAILED], tuple(rows.reasons.most_common(REASONS_SHOWN)))
            for (stage, name), rows in by_model.items()
            if rows.reasons
        ),
        without_ok=(
            *(_without_ok(stage, f"of {name}", rows) for (stage, name), rows in by_model.items() if not _is_ok(rows)),
            *(
                _without_ok(stage, f"on {subject}", rows)
                for (stage, subject), rows in by_subject.items()
                if subject and not _is_ok(rows)
            ),
        ),
    )


def _views(work: Work) -> Iterator[tuple[Shard, pa.Table]]:
    folder = work.run.folder
    for shard in work.shards():
        if shard.spec.makes_calls and shard.spec.has_view and folder.exists(shard.file):
            yield shard, part_columns(folder, shard.file, ["state", "reason", *_IDS])


def _row_id(row: Mapping[str, Any]) -> str:
    return "#".join(str(row[name]) for name in _IDS if name in row and (name != "replicate" or row[name]))


def _is_ok(rows: _Rows) -> bool:
    return not rows.states or rows.states[State.OK] > 0


def _without_ok(stage: str, of_or_on: str, rows: _Rows) -> str:
    states = ", ".join(f"{count} {state}" for state, count in rows.states.most_common())
    return f"{stage}: none of the {rows.states.total():,} rows {of_or_on} can be used ({states})"
