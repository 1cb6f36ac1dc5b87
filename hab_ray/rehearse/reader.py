"""Reads a run's marks, named issues and generation calls, in fractions, to recompute its claims."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from statistics import mean

from hab_ray.analysis.summary import Summary
from hab_ray.rehearse.profile import digest
from hab_ray.results import rows_in

_TOP = 10
_OF_VERDICTS = ("test_id", "sample", "replicate", "state", "issues", "score")
Answer = tuple[str, int]
Marks = Mapping[Answer, Fraction | None]
Named = Mapping[Answer, Mapping[str, Fraction]]


class RunReader:
    """Reads a run and caches its files: some checks read each subject's answers thousands of times.

    `calls` are those of `Truth`.
    """

    def __init__(self, summary: Summary, calls: Mapping[str, Mapping[str, str]]) -> None:
        run = summary.run
        self.summary, self.run, self._slots = summary, run, calls
        self._verdicts = cache(lambda *part: run.verdicts(*part, columns=_OF_VERDICTS))
        self._responses = cache(lambda *part: run.responses(*part, columns=["test_id", "sample", "state", "finish"]))
        self._tests = cache(lambda dimension: list(rows_in(run.tests(dimension, columns=["id", "prompt"]))))

    def marks(self, subject: str, dimension: str, judges: Sequence[str]) -> Marks:
        """Return the judges' mean mark of every expected answer; None if a judge gave none."""
        settings = self.summary.settings
        given: dict[tuple[str, Answer], list[Fraction]] = defaultdict(list)
        left_out = self._left_out(subject, dimension)
        for judge in judges:
            for test, sample, replicate, _, _, score in rows_in(self._verdicts(judge, subject, dimension)):
                if score is not None and replicate < settings.replicates and (test, sample) not in left_out:
                    given[judge, (test, sample)].append(Fraction(score) / _TOP)
        marks: dict[Answer, Fraction | None] = {}
        for (test, _), sample in product(self._tests(dimension), range(settings.samples)):
            means = [mean(own) for judge in judges if (own := given.get((judge, (test, sample))))]
            marks[test, sample] = mean(means) if len(means) == len(judges) else None
        return marks

    def means(self, subject: str, dimension: str, judges: Sequence[str]) -> Mapping[str, Fraction]:
        """Return the mean mark of each test that has one."""
        return by_test(self.marks(subject, dimension, judges))

    def named(self, subject: str, dimension: str, judges: Sequence[str]) -> Named:
        """Return the share of readings that name each issue, for each answer that all judges scored."""
        scored = {answer for answer, mark in self.marks(subject, dimension, judges).items() if mark is not None}
        by_judge: list[dict[Answer, list[Sequence[str]]]] = []
        for judge in judges:
            read: dict[Answer, list[Sequence[str]]] = defaultdict(list)
            for test, sample, replicate, state, issues, _ in rows_in(self._verdicts(judge, subject, dimension)):
                is_asked = replicate < self.summary.settings.replicates and (test, sample) in scored
                if is_asked and state == "ok" and issues is not None:
                    read[test, sample].append(issues)
            by_judge.append(read)
        return {
            answer: {
                x: mean(Fraction(sum(x in one for one in read[answer]), len(read[answer])) for read in by_judge)
                for x in self.summary.rubrics[dimension].issue_letters()
            }
            for answer in scored
            if all(answer in read for read in by_judge)
        }

    def calls(self, dimension: str) -> Mapping[str, str]:
        """Map each test to its generation slot, or to its own id if it was not generated."""
        slots = self._slots.get(dimension, {})
        return {id_: slots.get(digest(prompt), id_) for id_, prompt in self._tests(dimension)}

    def _left_out(self, subject: str, dimension: str) -> set[Answer]:
        """Return the rows that count in no mean: truncated ones, if excluded, and those without an answer."""
        finishes = {"truncated"} if self.summary.settings.truncated == "exclude" else set()
        rows = rows_in(self._responses(subject, dimension))
        return {(test, sample) for test, sample, state, finish in rows if state != "ok" or finish in finishes}


def most(share: Fraction) -> Fraction:
    """Return 1 for a share above a half, 0 for one below, and a half for a half."""
    return Fraction((2 * share >= 1) + (2 * share > 1), 2)


def by_test(marks: Marks) -> Mapping[str, Fraction]:
    """Average the known marks of each test."""
    given: dict[str, list[Fraction]] = defaultdict(list)
    for (test, _), mark in marks.items():
        if mark is not None:
            given[test].append(mark)
    return {test: mean(own) for test, own in given.items()}
