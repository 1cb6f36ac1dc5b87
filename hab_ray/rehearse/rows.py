"""Compares every answer and verdict of a run with those planted for its subject and test."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from hab_ray.rehearse.figures import Checked
from hab_ray.rehearse.profile import digest
from hab_ray.rehearse.truth import Expected, Truth, given_mark
from hab_ray.results import Run, rows_in
from hab_ray.rows import State
from hab_simulator import TrueAnswer


class _Row(NamedTuple):
    test_id: str
    sample: int
    replicate: int = 0


class _Answer(NamedTuple):
    test_id: str
    dimension: str
    subject: str
    sample: int
    state: str
    text: str


class _Verdict(NamedTuple):
    test_id: str
    dimension: str
    subject: str
    sample: int
    state: str
    judge: str
    replicate: int
    issues: list[str] | None
    score: int | None
    asks: int
    reading: str
    other_score: int | None


def compare_rows(run: Run, truth: Truth) -> Checked:
    """Compare all rows of a run; raise DamagedFile if a file cannot be read."""
    parts = [
        _Part(run, truth, subject, dimension)
        for dimension in run.dimensions
        for subject in (*run.subjects, *(varied.name for varied in run.record.sweep.varied_subjects))
    ]
    wrong = tuple(row for part in parts for row in part.wrong())
    return Checked(sum(part.compared for part in parts), wrong)


class _Part:
    def __init__(self, run: Run, truth: Truth, subject: str, dimension: str) -> None:
        self._run, self._truth = run, truth
        self._subject, self._dimension = subject, dimension
        tests = rows_in(run.tests(dimension, columns=["id", "prompt", "context"]))
        self._tests = truth.asked_of(
            subject, dimension, {id_: (prompt, context or "") for id_, prompt, context in tests}
        )
        planted = truth.answers_of(subject, dimension)
        digests = {id_: digest(prompt) for id_, (prompt, _) in self._tests.items()}
        self._given = {id_: planted[prompt] for id_, prompt in digests.items() if prompt in planted}
        self._unasked = set(planted) - set(digests.values())
        self._rows: dict[_Row, tuple[_Answer, TrueAnswer]] = {}
        rows = truth.given.get((subject, dimension), ())
        self._file = {_Row(row.test_id, row.sample): row for row in rows}
        self._is_given = any(subject == other for other, _ in truth.given)
        self.compared = 0

    def wrong(self) -> Iterator[str]:
        """Yield wrong, missing and duplicate rows."""
        for prompt in sorted(self._unasked):
            yield self._row("", prompt[:12], "was answered, but is not among the tests of the run")
        for id_ in () if self._is_given else self._tests.keys() - self._given.keys():
            yield self._row("", id_, "the subject was never asked it")
        yield from self._wrong_answers()
        yield from self._wrong_verdicts()

    def _wrong_answers(self) -> Iterator[str]:
        table = self._run.responses(self._subject, self._dimension, columns=_Answer._fields)
        rows = list(map(_Answer._make, rows_in(table)))
        yield from self._miscounted("", Counter(_Row(row.test_id, row.sample) for row in rows))
        for row in rows:
            if problem := self._problem_of_answer(row):
                yield self._row("", row.test_id, problem)
        stand_for = Counter(true.mark for _, true in self._rows.values())
        for test_id, given in self._given.items():
            for answer in given:
                if stand_for[answer.mark] > answer.times:
                    samples = f"one answer stands for {stand_for[answer.mark]} samples"
                    yield self._row("", test_id, f"{samples}; it was given {answer.times} times")

    def _problem_of_answer(self, row: _Answer) -> str:
        if (row.subject, row.dimension) != (self._subject, self._dimension):
            return f"an answer of {row.subject} in {row.dimension}"
        given = self._given.get(row.test_id)
        if self._is_given:
            return self._problem_of_given(row, given or ())
        if given is None:
            return ""
        if row.state != State.OK:
            return f"no answer: {row.state}"
        true = next((answer for answer in given if answer.mark in row.text), None)
        if true is None:
            return "not the answer that the subject gave to this test"
        self._rows[_Row(row.test_id, row.sample)] = row, true
        return ""

    def _problem_of_given(self, row: _Answer, given: Sequence[TrueAnswer]) -> str:
        at = _Row(row.test_id, row.sample)
        in_file = self._file.get(at)
        if in_file is None or (row.state, row.text) != (in_file.state, in_file.text):
            return "" if in_file is None else "not the answer that is given"
        if in_file.state is State.OK:
            prompt, _ = self._tests[row.test_id]
            mark = given_mark(in_file, prompt)
            self._rows[at] = row, next(answer for answer in given if answer.mark == mark)
        return ""

    def _wrong_verdicts(self) -> Iterator[str]:
        for judge in self._truth.judges_of(self._subject, self._dimension):
            table = self._run.verdicts(judge, self._subject, self._dimension, columns=_Verdict._fields)
            rows = list(map(_Verdict._make, rows_in(table)))
            yield from self._miscounted(judge, Counter(_Row(row.test_id, row.sample, row.replicate) for row in rows))
            left = {at: list(self._truth.expected(judge, true)) for at, (_, true) in self._rows.items()}
            for at, (answer, true) in self._rows.items():
                if problem := self._problem_of_request(judge, answer, true):
                    yield self._row(judge, at.test_id, problem)
            for row in rows:
                if problem := self._problem_of_verdict(judge, row, left):
                    yield self._row(judge, row.test_id, problem)

    def _problem_of_request(self, judge: str, answer: _Answer, true: TrueAnswer) -> str:
        """Check that a judge was shown test, context and answer between the right marks, or in imported wording."""
        prompt, context = self._tests[answer.test_id]
        texts = {"prompt": prompt, "context": context, "response": answer.text}
        wanted = self._truth.shown_to(judge, true, texts)
        found = self._truth.heard_of(judge, true)
        if self._is_given and any(said.parts == wanted for said in found):
            return ""
        for said in found:
            if "request" in wanted and said.parts != wanted:
                return "the judge was sent another text than the imported wording makes of test and answer"
            for name in sorted(wanted.keys() | said.parts.keys()):
                if said.parts.get(name) != wanted.get(name):
                    return f"the judge was shown a wrong text between the marks {name}"
        return ""

    def _problem_of_verdict(self, judge: str, row: _Verdict, left: Mapping[_Row, list[Expected]]) -> str:
        """Return what is wrong with a verdict, or ""; a correct one removes its planted verdict from `left`."""
        if (row.subject, row.dimension, row.judge) != (self._subject, self._dimension, judge):
            return f"a verdict of {row.judge} on {row.subject} in {row.dimension}"
        at = _Row(row.test_id, row.sample)
        if at not in self._rows:
            return ""
        if not self._truth.said_of(judge, self._rows[at][1]):
            return "a verdict, but the judge gave none on this answer"
        letters = None if row.issues is None else tuple(sorted(row.issues))
        literal = self._truth.literals.get((judge, self._dimension))
        if row.reading != (literal.reading if literal else ""):
            return f"read by the reading {row.reading!r}, expected by {literal.reading if literal else ''!r}"
        found = Expected(letters, row.score, row.other_score)
        is_first = row.asks == 1  # a re-asked verdict has no other score, as its first reply was broken
        known = next((each for each in left[at] if found == (each if is_first else replace(each, other=None))), None)
        if (row.state == State.OK) is (found.score is not None) and known is not None:
            left[at].remove(known)
            return ""
        planted = " or ".join(map(_shown, left[at])) or "nothing more: one verdict stands for several replicates"
        return f"{row.state} {_shown(found)}, planted {planted}"

    def _miscounted(self, judge: str, counts: Mapping[_Row, int]) -> Iterator[str]:
        self.compared += sum(counts.values())
        replicates = self._truth.replicates if judge else 1
        owed = {_Row(*row) for row in product(self._tests, range(self._truth.samples), range(replicates))}
        if self._is_given:
            rows = (at for at, row in self._file.items() if not judge or row.state is State.OK)
            owed = {row._replace(replicate=number) for row, number in product(rows, range(replicates))}
        for row in sorted(owed | counts.keys()):
            times, wanted = counts.get(row, 0), int(row in owed)
            if times != wanted:
                where = f"sample {row.sample}" + (f", replicate {row.replicate}" if replicates > 1 else "")
                yield self._row(judge, row.test_id, f"there {times} times ({where}), expected {wanted} times")

    def _row(self, judge: str, test_id: str, problem: str) -> str:
        """Return a problem of a row with its place; `judge` is "" for an answer."""
        reader = f", judge {judge}" if judge else ""
        return f"{self._subject}, {self._dimension}{reader}, test {test_id}: {problem}"


def _shown(verdict: Expected) -> str:
    if verdict.score is None and verdict.letters is None and verdict.other is None:
        return "without a score"
    score = "none" if verdict.score is None else f"{verdict.score:g}"
    other = "" if verdict.other is None else f" ({verdict.other:g} by the other reading)"
    return f"{'-' if verdict.letters is None else ''.join(verdict.letters) or 'none'}, score {score}{other}"
