"""Signs of trouble are raised when they are there, and only then."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from math import exp, hypot
from random import Random
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hab_ray.analysis.evidence.components import between_calls, chance_of_calls
from hab_ray.analysis.evidence.verdicts import Denial, VerdictTexts, denied_letters, read_verdicts
from hab_ray.analysis.marks import OVERALL, PANEL, ItemScores, ScoreSettings
from hab_ray.analysis.power import Design
from hab_ray.analysis.row_status import MissingReason, StatusCount
from hab_ray.analysis.signs.design import few_calls, separate_nobody, too_easy, trained_on, varying_calls
from hab_ray.analysis.signs.design import near_duplicates as report_near_duplicates
from hab_ray.analysis.signs.finding import Finding, Severity, worst
from hab_ray.analysis.signs.judging import (
    ambiguous_rubrics,
    chance,
    contradictory_verdicts,
    judges_without_scores,
    lost_verdicts,
    unreadable,
)
from hab_ray.analysis.signs.rows import missing, not_at_random, not_sent, settings_differ, unfinished, without_overall
from hab_ray.analysis.tables.bounds import Bounds
from hab_ray.analysis.tables.differences import PairedDifference
from hab_ray.analysis.tables.trust.agreement import Agreed
from hab_ray.analysis.tables.trust.findings import findings, near_duplicates
from hab_ray.catalog.models import Cutoff
from hab_ray.results import Sent
from hab_ray.rows import ChosenTest, Rater, Response, Score, State, Verdict
from hab_ray.stages import views
from hab_ray.stages.replies.copying import COPIED
from hab_ray.stages.views import verdicts_file
from hab_ray.work import Work
from tests.analysis.conftest import settings
from tests.analysis.sound_runs import DIMENSIONS, FIRST, JUDGES, SUBJECTS, TESTS, change, finding, kinds, sound
from tests.small_runs import MakeRun, answer_files, revise, summary_of, verdict_files


@pytest.fixture
def work(make_run: MakeRun) -> Work:
    return sound(make_run)


def answers(work: Work, change: Callable[[int, Response], Response], subject: str) -> None:
    """Change the answers of a subject by their place."""
    revise(work, Response, lambda row: change(number_of(row), row), *answer_files(work, subject))


def number_of(row: Verdict | Response) -> int:
    return int(row.test_id[-3:])


def drawing_lots(work: Work) -> None:
    random = Random(1)
    letters = {name: rubric.issue_letters() for name, rubric in work.rubrics.items()}
    change(work, lambda row: replace(row, issues=tuple(x for x in letters[row.dimension] if random.random() < 0.3)))


def one_assessment(work: Work) -> None:
    change(work, lambda row: replace(row, assessment="Fine  as IT is." if number_of(row) % 3 else "Fine as it is."))


def every_issue(work: Work) -> None:
    def listed(row: Verdict) -> Verdict:
        return replace(row, issues=work.rubrics[row.dimension].issue_letters()) if number_of(row) % 3 == 0 else row

    change(work, listed)


def denials(work: Work) -> None:
    """Every twelfth verdict of one judge says "none" of all issues and lists two."""

    def denied(row: Verdict) -> Verdict:
        if number_of(row):
            return row
        thoughts = "\n".join(f"{letter}: None." for letter in work.rubrics[row.dimension].issue_letters())
        return replace(row, assessment=thoughts, issues=("B", "C"))

    change(work, denied, JUDGES[1:])


def copies(work: Work) -> None:
    def copied(row: Verdict) -> Verdict:
        is_copied = number_of(row) == 0 and row.subject == "good"
        unread = replace(row, state=State.UNREADABLE, issues=None, score=None, reason=f"{COPIED}, twice")
        return unread if is_copied else row

    change(work, copied, JUDGES[1:])


def kinder_people(work: Work) -> None:
    rows = work.run.read(Verdict, verdicts_file(JUDGES[0], "poor", FIRST))
    kinder = [replace(row, judge="anna", kind=Rater.PERSON, score=10.0) for row in rows]
    work.run.write(Verdict, verdicts_file("anna", "poor", FIRST), kinder)


def agreeing_people(work: Work) -> None:
    for subject in SUBJECTS:
        rows = work.run.read(Verdict, verdicts_file(JUDGES[0], subject, FIRST))
        named = [replace(row, judge="anna", kind=Rater.PERSON) for row in rows]
        work.run.write(Verdict, verdicts_file("anna", subject, FIRST), named)


def one_kinder_of_three(work: Work) -> None:
    """Of three people one is much kinder on every answer: other people need not be."""
    for subject in SUBJECTS:
        rows = work.run.read(Verdict, verdicts_file(JUDGES[0], subject, FIRST))
        for name, kinder in (("anna", 0.5), ("ben", 0.5), ("carl", 8.0)):
            said = [replace(r, judge=name, kind=Rater.PERSON, score=min(10.0, (r.score or 0) + kinder)) for r in rows]
            work.run.write(Verdict, verdicts_file(name, subject, FIRST), said)


def failing(work: Work) -> None:
    answers(work, lambda at, row: replace(row, state=State.FAILED, text="") if at < 5 else row, "poor")


@pytest.mark.parametrize(("issues", "found"), [(1, 0), (2, 0), (3, 4)])
def test_all_issues_of_a_rubric_with_one_or_two_may_well_apply(work: Work, issues: int, found: int) -> None:
    few = work.rubrics[FIRST].judging.issues[:issues]
    letters = tuple(issue.letter for issue in few)
    change(work, lambda row: replace(row, issues=letters if number_of(row) % 3 == 0 else ()))
    summary = summary_of(work)
    judging = summary.rubrics[FIRST].judging.model_copy(update={"issues": few})
    rubric = summary.rubrics[FIRST].model_copy(update={"judging": judging})
    read = next(read_verdicts(summary.run, summary.settings, {**summary.rubrics, FIRST: rubric}))
    assert read.scored == TESTS * len(SUBJECTS) and read.everything == found * len(SUBJECTS)


def half_done(work: Work) -> None:
    file = verdicts_file(JUDGES[0], "poor", FIRST)
    work.run.write(Verdict, file, work.run.read(Verdict, file)[:-1])


def all_bad(work: Work) -> None:
    change(work, lambda row: replace(row, issues=("A",)) if row.dimension == FIRST else row)


def all_good(work: Work) -> None:
    change(work, lambda row: replace(row, issues=()) if row.dimension == FIRST else row)


def reworded_test(work: Work) -> None:
    tests = work.run.read(ChosenTest, views.tests_file(FIRST))
    tests[3] = replace(tests[3], prompt=f"{tests[2].prompt} Please.", context=tests[2].context)
    work.run.write(ChosenTest, views.tests_file(FIRST), tests)


def changed_meanwhile(work: Work) -> None:
    answers(work, lambda at, row: replace(row, model_reported="good-2" if at < 4 else "good-1"), "good")


def changed_judge(work: Work) -> None:
    change(work, lambda row: replace(row, model_reported=f"one-{int(row.test_id[-3:]) // 6}"), judges=("one",))


PLANTED: dict[Callable[[Work], None], set[str]] = {
    changed_meanwhile: {"model_changed"},
    changed_judge: {"model_changed"},
    drawing_lots: {"agreement", "separates_nobody"},
    one_assessment: {"same_assessment"},
    every_issue: {"lists_everything"},
    copies: {"copied", "missing"},
    denials: {"denies_what_it_lists"},
    kinder_people: {"people"},
    agreeing_people: set(),
    one_kinder_of_three: {"people_disagree", "rater_at_chance"},
    failing: {"missing", "not_at_random"},
    half_done: {"unfinished", "missing"},
    all_bad: {"floor", "separates_nobody"},
    all_good: {"ceiling", "too_easy", "separates_nobody"},
    reworded_test: {"near_duplicates"},
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_planted_trouble_is_found_and_nothing_else(work: Work, plant: Callable[[Work], None]) -> None:
    plant(work)
    assert kinds(work) == PLANTED[plant] | {"trained_on"}


@pytest.mark.parametrize(
    ("count", "changes", "found"),
    [
        (0, {}, set()),
        (3, {"text": "I can't help with that."}, {"refusals"}),
        (2, {"finish": "truncated"}, {"truncation"}),
        (TESTS, {"settings": '{"temperature": "1"}'}, {"settings_differ"}),
    ],
)
def test_trouble_in_answers_is_found(work: Work, count: int, changes: dict[str, Any], found: set[str]) -> None:
    answers(work, lambda at, row: replace(row, **changes) if at < count else row, "poor")
    assert kinds(work) == found | {"trained_on"}


def test_the_share_of_cut_answers_is_of_those_that_exist_and_not_of_those_judged(work: Work) -> None:
    """One of ten answers is cut, and nine of ten are missing; the cut one has no verdict."""
    first = answer_files(work, "poor")[0]
    cut, *others = work.run.read(Response, first)[:10]
    for file in answer_files(work, "poor"):
        work.run.write(Response, file, [replace(cut, finish="truncated"), *others] if file == first else [])

    def failed(row: Verdict) -> Verdict:
        is_of_cut = (row.subject, row.test_id) == ("poor", cut.test_id)
        return replace(row, state=State.FAILED, score=None) if is_of_cut else row

    revise(work, Verdict, failed, *verdict_files(work))
    assert "poor 10 %" in finding(work, "truncation").detail


def test_a_dimension_in_which_all_score_alike_names_no_difference_of_0(work: Work) -> None:
    all_good(work)
    found = finding(work, "separates_nobody")
    assert "ask clarifying questions: each pair's difference is the same in every call" in found.detail
    assert "0.00" not in found.detail


def test_what_would_be_needed_to_separate_subjects_is_said_if_anything_can() -> None:
    row = PairedDifference("a", "b", "d", 40, 40, 0.01, -0.1, 0.1, 0.5, 0.5, False, False, 0.05, 0.2)

    def detail(rows: Sequence[PairedDifference]) -> str:
        (found,) = separate_nobody(rows, settings("a", "b", "c", tests={"d": 40}))
        return found.detail

    pairs = [row, replace(row, other="c", sd=0.0), replace(row, subject="c", sd=0.0)]
    assert "D: differences of 0.11 or more can be detected" in detail(pairs)
    assert "differences of 0.01 or more" in detail([replace(row, sd=0.001)] * 3)
    both = [replace(row, sd=0.001), replace(row, dimension="e")]
    (found,) = separate_nobody(both, settings("a", "b", tests={"d": 40, "e": 40}))
    assert "each dimension: differences of 0.01 to 0.09 or more can be detected" in found.detail
    few = [replace(each, calls=3, tests=3) for each in pairs]
    assert detail(few).endswith("D: too few generation calls for any difference to be significant.")


def test_that_no_two_subjects_differ_anywhere_is_said_only_if_pairs_are_known_everywhere() -> None:
    row = PairedDifference("a", "b", "d", 40, 40, 0.01, -0.1, 0.1, 0.5, 0.5, False, False, 0.05, 0.2)
    (alone,) = separate_nobody([row], settings("a", "b", tests={"d": 40}))
    assert alone.title == "No two subjects differ significantly"
    assert alone.detail.startswith("The largest difference is 0.010 of 1. ")
    (some,) = separate_nobody([replace(row, tests=39)], settings("a", "b", tests={"d": 40}))
    assert some.detail.startswith("The largest difference, over tests where both have a score, is 0.010 of 1. ")
    (partly,) = separate_nobody([row], settings("a", "b", tests={"d": 40, "e": 40}))
    assert partly.title == "Some dimensions tell no two subjects apart" and partly.severity == Severity.LOW


def test_that_no_two_subjects_differ_is_the_first_thing_said(work: Work) -> None:
    change(work, lambda row: replace(row, issues=("A",) if number_of(row) % (2 + (row.subject == "poor")) else ()))
    found = finding(work, "separates_nobody")
    assert found.title == "No two subjects differ significantly, overall or in any dimension"
    assert found.detail.startswith("The largest overall difference is 0.") and found.severity == Severity.HIGH
    assert "Overall: differences of 0." in found.detail and "; each dimension: differences of 0." in found.detail
    assert found in worst(findings(summary_of(work)))


def test_overall_detects_what_its_dimensions_do_together() -> None:
    alike = Design.together([Design(4, 50, 0.4)] * 6)
    assert (alike.calls, alike.sd) == pytest.approx((300, 0.4))
    parts = [Design(4, 50, 0.4), Design(4, 200, 0.2)]
    assert Design.together(parts).smallest == pytest.approx(hypot(*(part.smallest for part in parts)) / 2, rel=0.03)


def test_a_changed_model_splits_its_cells_with_counts_and_means(work: Work) -> None:
    changed_meanwhile(work)
    found = finding(work, "model_changed")
    assert "The answers of good came from 2 models" in found.title and found.number == 2
    for dimension in DIMENSIONS:
        given = [work.run.read(Verdict, verdicts_file(judge, "good", dimension)) for judge in JUDGES]
        means = [
            fmean(row.score or 0 for rows in given for row in rows[part]) / 10 for part in (slice(4), slice(4, 12))
        ]
        told = f"{dimension.replace('_', ' ')}: good-1 8 ({means[1]:.2f}), good-2 4 ({means[0]:.2f})"
        assert told in found.detail
    assert found.detail.endswith("Each mean is over different answers.")


def test_a_model_that_changed_between_two_dimensions_is_reported(work: Work) -> None:
    answers(work, lambda at, row: replace(row, model_reported=f"good {row.dimension}"), "good")
    change(work, lambda row: replace(row, model_reported=f"one {row.dimension}"), judges=("one",))
    of_subject, of_judge = (one for one in findings(summary_of(work)) if one.kind == "model_changed")
    assert of_subject.title == f"The answers of good came from {len(DIMENSIONS)} models"
    assert of_judge.title == f"The verdicts of one came from {len(DIMENSIONS)} models"
    for name in DIMENSIONS:
        spoken = name.replace("_", " ")
        assert f"{spoken}: good {name} {TESTS} (" in of_subject.detail
        assert f"{spoken}: one {name} {TESTS * len(SUBJECTS)} (" in of_judge.detail


def test_a_judge_that_denies_what_it_lists_is_counted_with_an_example(work: Work) -> None:
    denials(work)
    found = finding(work, "denies_what_it_lists")
    assert found.severity == Severity.HIGH and found.title.startswith("two lists issues")
    assert f"4 of {4 * TESTS} scored verdicts" in found.detail and found.number == pytest.approx(1 / TESTS)
    assert f"for example B, C of good in {FIRST}-000." in found.detail


@pytest.mark.parametrize(("denied", "raised"), [(0, False), (1, False), (2, False), (3, True)])
def test_a_denial_in_fifty_verdicts_is_tolerated(denied: int, raised: bool) -> None:
    example = Denial("s", "t", ("A",)) if denied else None
    cells = [VerdictTexts("j", "d", 110, 100, 0, 0, 1, denied, example), VerdictTexts("k", "d", 9, 9, 0, 0, 1, 0, None)]
    assert bool(list(contradictory_verdicts(cells))) == raised


@pytest.mark.parametrize(
    ("assessment", "listed", "denied"),
    [
        ("A: none\nB: None.\nC: no", "AC", "AC"),
        ("A: none\nB: none\nC: It asks nothing of the user.", "AC", ""),
        ("A: Does not apply.\nB: It presses the user.\nC: N/A", "ABC", "AC"),
        ("A: This issue doesn\u2019t apply.\nB: It presses.", "A", "A"),
        ("A: This issue does not apply, but for the last line.\nB: It presses.", "A", ""),
        ("A: Does not apply.\nBut its last line does it.", "A", ""),
        ("A: none\nB: none", "", ""),
        ("A: none\nB: none", "C", ""),
        ("None of the issues applies.", "A", ""),
        ("none", "A", ""),
        ("", "A", ""),
    ],
)
def test_only_a_whole_thought_on_a_listed_letter_denies_it(assessment: str, listed: str, denied: str) -> None:
    assert denied_letters(assessment, listed) == tuple(denied)


def test_a_judge_of_its_own_answers_is_named(make_run: MakeRun) -> None:
    work = sound(make_run, ("good", "one"))
    assert finding(work, "judges_itself").severity == Severity.LOW
    change(work, lambda row: replace(row, issues=() if row.subject == "good" else ("A", "B")), ["good"])
    change(work, lambda row: replace(row, issues=("A", "B")), ["one"])
    found = finding(work, "prefers_itself")
    assert found.severity == Severity.MEDIUM and (found.number or 0) > 0.5 and "judges_itself" not in kinds(work)


def test_the_worst_three_come_first_and_what_is_only_good_to_know_is_not_among_them() -> None:
    found = [Finding(str(at), severity, "", "", "") for at, severity in enumerate([1, 2, 3, 2, 2])]
    assert [one.kind for one in worst(found)] == ["2", "1", "3"]
    assert worst(found[:1]) == []


def test_a_finding_is_a_row_with_its_number_and_what_to_do(work: Work) -> None:
    failing(work)
    found = list(findings(summary_of(work)))
    assert [one.severity for one in found] == sorted((one.severity for one in found), reverse=True)
    assert all(one.title and one.detail and one.remedy.endswith((".", ")")) for one in found)
    (at_random,) = (one for one in found if one.kind == "not_at_random")
    # In all 10 calls with a loss it is the same one of two subjects; times the four groups that Holm corrects for.
    assert at_random.number == pytest.approx(4 * 2 * 0.5**10) and "42 %" in at_random.detail
    assert "good" not in at_random.detail, "which lost no row"


def lost(where: NDArray[np.bool_], calls: tuple[str, ...] = ()) -> list[Finding]:
    """Return what is found if rows are missing there: subjects x dimensions x tests x samples."""
    marks = [
        ItemScores(f"s{subject}", f"d{dimension}", PANEL, np.where(part, np.nan, 0.5), 0, calls)
        for subject, of_subject in enumerate(where)
        for dimension, part in enumerate(of_subject)
    ]
    return list(not_at_random(marks, []))


def test_rows_that_are_lost_together_count_once() -> None:
    samples_of_a_test = np.zeros((4, 1, 40, 5), dtype=bool)
    samples_of_a_test[0, 0, 7] = True
    assert lost(samples_of_a_test) == []
    test_of_all_subjects = np.zeros((20, 6, 50, 1), dtype=bool)
    test_of_all_subjects[:, 1, 7] = True
    assert lost(test_of_all_subjects) == []
    tests_of_a_call = np.zeros((20, 6, 50, 1), dtype=bool)
    tests_of_a_call[:, 1, :10] = True
    assert lost(tests_of_a_call, tuple(str(test // 10) for test in range(50))) == []
    assert len(lost(tests_of_a_call)) == 1


def test_losses_spread_over_the_calls_of_one_subject_or_dimension_are_found() -> None:
    random, calls = np.random.default_rng(0), tuple(str(test // 2) for test in range(100))
    few = random.random((8, 3, 100, 1)) < 0.01
    assert lost(few, calls) == []
    of_subject, of_dimension = few.copy(), few.copy()
    of_subject[3, :, ::10] = True
    of_dimension[:, 1] |= random.random((8, 100, 1)) < 0.05
    (found,) = lost(of_subject, calls)
    assert found.detail.startswith("Missing rows: s3 1") and ";" not in found.detail
    (found,) = lost(of_dimension, calls)
    assert found.detail.startswith("Missing rows: d1 6 % (the others 1 %, p 0.00")


def test_rows_of_a_single_subject_in_a_single_dimension_are_compared_with_nothing() -> None:
    assert lost(np.arange(40).reshape(1, 1, 40, 1) < 20) == []


def test_near_duplicates_share_most_runs_of_three_words() -> None:
    long = "one two three four five six seven eight nine ten eleven twelve"
    texts = [long, f"{long} more", "ten nine eight seven six five four three two one", long.upper(), "", "?"]
    assert near_duplicates(texts) == {0: 1, 1: 0, 3: 0}
    assert near_duplicates([]) == near_duplicates(["", ""]) == {}


def test_near_duplicates_of_one_generation_call_are_not_said_to_count_as_independent() -> None:
    """Intervals allow for tests that one call wrote."""
    settings = ScoreSettings(("a",), ("strict",), {"d": ("t1", "t2", "t3")})
    (found,) = report_near_duplicates({"d": {"t1": "t2", "t2": "t1"}}, settings)
    assert "d 2 of 3, such as t1 and t2. Unless one generation call wrote them" in found.detail


def test_near_duplicates_are_those_that_a_comparison_of_all_finds() -> None:
    random, words = Random(7), [f"w{number}" for number in range(6)]

    def runs(text: str) -> set[str]:
        own = text.split()
        return {" ".join(own[at : at + 3]) for at in range(max(1, len(own) - 2))} if own else set()

    for _ in range(40):
        texts = [" ".join(random.choices(words, k=random.randint(0, 12))) for _ in range(20)]
        texts += [f"{random.choice(texts)} {random.choice(words)}" for _ in range(10)]
        sets = [runs(text) for text in texts]
        alike = [
            [at for at, other in enumerate(sets) if at != own and 10 * len(one & other) >= 7 * len(one | other) > 0]
            for own, one in enumerate(sets)
        ]
        assert near_duplicates(texts) == {own: others[0] for own, others in enumerate(alike) if others}


MANY = settings(tests={"d_one": 30})


def score(subject: str, mean: float | None, dimension: str = OVERALL, reach: float = 0.01) -> Score:
    low, high = (None, None) if mean is None else (mean - reach, mean + reach)
    return Score(subject, dimension, PANEL, mean, low, high, 30, 0, 0)


@pytest.mark.parametrize(("low", "raised"), [(0.9, False), (0.91, True)])
def test_high_scores_for_every_subject(low: float, raised: bool) -> None:
    found = list(too_easy([score("a", 0.97, "d_one"), score("b", low, "d_one"), score("c", None, "d_one")]))
    assert bool(found) == raised
    assert not raised or "in d one" in found[0].title


def test_no_overall_score_names_the_dimension_it_lacks() -> None:
    lacking = [score("a", 0.5, "d_two"), score("a", None, "d_one"), score("a", None)]
    (found,) = without_overall(lacking, [])
    assert found.title == "a has no overall score"
    assert "no scored row in d one;" in found.detail
    assert not list(without_overall(lacking, [StatusCount("j", "a", "d_one", MissingReason.OPEN, 2, ())]))


def test_a_subject_without_any_score_is_not_said_to_have_other_dimensions() -> None:
    (found,) = without_overall([score("a", None, "d_one"), score("a", None, "d_two"), score("a", None)], [])
    assert found.detail == "It has no scored row in d one, d two." and found.number == 2


def test_a_dimension_whose_tests_are_missing_is_named_first_and_no_reason_is_made_up(work: Work) -> None:
    file = views.tests_file(DIMENSIONS[0])
    work.run.folder.delete(file)
    found = findings(summary_of(work))
    assert found[0].kind == "no_tests" and f"no test in {file}." in found[0].headline
    assert "no_overall" not in {each.kind for each in found}


def test_missing_rows_name_the_worst_cell() -> None:
    doubtful = [Bounds("a", "d_one", PANEL, 3, 30, 0.4, 0.5), Bounds("b", "d_one", PANEL, 5, 30, 0.3, 0.5)]
    (found,) = missing([*doubtful, Bounds("b", OVERALL, PANEL, 5, 30, 0.3, 0.5)])
    assert "2 cells" in found.detail and "b in d one (5 of 30 rows)" in found.detail


def test_an_unfinished_run_says_so_first(work: Work) -> None:
    drawing_lots(work)
    half_done(work)
    first, *others = findings(summary_of(work))
    assert first.kind == "unfinished" and "agreement" in {other.kind for other in others}


def test_an_unfinished_run_says_how_much_is_open() -> None:
    open_rows = [
        StatusCount(None, "a", "d_one", MissingReason.OPEN, 4, ()),
        StatusCount("j", "a", "d_one", MissingReason.OPEN, 2, ()),
    ]
    (found,) = unfinished(open_rows, verdicts_per_answer=3)
    assert "4 answers and 14 verdicts" in found.detail and found.number == 18
    (found,) = unfinished(open_rows[1:], verdicts_per_answer=3)
    assert found.detail == "Still open: 2 verdicts."


def sent(subject: str, responses: int = 1, **parameters: str) -> Sent:
    named = {name: (value,) for name, value in parameters.items()}
    return Sent(subject, "model", "provider", "", responses, named, {})


def test_different_settings_name_parameter_values_and_subjects() -> None:
    subjects = [sent("c", top_p="1", temperature="0"), sent("a", top_p="1", temperature="0"), sent("b", top_p="1")]
    (found,) = settings_differ(subjects, {})
    assert found.detail == "temperature: 0 (a, c); not sent or ignored (b)." and "Give all" in found.remedy


def test_a_setting_that_a_vendor_ignores_is_not_named_as_the_subjects() -> None:
    subjects = [sent("a", temperature="0"), sent("ignores", temperature="0"), sent("refuses")]
    (found,) = settings_differ(subjects, {"ignores": ["temperature"], "refuses": ["temperature"]})
    assert found.detail == "temperature: 0 (a); not sent or ignored (ignores, refuses)."
    assert "You asked for the same" in found.remedy
    assert "Give all" in next(settings_differ(subjects, {"ignores": ["temperature"]})).remedy


@pytest.mark.parametrize("other", [sent("b", temperature="0"), sent("b", responses=0)], ids=["alike", "no response"])
def test_settings_that_do_not_differ_are_not_named(other: Sent) -> None:
    assert list(settings_differ([sent("a", temperature="0"), other], {})) == []


def test_settings_that_were_not_sent_are_named_by_model() -> None:
    (found,) = not_sent({"a": ["temperature 0", "top_p 0.95"]})
    assert "a: temperature 0, top_p 0.95" in found.detail and found.severity == Severity.LOW
    assert list(not_sent({})) == []


def test_few_generation_calls_are_named() -> None:
    few = replace(settings(tests={"d1": 12, "d2": 9}), calls={"d1": ("one", "two", "three") * 4})
    assert "d1 (3), d2 (9). If a call made several tests, " in next(few_calls(few)).detail
    assert "d1 (3), d2 (9)." in next(few_calls(replace(few, tests={**few.tests, "d3": ()}))).detail
    assert list(few_calls(replace(few, tests={"d1": few.tests["d1"]}, calls={}))) == list(few_calls(MANY)) == []


def in_calls(subject: str, spread: float, calls: int = 20) -> ItemScores:
    """A subject's marks of 25 tests of each call, the calls apart by an SD in logits."""
    random = Random(f"{subject} {calls}")
    levels = [1 / (1 + exp(1 - random.gauss(0, spread))) for _ in range(calls)]
    marks = np.array([[float(random.random() < level)] for level in levels for _ in range(25)])
    return ItemScores(subject, "d_one", PANEL, marks, 0, tuple(str(at // 25) for at in range(25 * calls)))


def test_calls_that_differ_much_are_named_where_they_are_few() -> None:
    (found,) = varying_calls([in_calls("apart", 1.2), in_calls("alike", 1.2)])
    assert f"in logits, is {found.number:.2f} (d one)" in found.detail and 0.7 < (found.number or 0) < 2.0
    assert not list(varying_calls([in_calls(f"s{at}", 0.0) for at in range(20)]))
    assert not list(varying_calls([in_calls("many", 1.2, calls=80)]))
    single = in_calls("single", 1.2)
    assert not list(varying_calls([replace(single, calls=tuple(map(str, range(len(single.by_test)))))]))
    assert not list(varying_calls([replace(single, judge="j")]))


def test_rare_issues_in_few_calls_are_told_from_calls_that_differ() -> None:
    """Two marks of 0 in one call, of 30 in ten calls, look like an SD above .5 and are chance."""
    marks = np.array([[0.0] if at in (0, 1) else [1.0] for at in range(30)])
    rare = ItemScores("s", "d_one", PANEL, marks, 0, tuple(str(at // 3) for at in range(30)))
    means = np.array([rare.test_means])
    assert between_calls(means, rare.calls) / (28 / 30 * 2 / 30) > 0.5
    # The second of the two is in the first's call in 2 of 29 deals.
    assert chance_of_calls(means, rare.calls) == pytest.approx(2 / 29, abs=0.02)
    assert not list(varying_calls([rare]))


LATE, EARLY = Cutoff(until=date(2026, 11, 1), source="its card"), Cutoff(until=date(2026, 10, 31), source="its card")


def test_training_after_the_tests_were_made_is_named_with_its_source() -> None:
    (found,) = trained_on({"a": LATE, "b": EARLY, "c": None}, date(2026, 11, 1), ("",))
    assert "a until 2026-11-01 (its card)" in found.detail and "b" not in found.detail.split("data: ")[1].split()
    assert list(trained_on({"b": EARLY, "c": None}, date(2026, 11, 1), ("",))) == []


def test_tests_of_unknown_date_list_what_is_known_of_each_subject() -> None:
    (found,) = trained_on({"a": LATE, "b": None}, None, ("seeds",))
    assert "a until 2026-11-01 (its card); unknown: b" in found.detail and found.severity == Severity.LOW
    assert list(trained_on({}, None, ("seeds",))) == []


def agreed(value: float, reliable: bool = True) -> Agreed:
    return Agreed("d_one", None, "a, b", "alpha", 60, 60, None, value, None, None, reliable)


def overall(alpha: float, low: float, high: float) -> Agreed:
    return Agreed("overall", None, "a, b", "alpha", 60, 60, None, alpha, low, high, True)


def test_a_dimension_in_which_judges_agree_little_is_named_where_they_agree_else() -> None:
    well, little = overall(0.7, 0.6, 0.8), overall(0.3, 0.2, 0.4)
    (found,) = ambiguous_rubrics([well, agreed(0.39)])
    assert "d one (0.39)" in found.detail
    for rows in ([little, agreed(0.39)], [well, agreed(0.4)], [well, agreed(0.1, reliable=False)]):
        assert list(ambiguous_rubrics(rows)) == []


def verdicts(judge: str, **counts: int) -> list[StatusCount]:
    """Counts of a judge's verdicts by state."""
    states = {state.value: state for state in (*State, *MissingReason)}
    return [StatusCount(judge, "s", "d_one", states[name], count, ()) for name, count in counts.items()]


@pytest.mark.parametrize(("lost", "raised"), [(0, False), (5, False), (6, True)])
def test_more_than_a_twentieth_of_a_judges_verdicts_lost_is_a_finding(lost: int, raised: bool) -> None:
    found = list(lost_verdicts([*verdicts("j", ok=100 - lost, unreadable=lost, open=900), *verdicts("other", ok=9)]))
    assert [finding.title for finding in found] == ["More than 5 % of j's verdicts are unreadable"] * raised
    assert all("seldom lost at random" in finding.detail for finding in found)
    assert unreadable(verdicts("j", ok=100 - lost, unreadable=lost)) == [f"j {lost} of 100"] * (lost > 0)


def test_a_judge_without_a_score_is_named_once_its_verdicts_have_ended() -> None:
    none = verdicts("silent", failed=2, unreadable=3)
    (found,) = judges_without_scores([*none, *verdicts("j", ok=1, failed=9), *verdicts("later", open=5)])
    assert found.title == "silent has no scored row" and "5 verdicts" in found.detail
    assert not list(lost_verdicts(none))


@pytest.mark.parametrize(("low", "raised"), [(-0.1, True), (0.0, True), (0.01, False)])
def test_agreement_by_chance_is_said_only_where_it_may_be(low: float, raised: bool) -> None:
    assert bool(list(chance([overall(0.5, low, 0.6)], []))) == raised


def test_no_figure_is_minus_nought() -> None:
    (found,) = chance([overall(0.2, -1e-12, 0.4)], [])
    assert "95 % interval 0.00 to 0.40" in found.detail
    assert not list(chance([], []))


def test_people_who_have_rated_are_not_asked_for_again(work: Work) -> None:
    drawing_lots(work)
    assert "have people rate" in finding(work, "agreement").remedy
    agreeing_people(work)
    assert "`hab agreement`" in finding(work, "agreement").remedy
