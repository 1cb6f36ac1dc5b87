"""What is wrong in the pipeline fails a rehearsal, for the right reason: one mutant for each way to be wrong.

Mutants of requests rehearse the whole sweep, in which each judge is shown something else. Those of what follows from
replies write the views anew from the replies of one sound rehearsal, and those of analyses compare it once more.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from scipy.special import stdtrit

from hab_ray.analysis import intervals, marks, pairs, rates, summary
from hab_ray.analysis.marks import RowId, ScoreSettings
from hab_ray.analysis.summary import score_settings
from hab_ray.analysis.tables import differences as pairs_table
from hab_ray.analysis.tables import leaderboard as leaderboard_table
from hab_ray.calls import ChatCall
from hab_ray.errors import DamagedFile
from hab_ray.rehearse.comparison import Comparison, compare_stored
from hab_ray.rehearse.truth import Truth
from hab_ray.results import Run, open_run
from hab_ray.rows import ChosenTest, Response, Score, State, Verdict, from_table
from hab_ray.rubric import Rubric, load_rubrics
from hab_ray.stages.method.judge import JudgeStage
from hab_ray.stages.method.respond import RespondStage, ResponseTask
from hab_ray.stages.replies.verdicts import score
from hab_ray.stages.verdict_rows import VerdictTask
from hab_ray.stages.views import responses_file, verdicts_file
from hab_ray.storage.run import SCORES
from tests.rehearse.conftest import ASKED, DIMENSIONS, JUDGES, SUBJECTS, Stage, StageOf, problems
from tests.rehearse.mutants import (
    Mutant,
    Mutants,
    Patch,
    around,
    calls_of,
    ends_swapped,
    halved,
    of_one,
    of_responses,
    of_tests,
    other_letters,
    planted,
    put,
    rounds,
    swapped,
    tasks_of,
    then,
)

MISINFORMATION, DEFER = DIMENSIONS
FIRST, LAST = (load_rubrics()[MISINFORMATION].judging.issues[at] for at in (0, -1))
JUDGE = [{"model": "lab/first", "name": JUDGES[0]}]
Tasks = list[VerdictTask]


def test_a_sound_pipeline_passes(rehearsed_stage: Stage) -> None:
    done = rehearsed_stage.compare()
    assert problems(done) == "" and done.passed
    assert len(done.cells) == len(SUBJECTS) * len(DIMENSIONS) * (len(JUDGES) + 1)
    assert len(done.overall) == len(SUBJECTS) * (len(JUDGES) + 1)
    assert done.rows.compared == len(SUBJECTS) * ASKED * (1 + len(JUDGES))


def rotated(tests: Sequence[ChosenTest]) -> dict[str, ChosenTest]:
    """By each test's id another test of its dimension."""
    return {test.id: tests[at - 1] for at, test in enumerate(tests)}


def other_test(tasks: Tasks) -> Tasks:
    others = rotated([task.test for task in tasks])
    return [replace(task, test=replace(others[task.test.id], id=task.test.id)) for task in tasks]


def two_answers(tasks: Tasks) -> Tasks:
    return of_responses(lambda _: "\n\n".join(task.response.text for task in tasks))(tasks)


def without_rubric(system: str) -> str:
    return system[system.index("The user's message stands between") :]


def without_last_issue(system: str) -> str:
    return system.replace(f"{LAST.letter}. {LAST.text}", "")


def renamed(system: str) -> str:
    """The first issue under the last one's letter."""
    return system.replace(f"{FIRST.letter}. {FIRST.text}", f"{LAST.letter}. {FIRST.text}")


def without_system(sound: Any) -> Any:
    def requests(self: RespondStage, tasks: Iterable[ResponseTask]) -> Iterator[tuple[str, ChatCall]]:
        bare = replace(self, subject=self.subject.model_copy(update={"system": ""}))
        return iter(sound(bare, tasks))

    return requests


def of_other_tests(found: Iterable[tuple[str, ChatCall]]) -> Iterator[tuple[str, ChatCall]]:
    asked = list(found)
    return ((row_id, asked[at - 1][1]) for at, (row_id, _) in enumerate(asked))


def told(change: Callable[[str], str]) -> Mutant:
    return calls_of(JudgeStage, lambda call: replace(call, system=change(call.system)))


def rubric_of_another(sound: Any) -> Any:
    """Mutant of a judge's requests: the system text is that of the other dimension."""
    rubrics = load_rubrics()

    def requests(self: JudgeStage, tasks: Iterable[VerdictTask]) -> Iterator[tuple[str, ChatCall]]:
        wanted = list(tasks)
        other = replace(self, rubric=rubrics[DEFER if self.rubric.id == MISINFORMATION else MISINFORMATION])
        others = sound(other, of_tests(context="")(wanted))
        for (row_id, call), (_, with_other) in zip(sound(self, wanted), others, strict=True):
            yield row_id, replace(call, system=with_other.system)

    return requests


MUTANTS_OF_JUDGES: Mutants = {
    "another test": (tasks_of(JudgeStage, other_test), "lacked the test to which the answer was given"),
    "the context is missing": (
        tasks_of(JudgeStage, of_tests(context="")),
        "of correct_misinformation lacked the context",
    ),
    "the response is missing": (
        tasks_of(JudgeStage, of_responses(lambda _: "It depends.")),
        "lacked an answer with a mark",
    ),
    "half of the response is missing": (
        tasks_of(JudgeStage, of_responses(lambda text: text[: len(text) // 2])),
        "lacked the whole answer",
    ),
    "two responses in one request": (tasks_of(JudgeStage, two_answers), "lacked one answer alone"),
    "the rubric is missing": (told(without_rubric), "of defer_important_decisions lacked issue A"),
    "the rubric of another dimension": (
        around(JudgeStage, "requests", rubric_of_another),
        "of correct_misinformation lacked issue A",
    ),
    "the last issue is missing": (told(without_last_issue), "of correct_misinformation lacked issue F"),
    "an issue under another letter": (told(renamed), "of correct_misinformation lacked issue A under its letter"),
}
MUTANTS_OF_SUBJECTS: Mutants = {
    "no system prompt": (around(RespondStage, "requests", without_system), "the subject was never asked it"),
    "responses of other tests": (
        then(RespondStage, "requests", of_other_tests),
        "not the answer that the subject gave to this test",
    ),
}
NAMES = list(MUTANTS_OF_JUDGES)


@pytest.mark.parametrize("names", [NAMES[:5], NAMES[5:]], ids=["messages", "rubrics"])
def test_judges_who_are_each_shown_or_told_something_else(
    stage: StageOf, monkeypatch: Patch, names: Sequence[str]
) -> None:
    mutants = {f"j{number}": MUTANTS_OF_JUDGES[name] for number, name in enumerate(names)}
    for judge, (plant, _) in mutants.items():
        of_one(JudgeStage, "judge", judge, plant)(monkeypatch)
    judges = [{"model": f"lab/{judge}", "name": judge} for judge in mutants]
    done = stage(judges=judges).rehearse()
    assert not done.passed and done.bills_agree
    told = problems(done.comparison).splitlines()
    for judge, (_, reason) in mutants.items():
        assert any(f"judge {judge} " in line and reason in line for line in told), (judge, reason)


def test_subjects_who_are_each_shown_or_told_something_else(stage: StageOf, monkeypatch: Patch) -> None:
    mutants = dict(zip(SUBJECTS[::-1], MUTANTS_OF_SUBJECTS.values(), strict=True))
    for subject, (plant, _) in mutants.items():
        of_one(RespondStage, "subject", subject, plant)(monkeypatch)
    stage(judges=JUDGE).must_fail(*(reason for _, reason in mutants.values()))


def test_a_response_of_another_subject(stage: StageOf, rehearsed_stage: Stage, monkeypatch: Patch) -> None:
    """The request is whole: only the verdicts show it."""
    run = rehearsed_stage.work.run
    given = [row for name in DIMENSIONS for row in run.read(Response, responses_file(SUBJECTS[0], name))]
    texts = {row.test_id: row.text for row in given}

    def of_another(tasks: Tasks) -> Tasks:
        return [replace(t, response=replace(t.response, text=texts[t.test.id])) for t in tasks]

    tasks_of(JudgeStage, of_another)(monkeypatch)
    stage(judges=JUDGE).must_fail("kind, correct_misinformation, judge first, test ")


def fewer(verdict: Verdict) -> Verdict:
    """The last letter dropped, with the score that follows."""
    letters = (verdict.issues or ())[:-1]
    return replace(verdict, issues=letters, score=score(load_rubrics()[verdict.dimension], letters))


Change = Callable[[Verdict], Verdict]
MUTANTS_OF_VERDICTS: dict[str, tuple[Change, str]] = {
    "letters are lost and scores kept": (lambda verdict: replace(verdict, issues=()), "ok none, score"),
    "the last letter is dropped": (fewer, ", planted"),
    "all are unreadable": (
        lambda verdict: replace(verdict, state=State.UNREADABLE, issues=None, score=None),
        "unreadable without a score, planted",
    ),
    "letters in another alphabet": (
        lambda verdict: replace(verdict, issues=tuple(letter.lower() for letter in verdict.issues or ())),
        ", planted",
    ),
    "all are filed under another subject": (
        lambda verdict: replace(verdict, subject=SUBJECTS[verdict.subject == SUBJECTS[0]]),
        "a verdict of",
    ),
}
MUTANTS_OF_VIEWS: dict[str, tuple[Callable[[list[Verdict]], list[Verdict]], str]] = {
    "verdicts swapped between tests": (
        lambda rows: [replace(row, test_id=rows[at - 1].test_id) for at, row in enumerate(rows)],
        ", planted",
    ),
    "a stale view": (lambda rows: rows[:-1], "there 0 times"),
    "verdicts of another dimension": (
        lambda rows: [replace(row, dimension=DIMENSIONS[row.dimension == MISINFORMATION]) for row in rows],
        "a verdict of",
    ),
    "a verdict on a test that is not there": (
        lambda rows: [*rows, replace(rows[0], test_id="nowhere")],
        "test nowhere: there 1 times",
    ),
}
FILES = list(product(JUDGES, SUBJECTS, DIMENSIONS))


def assert_shown(found: Comparison, problems_of: Mapping[tuple[str, str, str], str]) -> None:
    """Each problem is told of its judge, subject and dimension."""
    assert not found.passed
    for (judge, subject, dimension), problem in problems_of.items():
        place = f"{subject}, {dimension}, judge {judge}, test "
        assert any(line.startswith(place) and problem in line for line in map(str, found.rows.wrong)), place


def test_verdicts_that_are_read_in_another_way(rehearsed_stage: Stage, monkeypatch: Patch) -> None:
    """Those of each judge on each subject in another way."""
    mutants = dict(zip(FILES, MUTANTS_OF_VERDICTS.values(), strict=False))

    def read(verdict: Verdict) -> Verdict:
        change, _ = mutants.get((verdict.judge, verdict.subject, verdict.dimension), (None, ""))
        return change(verdict) if change else verdict

    then(JudgeStage, "parse", read)(monkeypatch)
    rehearsed_stage.settle()
    assert_shown(rehearsed_stage.compare_stored(), {file: problem for file, (_, problem) in mutants.items()})


def test_points_that_are_off_by_one(rehearsed_stage: Stage, monkeypatch: Patch) -> None:
    then(Rubric, "deduction", lambda points: points - 1)(monkeypatch)
    rehearsed_stage.settle()
    rehearsed_stage.must_show(", planted", has_tables=False)


def test_verdicts_that_are_filed_in_another_way(rehearsed_stage: Stage) -> None:
    run, mutants = rehearsed_stage.work.run, dict(zip(FILES, MUTANTS_OF_VIEWS.values(), strict=False))
    for place, (change, _) in mutants.items():
        run.write(Verdict, verdicts_file(*place), change(run.read(Verdict, verdicts_file(*place))))
    assert_shown(rehearsed_stage.compare_stored(), {file: problem for file, (_, problem) in mutants.items()})


def stored(stage: Stage, run: Run) -> Comparison:
    return compare_stored(stage.work, run, stage.client, Truth(stage.work, stage.client))


def test_doubled_rows(rehearsed_stage: Stage) -> None:
    run, file = rehearsed_stage.work.run, verdicts_file(JUDGES[0], SUBJECTS[0], DEFER)
    rows = run.read(Verdict, file)
    run.write(Verdict, file, [*rows, rows[0]])
    with pytest.raises(DamagedFile, match="occurs twice"):
        rehearsed_stage.compare_stored()
    wrong = stored(rehearsed_stage, open_run(rehearsed_stage.work.run_path))
    assert "there 2 times (sample 0), expected 1 times" in problems(wrong)


def test_scores_that_are_stale_doubled_or_of_a_stranger(rehearsed_stage: Stage) -> None:
    """Scores of an earlier state are still in the folder when they are compared."""
    assert rehearsed_stage.compare_stored().passed
    run = open_run(rehearsed_stage.work.run_path)
    lost, twice, once, *others = from_table(Score, run.scores())
    stranger = replace(once, subject="stranger")
    rehearsed_stage.work.run.write(Score, SCORES, [twice, twice, once, *others, stranger])
    found = stored(rehearsed_stage, run)
    wrong = {(cell.subject, cell.dimension, cell.judge, cell.times) for cell in found.wrong_cells}
    expected = ((lost, 0), (twice, 2), (stranger, 1))
    assert not found.passed and wrong == {(row.subject, row.dimension, row.judge, times) for row, times in expected}


def first_test_left_out(settings: ScoreSettings, subject: str, dimension: str) -> Iterator[RowId]:
    for row in sound_rows_of(settings, subject, dimension):
        yield RowId(subject, dimension, "none", 0) if row.test_id == settings.tests[dimension][0] else row


sound_rows_of = marks.rows_of


def only_first_judge(run: Run, dimensions: Iterable[str]) -> ScoreSettings:
    """Mutant of `score_settings`."""
    return replace(score_settings(run, dimensions), panel=JUDGES[:1])


def one_degree_more(freedom: float, level: float) -> float:
    return float(stdtrit(freedom + 1, level))


MUTANTS_OF_ANALYSES: Mutants = {
    "t on G degrees of freedom": (put(intervals, "stdtrit", one_degree_more), ", planted"),
    "a mean over wrong rows": (put(marks, "rows_of", first_test_left_out), "over 2 answers, planted"),
    "a panel without one of its judges": (put(summary, "score_settings", only_first_judge), "judge second: no mean"),
    "scores of 11 points": (put(marks, "SCORE_START", 11), ", planted"),
}


def first_ranks(subjects: Iterable[str], better: Any) -> dict[str, tuple[int, int]]:
    """Mutant of `rank_ranges`: 1, 2, 3."""
    return {name: (at, at) for at, name in enumerate(subjects, 1)}


def other_judges(run_summary: Any, subject: str, judge: str, dimension: str) -> Any:
    return sound_named(run_summary, subject, JUDGES[judge == JUDGES[0]], dimension)


sound_named = rates.shares_naming
OF_PAIRS: Mutants = {
    "subjects of a pair swapped": (
        then(pairs_table, "difference_of", swapped("subject", "other")),
        "the difference of kind, plain",
    ),
    "ends of a difference swapped": (then(pairs_table, "difference_of", ends_swapped), "the difference of plain, kind"),
    "a one-sided p": (then(pairs, "p_of", halved), "the p-value of plain, kind"),
}
OF_OTHER_CLAIMS: Mutants = {
    "issues by the other judge": (put(rates, "shares_naming", other_judges), "first, B is"),
    "issues under other letters": (then(rates, "shares_naming", other_letters), "the issue of kind"),
    "ranks of 1, 2, 3": (put(leaderboard_table, "rank_ranges", first_ranks), "the rank of"),
}


@pytest.mark.parametrize("name", MUTANTS_OF_ANALYSES)
def test_means_that_are_made_otherwise(rehearsed_stage: Stage, monkeypatch: Patch, name: str) -> None:
    plant, reason = MUTANTS_OF_ANALYSES[name]
    plant(monkeypatch)
    found = rehearsed_stage.must_show(reason, has_tables=False)
    assert found.wrong_cells and not found.rows.wrong


@pytest.mark.parametrize("mutants", rounds(OF_PAIRS, OF_OTHER_CLAIMS), ids=" and ".join)
def test_claims_that_are_made_otherwise(rehearsed_stage: Stage, monkeypatch: Patch, mutants: Mutants) -> None:
    found = rehearsed_stage.must_show(*planted(mutants, monkeypatch))
    assert not found.rows.wrong and not found.wrong_cells


def test_no_single_letter_decides_whether_a_mutant_is_found(rehearsed_stage: Stage) -> None:
    """The planted letters of the sound rehearsal differ between tests, subjects and judges."""
    letters = {
        who: [
            row.issues
            for dimension in DIMENSIONS
            for row in rehearsed_stage.work.run.read(Verdict, verdicts_file(who[0], who[1], dimension))
        ]
        for who in product(JUDGES, SUBJECTS)
    }
    assert len({tuple(each) for each in letters.values()}) == 4
    assert all(len(set(each)) > 2 for each in letters.values())
