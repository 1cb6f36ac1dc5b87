"""Two runs beside each other: pairs over shared tests, independent means without, never one for the other."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hab_ray.analysis.across.comparison import (
    Matching,
    RunDifference,
    SharedTests,
    compare_runs,
    compared_rows,
    describe,
    same_replies,
    settings_apart,
)
from hab_ray.analysis.intervals import interval
from hab_ray.analysis.marks import PANEL, ItemScores
from hab_ray.analysis.pairs import ahead
from hab_ray.analysis.scores import mean_of_tests
from hab_ray.analysis.summary import Summary
from hab_ray.config.changes import Change
from hab_ray.config.sections import Select
from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.results import Run, open_run
from hab_ray.rows import Candidate, ChosenTest, Response, State, Verdict
from hab_ray.stages import views
from hab_ray.stages.views import responses_file, verdicts_file
from hab_ray.storage.record import amend_record, read_record
from hab_ray.storage.run import TEXTS, RunFolder
from hab_ray.work import Work
from tests.small_runs import Shape, answer_files, revise, summary_of, verdict_files, write_run

DIMENSIONS = ("ask_clarifying_questions", "encourage_learning")
SHAPE = Shape(dimensions=DIMENSIONS, tests=12)


def scored(work: Work, score: Callable[[int], float]) -> None:
    """Give every verdict another score, by its place."""
    revise(work, Verdict, lambda row: replace(row, score=score(int(row.test_id[-3:]))), *verdict_files(work))


def renamed(work: Work, dimension: str, first: int) -> None:
    """Ask other tests from a place on, and call the others by other ids, in the reverse order."""
    file = views.tests_file(dimension)
    tests = work.run.read(ChosenTest, file)
    ids = {test.id: f"other-{at}" for at, test in enumerate(tests)}
    changed = [
        replace(test, id=ids[test.id], prompt=test.prompt if at < first else f"{test.prompt} Another one.")
        for at, test in enumerate(tests)
    ]
    work.run.write(ChosenTest, file, changed[::-1])
    revise(work, Response, lambda row: replace(row, test_id=ids.get(row.test_id, row.test_id)), *answer_files(work))
    revise(work, Verdict, lambda row: replace(row, test_id=ids.get(row.test_id, row.test_id)), *verdict_files(work))


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Work, Work]:
    """Two runs of the same tests and answers; the second scores every third answer .2 higher, the others .1."""
    works = write_run(tmp_path / "one", SHAPE), write_run(tmp_path / "two", SHAPE)
    scored(works[0], lambda at: float(at % 7))
    scored(works[1], lambda at: float(at % 7 + (2 if at % 3 == 0 else 1)))
    return works


def summaries(pair: tuple[Work, Work]) -> tuple[Summary, Summary]:
    return summary_of(pair[0]), summary_of(pair[1])


def row(rows: list[RunDifference], dimension: str) -> RunDifference:
    (found,) = (each for each in rows if (each.subject, each.dimension) == ("alpha", dimension))
    return found


STEPS = [0.2 if at % 3 == 0 else 0.1 for at in range(12)]


def test_shared_tests_are_compared_in_pairs_whatever_they_are_called(pair: tuple[Work, Work]) -> None:
    renamed(pair[1], DIMENSIONS[0], first=12)
    rows = compare_runs(*summaries(pair))
    for dimension in DIMENSIONS:
        found, expected = row(rows, dimension), interval(STEPS, range(12), -1.0, 1.0)
        assert (found.matching, found.shared, found.first_alone, found.second_alone) == (Matching.PAIRED, 12, 0, 0)
        assert (found.difference, found.low, found.high) == pytest.approx((expected.mean, expected.low, expected.high))
        assert found.p == pytest.approx(2 / 2**12) and found.holm == pytest.approx(4 / 2**12)
    whole = row(rows, "overall")
    assert whole.matching is Matching.PAIRED and whole.difference == pytest.approx(np.mean(STEPS))


def test_what_one_run_alone_asked_is_counted_and_not_compared(pair: tuple[Work, Work]) -> None:
    renamed(pair[1], DIMENSIONS[0], first=5)
    found = row(compare_runs(*summaries(pair)), DIMENSIONS[0])
    assert (found.matching, found.shared, found.first_alone, found.second_alone) == (Matching.PAIRED, 5, 7, 7)
    assert found.difference == pytest.approx(np.mean(STEPS[:5])) and found.first == pytest.approx(0.2)


def test_a_single_shared_test_has_means_and_no_interval(pair: tuple[Work, Work]) -> None:
    renamed(pair[1], DIMENSIONS[0], first=1)
    rows = compare_runs(*summaries(pair))
    found, whole = (row(rows, each) for each in (DIMENSIONS[0], "overall"))
    assert (found.matching, found.shared, found.first_alone) == (Matching.PAIRED, 1, 11)
    assert (found.first, found.second, found.difference) == pytest.approx((0.0, STEPS[0], STEPS[0]))
    assert (found.low, found.high) == (found.p, found.holm) == (None, None)
    assert whole.matching is Matching.PAIRED and whole.difference is not None and whole.low is whole.p is None


def test_subjects_with_a_single_shared_test_do_not_weaken_the_p_of_others() -> None:
    def part(shared: int) -> SharedTests:
        marks = [np.array([[0.3 + 0.01 * at + step] for at in range(shared)]) for step in (0.0, 0.1)]
        one, other = (ItemScores("any", DIMENSIONS[0], PANEL, own, 0) for own in marks)
        means = mean_of_tests(one), mean_of_tests(other)
        assert means[0] and means[1]
        return SharedTests(shared, (0, 0), (means[0], means[1]), ahead(other, one))

    alone = compared_rows({"many": [part(12)]}, DIMENSIONS[:1])
    beside = compared_rows({"many": [part(12)], "one": [part(1)], "other": [part(1)]}, DIMENSIONS[:1])
    assert beside[0].holm == alone[0].holm == pytest.approx(2 / 2**12)
    assert [row.difference for row in beside] == pytest.approx([0.1] * 3)


def test_without_shared_tests_means_are_independent(pair: tuple[Work, Work]) -> None:
    renamed(pair[1], DIMENSIONS[0], first=0)
    rows = compare_runs(*summaries(pair))
    found, whole = (row(rows, each) for each in (DIMENSIONS[0], "overall"))
    assert (found.matching, found.shared, found.first_alone, found.second_alone) == (Matching.UNPAIRED, 0, 12, 12)
    one, other = (interval([at % 7 / 10 + step for at, step in enumerate(s)], range(12)) for s in ([0.0] * 12, STEPS))
    assert one.low is not None and one.high is not None and other.low is not None and other.high is not None
    low = other.mean - one.mean - sqrt((other.mean - other.low) ** 2 + (one.high - one.mean) ** 2)
    assert (found.difference, found.low) == pytest.approx((np.mean(STEPS), low)) and found.p is None
    assert whole.matching is Matching.MIXED and whole.p is None and whole.holm is None


def test_the_same_replies_are_no_second_measurement(tmp_path: Path) -> None:
    works = write_run(tmp_path / "one", SHAPE), write_run(tmp_path / "two", SHAPE)
    first, second = (open_run(work.run_path) for work in works)
    assert same_replies(first, second).is_copy
    said = list(describe(same_replies(first, second), first, second))
    assert "one is a copy of the other" in said[0] and "48 answers and 48 verdicts are all" in said[1]
    file = verdicts_file("strict", "beta", DIMENSIONS[0])
    rows = works[1].run.read(Verdict, file)
    works[1].run.write(Verdict, file, [replace(rows[0], reply_key="other"), *rows[1:]])
    found = same_replies(first, second)
    assert not found.is_copy and (found.answers, found.verdicts, found.same_verdicts) == (48, 48, 47)
    said = list(describe(replace(found, same_answers=0), first, second))
    assert "none of the 48 answers to shared tests and 47 of the 48 verdicts" in said[-1]
    assert settings_apart(first, second) == []
    revise(works[1], Response, lambda row: replace(row, reply_key=""), *answer_files(works[1]))
    assert same_replies(first, second).same_answers == 48  # as in a run on the first one's exported answers
    revise(works[1], Response, lambda row: replace(row, text="Other."), responses_file("beta", DIMENSIONS[0]))
    assert same_replies(first, second).same_answers == 36


def test_settings_that_differ_are_named(tmp_path: Path) -> None:
    first = write_run(tmp_path / "one", SHAPE)
    second = write_run(tmp_path / "two", replace(SHAPE, judges=("mild",), samples=2))
    files = [responses_file(subject, DIMENSIONS[0]) for subject in SHAPE.subjects]
    revise(second, Response, lambda row: replace(row, settings='{"temperature": "1"}'), *files)
    apart = settings_apart(open_run(first.run_path), open_run(second.run_path))
    found = {each.key: (each.before, each.now) for each in apart}
    assert found["judges, of equal weight in the panel"] == ("strict", "mild") and found["samples"] == ("1", "2")
    assert found["temperature of alpha"] == ("0", "0 / 1")


def amended(work: Work, **changes: Any) -> Run:
    """The run after keys of its record's sweep and hashes were changed."""
    record = read_record(work.run_path)
    assert record is not None
    hashes = record.hashes | changes.pop("hashes", {})
    amend_record(work.run_path, sweep=record.sweep.model_copy(update=changes), hashes=hashes)
    return open_run(work.run_path)


def test_what_makes_tests_is_a_setting_unless_both_runs_were_given_theirs(tmp_path: Path) -> None:
    works = [write_run(tmp_path / name, SHAPE) for name in ("one", "two")]
    select = Select(embedding="vectors", tests=50)
    made: dict[str, Any] = {"tests": None, "select": select}
    first = amended(works[0], **made)
    second = amended(works[1], seed=1, **made | {"select": select.model_copy(update={"components": 3})})
    assert settings_apart(first, second) == [Change("seed", "0", "1"), Change("select.components", "50", "3")]
    given = {"tests": Location("tests.jsonl"), "hashes": {"tests": "0" * 64}}
    first, second = amended(works[0], **given), amended(works[1], **given | {"hashes": {"tests": "1" * 64}})
    assert settings_apart(first, second) == [Change("text of `tests`", "0" * 12, "1" * 12)]


def test_a_changed_rubric_is_shown_by_its_keys_as_long_as_its_text_is_kept(tmp_path: Path) -> None:
    first, second = (write_run(tmp_path / name, SHAPE) for name in ("one", "two"))
    rubric = first.rubrics[DIMENSIONS[0]]
    issue = rubric.judging.issues[0]
    issues = (issue.model_copy(update={"deduction": issue.deduction + 1}), *rubric.judging.issues[1:])
    other = rubric.model_copy(update={"judging": rubric.judging.model_copy(update={"issues": issues})}).canonical
    digest = sha256(other).hexdigest()
    apart = settings_apart(open_run(first.run_path), amended(second, hashes={f"rubric {rubric.id}": digest}))
    assert apart == [Change(f"rubric of {rubric.id}", rubric.sha256[:12], digest[:12])]
    RunFolder(second.run_path).folder.put(f"{TEXTS}/{digest}", other)
    key = f"rubric of {rubric.id}.judging.issues.{issue.letter}.deduction"
    apart = settings_apart(open_run(first.run_path), open_run(second.run_path))
    assert apart == [Change(key, str(issue.deduction), str(issue.deduction + 1))]


def test_runs_that_share_nothing_are_refused(tmp_path: Path) -> None:
    first = write_run(tmp_path / "one", SHAPE)
    second = write_run(tmp_path / "two", replace(SHAPE, subjects=("gamma",)))
    with pytest.raises(ConfigError, match="share no subject: the one has alpha, beta, the other gamma"):
        compare_runs(*summaries((first, second)))


def test_tests_are_grouped_by_their_calls_whichever_run_generated_them(pair: tuple[Work, Work]) -> None:
    """The other run was given the tests, and does not know which of them were written together."""
    for dimension in DIMENSIONS:
        tests = pair[0].run.read(ChosenTest, views.tests_file(dimension))
        candidates = [
            Candidate(str(at), dimension, State.OK, test.prompt, test.context, "bees", "", f"call {at // 4}")
            for at, test in enumerate(tests)
        ]
        pair[0].run.write(Candidate, views.candidates_file(dimension), candidates)
    one, other = summaries(pair)
    forth, back = compare_runs(one, other), compare_runs(other, one)
    for found, turned in zip(forth, back, strict=True):
        assert (found.low, found.high) == pytest.approx((-(turned.high or 0), -(turned.low or 0)))
        assert found.p == pytest.approx(turned.p)
    assert row(forth, DIMENSIONS[0]).p == pytest.approx(2 / 2**3), "three calls, not twelve tests"
