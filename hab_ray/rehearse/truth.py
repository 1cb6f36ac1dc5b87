"""What a run must hold if nothing went wrong: every answer, every verdict, and the scores that follow from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import sqrt

from scipy.special import betaincinv

from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.rehearse.deductions import Deductions, deductions_of
from hab_ray.rehearse.profile import digest, played_as, wordings_shown
from hab_ray.simulator import SimulatorClient, TrueAnswer, TrueVerdict
from hab_ray.work import Work

_TOP = 10
_OUTSIDE = 0.05

ScoreKey = tuple[str, str, str]


@dataclass(frozen=True)
class Figures:
    """A mean of 0..1 with its 95 % interval, over `n` answers; what does not exist is None."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Expected:
    """A verdict as it must stand in a run; `score` (0..10) and `letters` are None where it must be unreadable."""

    letters: tuple[str, ...] | None
    score: int | None


@dataclass(frozen=True)
class Truth:
    """What was planted, by the names of the sweep. A judge's replicates all say the same.

    `plays` gives each subject the simulator's, `models` each judge its model's name; `answers` are by the simulator's
    subject, dimension and digest of the prompt, `verdicts` by the judge's model, the answer's mark and the
    wording that the judge was shown. `wordings` has the one that each judge must be shown in each dimension that it
    judges; scores are those of subjects and judges that are not varied. `words` has,
    by subject and dimension, the digest of each paraphrase, by what names its test.
    """

    deductions: Deductions
    plays: Mapping[str, str]
    models: Mapping[str, str]
    samples: int
    answers: Mapping[tuple[str, str], Mapping[str, TrueAnswer]]
    verdicts: Mapping[tuple[str, str, int], TrueVerdict]
    replicates: int = 1
    varied_subjects: Collection[str] = ()
    varied_judges: Collection[str] = ()
    wordings: Mapping[tuple[str, str], int] = field(default_factory=dict)
    words: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, work: Work, client: SimulatorClient) -> Truth:
        """The truth of what the simulator has answered."""
        sweep = work.sweep
        answers: dict[tuple[str, str], dict[str, TrueAnswer]] = {}
        for answer in client.answers():
            answers.setdefault((answer.subject, answer.dimension), {})[answer.prompt] = answer
        return cls(
            deductions=deductions_of(work),
            plays=played_as(work),
            models={judge.name: work.models[judge.model].entry.wire for judge in (*sweep.judges, *sweep.varied_judges)},
            samples=sweep.samples,
            answers=answers,
            verdicts={(verdict.judge, verdict.mark, verdict.wording): verdict for verdict in client.verdicts()},
            replicates=sweep.replicates,
            varied_subjects={subject.name for subject in sweep.varied_subjects},
            varied_judges={judge.name for judge in sweep.varied_judges},
            wordings=wordings_shown(work),
            words={
                (subject, dimension): {of: digest(own.prompt) for of, own in words.items()}
                for subject, by_dimension in work.paraphrases.items()
                for dimension, words in by_dimension.items()
            },
        )

    def answers_of(self, subject: str, dimension: str) -> Mapping[str, TrueAnswer]:
        """A subject's answers in a dimension, by the digest of the prompt."""
        found = self.answers.get((self.plays[subject], dimension), {})
        own = self.words.get((subject, dimension))
        if own is not None:
            return {prompt: found[prompt] for prompt in own.values() if prompt in found}
        alike = [other for other, play in self.plays.items() if play == self.plays[subject]]
        theirs = {prompt for other in alike for prompt in self.words.get((other, dimension), {}).values()}
        return {prompt: answer for prompt, answer in found.items() if prompt not in theirs} if theirs else found

    def tests_of(self, subject: str, dimension: str, tests: Mapping[str, str]) -> Mapping[str, str]:
        """The digests of the prompts that a subject must be asked, by test id; `tests` has the prompts of all tests."""
        words = self.words.get((subject, dimension))
        if words is None:
            return {id_: digest(prompt) for id_, prompt in tests.items()}
        named = {id_: words.get(id_) or words.get(prompt) for id_, prompt in tests.items()}
        return {id_: own for id_, own in named.items() if own is not None}

    def judges_of(self, subject: str, dimension: str) -> Sequence[str]:
        """Those who must have read a subject's answers in a dimension."""
        beside = self.varied_judges if subject in self.varied_subjects else ()
        return [judge for judge in self.models if judge not in beside and (judge, dimension) in self.wordings]

    def expected(self, judge: str, answer: TrueAnswer) -> Expected | None:
        """A judge's verdict on an answer; None where the judge's model gave none."""
        wording = self.wordings.get((judge, answer.dimension), 0)
        said = self.verdicts.get((self.models[judge], answer.mark, wording))
        if said is None:
            return None
        if not said.readable:
            return Expected(None, None)
        letters = tuple(said.letters)
        cost = sum(self.deductions[answer.dimension][letter] for letter in letters)
        return Expected(letters, max(0, _TOP - cost))

    def scores(self) -> dict[ScoreKey, Figures]:
        """The score of every subject in every dimension and overall, by each judge and by the panel."""
        found: dict[ScoreKey, Figures] = {}
        panel = tuple(judge for judge in self.models if judge not in self.varied_judges)
        for subject in (subject for subject in self.plays if subject not in self.varied_subjects):
            for judge, seats in [*((judge, (judge,)) for judge in panel), (PANEL, panel)]:
                dimensions = [_Sample.of(self._marks(subject, name, seats)) for name in self.deductions]
                for name, sample in zip(self.deductions, dimensions, strict=True):
                    found[subject, name, judge] = sample.figures(self.samples)
                found[subject, OVERALL, judge] = _overall(dimensions, self.samples)
        return found

    def _marks(self, subject: str, dimension: str, seats: Sequence[str]) -> Iterable[Fraction]:
        """The mean mark of each answer on which all these judges have a readable verdict."""
        for answer in self.answers_of(subject, dimension).values():
            verdicts = (self.expected(judge, answer) for judge in seats)
            given = [verdict.score for verdict in verdicts if verdict and verdict.score is not None]
            if len(given) == len(seats):
                yield Fraction(sum(given), _TOP * len(seats))


@dataclass(frozen=True)
class _Sample:
    """Marks of independent tests: how many, their mean, and the variance of the mean where there are two or more."""

    size: int
    mean: Fraction | None
    variance: Fraction | None

    @classmethod
    def of(cls, marks: Iterable[Fraction]) -> _Sample:
        values = list(marks)
        size = len(values)
        if not size:
            return cls(0, None, None)
        mean = sum(values, Fraction(0)) / size
        if size == 1:
            return cls(1, mean, None)
        return cls(size, mean, sum(((value - mean) ** 2 for value in values), Fraction(0)) / (size * (size - 1)))

    def figures(self, samples: int) -> Figures:
        return _figures(self.mean, self.variance, self.size - 1, self.size * samples)


def _overall(parts: Sequence[_Sample], samples: int) -> Figures:
    """The plain mean of the dimensions' means, its degrees of freedom by Welch and Satterthwaite."""
    count, size = len(parts), samples * sum(part.size for part in parts)
    means = [part.mean for part in parts if part.mean is not None]
    variances = [part.variance for part in parts if part.variance is not None]
    if len(means) < count:
        return Figures(None, None, None, size)
    mean = sum(means, Fraction(0)) / count
    if len(variances) < count:
        return _figures(mean, None, 0, size)
    total = sum(variances, Fraction(0))
    spread = sum((v**2 / (part.size - 1) for v, part in zip(variances, parts, strict=True)), Fraction(0))
    return _figures(mean, total / count**2, float(total**2 / spread) if spread else 1, size)


def _figures(mean: Fraction | None, variance: Fraction | None, freedom: float, n: int) -> Figures:
    if mean is None or variance is None:
        return Figures(None if mean is None else float(mean), None, None, n)
    reach = _students_t(freedom) * sqrt(variance)
    return Figures(float(mean), max(0.0, float(mean) - reach), min(1.0, float(mean) + reach), n)


def _students_t(freedom: float) -> float:
    """The distance that Student's t exceeds, to either side, in one case of twenty: by the incomplete beta function."""
    share = float(betaincinv(freedom / 2, 0.5, _OUTSIDE))
    return sqrt(freedom * (1 - share) / share)
