"""The status of each row, and the counts with their reasons."""

from dataclasses import replace

from hab_ray.analysis.marks import RowIndex
from hab_ray.analysis.row_status import MissingReason, StatusCount, count_statuses, row_statuses
from hab_ray.rows import State
from tests.analysis.conftest import answer, settings, verdict


def test_each_row_has_one_status() -> None:
    asked = settings(tests={"d1": 5})
    rows = [
        answer("d1-0"),
        answer("d1-1", state=State.BLOCKED, reason="policy"),
        answer("d1-2"),
        answer("d1-3", finish="truncated"),
    ]
    read = [verdict("d1-0", 5), verdict("d1-3", None, reason="no JSON")]
    found = [(f.judge, f.row.test_id, f.state, f.reason) for f in row_statuses(RowIndex.of(rows, read), asked)]
    assert found == [
        (None, "d1-0", State.OK, ""),
        (None, "d1-1", State.BLOCKED, "policy"),
        (None, "d1-2", State.OK, ""),
        (None, "d1-3", State.OK, ""),
        (None, "d1-4", MissingReason.OPEN, "no answer so far"),
        ("j", "d1-0", State.OK, ""),
        ("j", "d1-2", MissingReason.OPEN, "no verdict yet"),
        ("j", "d1-3", State.UNREADABLE, "no JSON"),
    ]


def test_an_answer_that_its_file_lacks_is_not_open_as_no_run_will_bring_it() -> None:
    asked = replace(settings("s", "asked", tests={"d1": 1}), given=frozenset({"s"}))
    found = [(f.row.subject, f.state) for f in row_statuses(RowIndex.of([], []), asked)]
    assert found == [("s", MissingReason.NOT_GIVEN), ("asked", MissingReason.OPEN)]


def test_every_replicate_has_a_status_of_its_own() -> None:
    read = [verdict("d1-0", 5), verdict("d1-0", None, reason="no JSON", replicate=2)]
    found = row_statuses(RowIndex.of([answer("d1-0")], read), settings(tests={"d1": 1}, replicates=3))
    assert [f.judge for f in found] == [None, "j", "j", "j"]
    assert [f.state for f in found] == [State.OK, State.OK, MissingReason.OPEN, State.UNREADABLE]


def test_truncated_answers_are_named_when_they_are_left_out() -> None:
    asked = replace(settings(), truncated="exclude")
    rows = [answer("d1-0", finish="truncated"), answer("d1-1")]
    found = row_statuses(RowIndex.of(rows, [verdict("d1-0", 5), verdict("d1-1", 5)]), asked)
    assert [(f.judge, f.state) for f in found] == [(None, MissingReason.TRUNCATED), (None, State.OK), ("j", State.OK)]


def test_a_count_keeps_the_most_frequent_reasons() -> None:
    asked = settings(tests={"d1": 8})
    reasons = ("b", "a", "b", "c", "b", "d", "a", "")
    rows = [answer(f"d1-{i}", state=State.FAILED, reason=reason) for i, reason in enumerate(reasons)]
    found = row_statuses(RowIndex.of(rows, []), asked)
    assert count_statuses(found) == [StatusCount(None, "s", "d1", State.FAILED, 8, ("b", "a", "c"), tuple(found[:5]))]


def test_a_tally_of_scored_rows_keeps_none_of_them() -> None:
    assert [
        t.first
        for t in count_statuses(row_statuses(RowIndex.of([answer("d1-0"), answer("d1-1")], []), settings()))
        if t.judge is None
    ] == [()]
