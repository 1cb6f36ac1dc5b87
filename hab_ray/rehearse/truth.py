"""The expected content of a run: every answer, every verdict, and the scores that follow from them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import mean
from typing import TypeVar

from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.calls import Finish
from hab_ray.rehearse.figures import Figures, Item, figures_of, mean_of
from hab_ray.rehearse.imported import request_in
from hab_ray.rehearse.profile import deductions_of, digest, marks_of, played_as, wordings_shown
from hab_ray.rehearse.requests import Sent, settings_of_judges, settings_of_subjects, shown_parts
from hab_ray.rows import Candidate, Response, State
from hab_ray.rubric import LiteralJudging, Reading
from hab_ray.stages.views import candidates_file
from hab_ray.work import Work, given_rows, given_tests
from hab_simulator import (
    SimulatorClient,
    TrueAnswer,
    TrueVerdict,
    exactly,
    fingerprint,
    mark_of_given,
    spaced,
)

_TOP = 10

ScoreKey = tuple[str, str, str]
Asked = tuple[str, str]
Answers = Mapping[str, Sequence[TrueAnswer]]
_AllAnswers = dict[tuple[str, str], dict[str, list[TrueAnswer]]]
_Given = TypeVar("_Given", TrueAnswer, TrueVerdict)


@dataclass(frozen=True)
class Expected:
    """An expected verdict; `score` (0..10) and `letters` are None if it must be unreadable.

    `other` is the score of a first reply in imported wording by the reading that the rubric does not use.
    """

    letters: tuple[str, ...] | None
    score: int | None
    other: int | None = None


class Truth:
    """The planted truth under the sweep's names: every sample and every replicate separately.

    - `plays` maps subjects to the simulator's subjects, `models` judges to their models' wire names.
    - `answers` are keyed by the simulator's subject and dimension, then by the prompt's digest.
    - `verdicts` are keyed by the judge's model, the answer's mark and the number of the wording shown.
    - `wordings` is the number of the expected wording by judge and dimension.
    - `words` are the paraphrases by subject and dimension, keyed by what names their test.
    - `subject_settings` and `judge_settings` distinguish subjects and judges that share a model.
    - `marks` are the names of the fence marks around the texts that judges read.
    - `given` are the given answers by subject and dimension; `texts` what a judge must be shown of each, by its mark.
    - `uncounted` is how many of several equal given answers count in no mean, by subject and mark.
    - `literals` are the imported wordings by judge and dimension.
    - `calls` are the generation slots or calls of tests by dimension and the prompt's digest.
    """

    def __init__(self, work: Work, client: SimulatorClient) -> None:
        sweep = work.sweep
        judges = (*sweep.judges, *sweep.varied_judges)
        self.given = given_rows(work).responses if sweep.responses is not None else {}
        given_answers, self.texts, self.uncounted = _given_answers(work, self.given)
        answers: _AllAnswers = {}
        for answer in client.answers():
            by_prompt = answers.setdefault((answer.subject, answer.dimension), {})
            by_prompt.setdefault(answer.prompt, []).append(answer)
        self.answers = answers | given_answers
        self.verdicts: dict[tuple[str, str, int], list[TrueVerdict]] = {}
        for verdict in client.verdicts():
            self.verdicts.setdefault((verdict.judge, verdict.mark, verdict.wording), []).append(verdict)
        self.deductions = deductions_of(work)
        self.plays = {**played_as(work), **{subject: subject for subject, _ in self.given}}
        self.models = {judge.name: work.models[judge.model].entry.wire for judge in judges}
        self.samples, self.replicates = sweep.samples, sweep.replicates
        self.varied_subjects = {subject.name for subject in sweep.varied_subjects}
        self.varied_judges = {judge.name for judge in sweep.varied_judges}
        self.wordings = wordings_shown(work)
        self.words = {
            (subject, dimension): {of: (own.prompt, own.context) for of, own in words.items()}
            for subject, by_dimension in work.paraphrases.items()
            for dimension, words in by_dimension.items()
        }
        self.subject_settings, self.judge_settings = settings_of_subjects(work), settings_of_judges(work)
        self.manners = client.manners()
        self.marks = marks_of(work.prompts.judge.user)
        self.literals = {
            (judge.name, dimension): literal
            for judge in judges
            for dimension, rubric in work.wordings.get(judge.name, work.rubrics).items()
            if (literal := rubric.literal) is not None and literal.judging is not None
        }
        self.calls = {dimension: _slots(work, dimension) for dimension in work.rubrics}
        self._requests: dict[tuple[str, LiteralJudging], str] = {}

    def answers_of(self, subject: str, dimension: str) -> Answers:
        """Return a subject's answers in a dimension by the prompt's digest."""
        play = self.plays[subject]
        alike = [other for other in self.plays if self.plays[other] == play]
        given = self.answers.get((play, dimension), {})
        found = {
            prompt: own
            for prompt, answers in given.items()
            if (own := self._own(self.subject_settings, subject, alike, answers))
        }
        words = self.words.get((subject, dimension))
        if words is not None:
            asked = {digest(prompt) for prompt, _ in words.values()}
            return {prompt: answers for prompt, answers in found.items() if prompt in asked}
        theirs = {digest(prompt) for other in alike for prompt, _ in self.words.get((other, dimension), {}).values()}
        return {prompt: answers for prompt, answers in found.items() if prompt not in theirs}

    def _own(
        self, settings: Mapping[str, Sent], who: str, alike: Iterable[str], given: Sequence[_Given]
    ) -> Sequence[_Given]:
        """Return the replies to `who`, one of those that share a model, by its settings."""
        if len({settings.get(other) for other in alike}) < 2:
            return given
        return [each for each in given if Sent.of(self.manners[each.manner]) == settings[who]]

    def asked_of(self, subject: str, dimension: str, tests: Mapping[str, Asked]) -> Mapping[str, Asked]:
        """Return the prompts and contexts that a subject must be asked, by test id; `tests` are the original ones."""
        words = self.words.get((subject, dimension))
        if words is None:
            return tests
        named = {id_: words.get(id_) or words.get(own[0]) for id_, own in tests.items()}
        return {id_: own for id_, own in named.items() if own is not None}

    @property
    def panel(self) -> Sequence[str]:
        """Judges without the varied ones."""
        return [judge for judge in self.models if judge not in self.varied_judges]

    def judges_of(self, subject: str, dimension: str) -> Sequence[str]:
        """Return the judges that must have read a subject's answers in a dimension."""
        excluded = self.varied_judges if subject in self.varied_subjects else ()
        return [judge for judge in self.models if judge not in excluded and (judge, dimension) in self.wordings]

    def said_of(self, judge: str, answer: TrueAnswer) -> Sequence[TrueVerdict]:
        """Return a judge's verdicts on an answer; on a given one, only those for requests that showed exactly it."""
        said, texts = self.heard_of(judge, answer), self.texts.get(answer.mark)
        if texts is None or not said:
            return said
        wanted = self.shown_to(judge, answer, texts)
        return [each for each in said if each.parts == wanted]

    def heard_of(self, judge: str, answer: TrueAnswer) -> Sequence[TrueVerdict]:
        """Return a judge's verdicts on an answer, including those on given answers that differ only in white space."""
        mark = answer.mark.rpartition(" ")[0] if answer.mark in self.texts else answer.mark
        wording = self.wordings.get((judge, answer.dimension), 0)
        alike = [
            other
            for other, model in self.models.items()
            if model == self.models[judge] and self.wordings.get((other, answer.dimension), 0) == wording
        ]
        return self._own(self.judge_settings, judge, alike, self.verdicts.get((self.models[judge], mark, wording), ()))

    def shown_to(self, judge: str, answer: TrueAnswer, texts: Mapping[str, str]) -> Mapping[str, str]:
        """Return the simulator's fingerprints of what a judge must be shown: the texts, or a whole literal request."""
        literal = self.literals.get((judge, answer.dimension))
        if literal is not None and literal.judging is not None:
            key = answer.mark, literal.judging
            if key not in self._requests:
                self._requests[key] = exactly(request_in(literal.judging, texts))
            return {"request": self._requests[key]}
        given = {"given": spaced(texts["response"])} if answer.mark in self.texts else {}
        return {**shown_parts(self.marks, **texts), **given}

    def expected(self, judge: str, answer: TrueAnswer) -> Sequence[Expected]:
        """Return a judge's expected verdicts on an answer: one per replicate, or fewer if the judge gave fewer."""
        said = self.said_of(judge, answer)
        literal, points = self.literals.get((judge, answer.dimension)), self.deductions[answer.dimension]
        if literal is not None and literal.reading is Reading.PUBLISHED:
            return [verdict for each in said for verdict in _by_published_reading(each, points)]
        readable = [
            Expected(
                tuple(each.letters),
                _score(each.letters, points),
                _score(each.letters + each.twice, points) if literal and at < each.in_braces else None,
            )
            for each in said
            for at in range(each.readable)
        ]
        unread = sum(each.unreadable for each in said)
        owed = answer.times * self.replicates - len(readable)
        return [*readable, *[Expected(None, None)] * min(unread, max(0, owed))]

    def mark(self, seats: Sequence[str], answer: TrueAnswer) -> Fraction | None:
        """Average the judges' marks of an answer, each over its replicates; None if a judge gave none."""
        marks = []
        for judge in seats:
            given = [each.score for each in self.expected(judge, answer) if each.score is not None]
            if not given:
                return None
            marks.append(Fraction(sum(given), _TOP * len(given)))
        return mean(marks)

    def scores(self) -> dict[ScoreKey, Figures]:
        """Compute the scores of unvaried subjects by dimension and overall, by each judge and by the panel."""
        found: dict[ScoreKey, Figures] = {}
        panel = tuple(self.panel)
        for subject in (subject for subject in self.plays if subject not in self.varied_subjects):
            for judge, seats in [*((judge, (judge,)) for judge in panel), (PANEL, panel)]:
                dimensions = [figures_of(list(self._marks(subject, name, seats))) for name in self.deductions]
                for name, figures in zip(self.deductions, dimensions, strict=True):
                    found[subject, name, judge] = figures
                found[subject, OVERALL, judge] = mean_of(dimensions)
        return found

    def _marks(self, subject: str, dimension: str, seats: Sequence[str]) -> Iterable[Item]:
        calls = self.calls.get(dimension, {})
        for prompt, answers in self.answers_of(subject, dimension).items():
            counted = ((answer, answer.times - self.uncounted.get((subject, answer.mark), 0)) for answer in answers)
            marks = [mark for answer, times in counted for mark in [self.mark(seats, answer)] * times]
            given = [mark for mark in marks if mark is not None]
            if given:
                yield Item(mean(given), len(given), calls.get(prompt, prompt))


def _slots(work: Work, dimension: str) -> Mapping[str, str]:
    """Return the generation slot in each candidate's id, or the call of each given test, by the prompt's digest.

    Of candidates with the same prompt, the first that was not rejected becomes a test.
    """
    rows = [row for row in work.run.read(Candidate, candidates_file(dimension)) if row.state is State.OK]
    rows.sort(key=lambda row: row.id, reverse=True)
    given = {digest(test.prompt): test.call for test in given_tests(work).get(dimension, ()) if test.call}
    return {digest(row.prompt): row.id.rpartition("-")[0] for row in rows} | given


def _by_published_reading(said: TrueVerdict, points: Mapping[str, int]) -> Iterator[Expected]:
    """Yield verdicts as the published code reads them: one per reply, from its text between first and last brace."""
    listed, strict = said.letters + said.twice, _score(said.letters, points)
    for _ in range(said.in_braces):
        yield Expected(tuple(sorted(listed)), _score(listed, points), strict)
    for _ in range(said.readable - said.in_braces):
        yield Expected(None, None, strict)
    for _ in range(said.unreadable):
        yield Expected(None, None)


def _score(letters: str, points: Mapping[str, int]) -> int:
    return max(0, _TOP - sum(points[letter] for letter in letters))


def is_left_out(work: Work, row: Response) -> bool:
    """Whether a given answer counts in no mean because it was truncated."""
    return row.finish == Finish.TRUNCATED and work.sweep.truncated == "exclude"


def given_mark(row: Response, prompt: str) -> str:
    """Return the mark that identifies a given answer; the simulator knows only its part before the space."""
    return f"{mark_of_given(row.dimension, fingerprint(prompt), fingerprint(row.text))} {exactly(row.text)[:16]}"


def _given_answers(
    work: Work, given: Mapping[tuple[str, str], Sequence[Response]]
) -> tuple[_AllAnswers, dict[str, Mapping[str, str]], Counter[tuple[str, str]]]:
    """Return given answers in the form of simulated ones, equal ones once; and `texts` and `uncounted` of `Truth`."""
    answers: _AllAnswers = {}
    texts: dict[str, Mapping[str, str]] = {}
    uncounted: Counter[tuple[str, str]] = Counter()
    tests = {(d, test.id): test for d, own in (given_rows(work).tests if given else {}).items() for test in own}
    for (subject, dimension), rows in given.items():
        times: Counter[tuple[str, str]] = Counter()
        for row in rows:
            if row.state is State.OK:
                test = tests[dimension, row.test_id]
                mark = given_mark(row, test.prompt)
                times[digest(test.prompt), mark] += 1
                texts[mark] = {"prompt": test.prompt, "context": test.context, "response": row.text}
                uncounted[subject, mark] += is_left_out(work, row) or row.sample >= work.sweep.samples
        for (prompt, mark), count in times.items():
            answer = TrueAnswer(subject=subject, dimension=dimension, prompt=prompt, letters="", mark=mark, times=count)
            answers.setdefault((subject, dimension), {}).setdefault(prompt, []).append(answer)
    return answers, texts, uncounted
