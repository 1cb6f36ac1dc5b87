"""Simulated people who rate a share of a rehearsal's answers by the planted truth plus a planted bias.

Their ratings are written to a file that the finished sweep then names under `raters:`. The run's ratings and its table
of raters are compared with the planted ones.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import floor
from operator import attrgetter
from random import Random
from statistics import mean
from typing import NamedTuple

from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.trust.agreement import MIN_NAMED
from hab_ray.analysis.tables.trust.people import people
from hab_ray.analysis.tables.trust.raters import raters
from hab_ray.rehearse.figures import Checked, Lines, unequal
from hab_ray.rehearse.profile import digest
from hab_ray.rehearse.trouble import People
from hab_ray.rehearse.truth import Truth
from hab_ray.results import Run, asked_judges
from hab_ray.rows import ChosenTest, Rater, Response, State, Verdict, from_table
from hab_ray.stages.views import responses_file, tests_file
from hab_ray.storage.run import PEOPLE
from hab_ray.work import Work
from hab_simulator import TrueAnswer

_TOP = 10


class _RatingId(NamedTuple):
    rater: str
    dimension: str
    subject: str
    test_id: str
    sample: int


@dataclass(frozen=True)
class PlantedRatings:
    """The planted scores, and the marks of the same answers by each judge and by the panel (if complete)."""

    scores: Mapping[_RatingId, int]
    marks: Mapping[str, Mapping[_RatingId, Fraction]]


def plant(work: Work, truth: Truth, crowd: People, seed: int) -> PlantedRatings:
    """Draw the ratings: who rates which answer, and the score."""
    scores: dict[_RatingId, int] = {}
    seats = {PANEL: truth.panel, **{judge: (judge,) for judge in truth.panel}}
    marks: dict[str, dict[_RatingId, Fraction]] = {seat: {} for seat in seats}
    for rated, answer in _candidates(work, truth, crowd):
        draws = Random(f"{seed} {rated}")
        if draws.random() < crowd.share:
            scores[rated] = _rating(truth, answer, crowd.bias, draws.random())
            for seat, judges in seats.items():
                if (mark := truth.mark(judges, answer)) is not None:
                    marks[seat][rated] = mark
    return PlantedRatings(scores, marks)


def _candidates(work: Work, truth: Truth, crowd: People) -> Iterator[tuple[_RatingId, TrueAnswer]]:
    """Yield each answer of the subjects without variants, once per person."""
    for dimension, tests in _tests(work).items():
        for subject in work.sweep.subject_names:
            answers = truth.answers_of(subject, dimension)
            rows = work.run.read(Response, responses_file(subject, dimension))
            texts = {(row.test_id, row.sample): row.text for row in rows}
            for test, sample in product(tests, range(truth.samples)):
                text = texts.get((test.id, sample), "")
                for answer in answers.get(digest(test.prompt), ()):
                    if answer.mark in text:
                        for number in range(1, crowd.raters + 1):
                            yield _RatingId(f"person-{number}", dimension, subject, test.id, sample), answer


def _tests(work: Work) -> dict[str, list[ChosenTest]]:
    return {dimension: work.run.read(ChosenTest, tests_file(dimension)) for dimension in work.rubrics}


def _rating(truth: Truth, answer: TrueAnswer, bias: float, draw: float) -> int:
    true = max(0, _TOP - sum(truth.deductions[answer.dimension][letter] for letter in answer.letters))
    biased = floor(true + bias) + (draw < (true + bias) % 1)
    return min(_TOP, max(0, biased))


def with_ratings(work: Work, planted: PlantedRatings) -> Work:
    """Write the ratings to a file and return the work with it under `raters:`. Odd persons name tests by text."""
    tests = {test.id: test for tests in _tests(work).values() for test in tests}
    lines = (json.dumps(_line(rated, score, tests[rated.test_id])) for rated, score in planted.scores.items())
    work.run.folder.put(PEOPLE, "".join(f"{line}\n" for line in lines).encode())
    return replace(work, sweep=work.sweep.model_copy(update={"raters": (work.run_path / PEOPLE,)}))


def _line(rated: _RatingId, score: int, test: ChosenTest) -> dict[str, object]:
    is_even = rated.rater[-1] in "02468"
    named = {"test_id": test.id} if is_even else {"prompt": test.prompt, "context": test.context}
    who = {"rater": rated.rater, "kind": "person", "subject": rated.subject, "sample": rated.sample}
    return {"dimension": rated.dimension, **named, **who, "score": score}


def compare_people(run: Run, summary: Summary, planted: PlantedRatings, calls: int = 0) -> Checked:
    """Compare a run's ratings and tables with the planted ones; `calls` is how many calls adding the ratings took."""
    wrong = [*_wrong_ratings(run, planted), *_wrong_lines(summary, planted), *_wrong_differences(summary, planted)]
    if calls:
        wrong.append(f"{calls} calls were sent after ratings were added, expected none")
    if not planted.scores:
        wrong.append("nobody has rated anything; raise `people.share` or `people.raters`")
    return Checked(len(planted.scores), tuple(wrong))


def _wrong_ratings(run: Run, planted: PlantedRatings) -> Iterator[str]:
    others = [rater for rater in run.raters if rater not in asked_judges(run)]
    found = [(rater, row) for rater in others for row in from_table(Verdict, run.verdicts(rater))]
    counts = Counter(_RatingId(rater, row.dimension, row.subject, row.test_id, row.sample) for rater, row in found)
    for rated in sorted(planted.scores.keys() | counts.keys()):
        if counts[rated] != (rated in planted.scores):
            yield f"{_place(rated)}: there {counts[rated]} times, expected {int(rated in planted.scores)} times"
    for rater, row in found:
        rated = _RatingId(rater, row.dimension, row.subject, row.test_id, row.sample)
        expected = rater, Rater.PERSON, State.OK, None, planted.scores.get(rated, row.score)
        if (row.judge, row.kind, row.state, row.issues, row.score) != expected:
            yield f"{_place(rated)}: {row.kind} {row.state} score {row.score}, planted {expected[-1]}"


def _place(rated: _RatingId) -> str:
    return f"{rated.rater} on {rated.subject}, {rated.dimension}, test {rated.test_id}, sample {rated.sample}"


def _wrong_lines(summary: Summary, planted: PlantedRatings) -> Iterator[str]:
    by_line: dict[tuple[str, ...], list[_RatingId]] = defaultdict(list)
    for rated in planted.scores:
        by_line[rated.rater, rated.dimension].append(rated)
    lines = raters(summary)
    shown: Lines = {(line.rater, line.dimension): _shown(line) for line in lines}
    if len(shown) < len(lines):
        yield f"the table of raters has {len(lines)} lines for {len(shown)} raters and dimensions"
    yield from unequal("the line", shown, {key: _figures(planted, rated) for key, rated in by_line.items()})


def _wrong_differences(summary: Summary, planted: PlantedRatings) -> Iterator[str]:
    """Yield differences of judges and people in the table of people that differ from the planted ones.

    A person with few ratings has no lines of their own there.
    """
    steps: dict[tuple[str, ...], list[Fraction]] = defaultdict(list)
    for judge, marks in planted.marks.items():
        if judge == PANEL and len(planted.marks) == 2:
            continue  # a panel of one judge has no lines of its own
        for rated, mark in marks.items():
            step = mark - Fraction(planted.scores[rated], _TOP)
            steps[rated.dimension, judge, "all"].append(step)
            steps[rated.dimension, judge, rated.rater].append(step)
    shown: Lines = {
        (row.dimension, row.judge, row.rater or "all"): (row.difference,)
        for row in people(summary)
        if row.issue is None and row.judge is not None
    }
    wanted: Lines = {
        place: (mean(found),)
        for place, found in steps.items()
        if place in shown or place[-1] == "all" or len(found) >= MIN_NAMED
    }
    yield from unequal("the difference from people", {place: shown[place] for place in shown.keys() & steps}, wanted)


_shown = attrgetter("rated", "failed", "compared", "mean", "mean_answered", "own", "panel", "difference", "unscored")


def _figures(planted: PlantedRatings, rated: Sequence[_RatingId]) -> Sequence[float | int | None]:
    """Compute the expected counts and means of a line, in the order of `_shown`."""
    own = {each: Fraction(planted.scores[each], _TOP) for each in rated}
    panel = planted.marks[PANEL]
    both = [each for each in rated if each in panel]
    mean = _mean(own.values())
    of_both, of_panel = _mean(own[each] for each in both), _mean(panel[each] for each in both)
    difference = None if of_both is None or of_panel is None else of_panel - of_both
    return (len(rated), 0, len(both), mean, mean, of_both, of_panel, difference, 0)


def _mean(values: Iterable[Fraction]) -> float | None:
    given = list(values)
    return float(mean(given)) if given else None
