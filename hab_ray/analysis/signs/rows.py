"""Checks of the rows: open, missing, refused, truncated, or asked with other settings."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.intervals import Array, sums_by
from hab_ray.analysis.marks import OVERALL, PANEL, ItemScores
from hab_ray.analysis.pairs import holm
from hab_ray.analysis.power import LEVEL
from hab_ray.analysis.row_status import MissingReason, StatusCount
from hab_ray.analysis.signflips import p_among
from hab_ray.analysis.signs.finding import Finding, Severity, percent, spoken
from hab_ray.analysis.tables.bounds import TOLERATED_MISSING, Bounds
from hab_ray.results import Sent
from hab_ray.rows import Score
from hab_ray.stages.views import tests_file
from hab_ray.visible import counted, p_value

_DRAWS, _SEED, _TOLERANCE = 5000, 0, 1e-9


@dataclass(frozen=True)
class Loss:
    """The shares (0..1) of missing rows of a subject or dimension and of all others, with the p-value of the two."""

    name: str
    share: float
    share_of_others: float
    p: float


def losses(panel: Iterable[ItemScores]) -> Iterator[Loss]:
    """Yield the losses of each subject, then of each dimension, if there are several; nothing if no row is missing.

    `panel` holds the panel's marks of every subject in every dimension. The rows of a generation call may be lost
    together, all samples of a test or all subjects' answers, so a call is one observation. Null hypothesis of a
    subject: in every call its lost rows may as well be any other subject's. Null hypothesis of a dimension: its calls
    may as well be any other's; a call's loss is then its lost rows less those expected of its size.
    """
    cells = defaultdict[str, list[ItemScores]](list)
    for cell in panel:
        if cell.rows:
            cells[cell.dimension].append(cell)
    lost = [np.array([_by_call(cell, np.isnan(cell.by_test)) for cell in own]) for own in cells.values()]
    if not any(part.any() for part in lost):
        return
    asked = [_by_call(own[0], np.ones_like(own[0].by_test)) for own in cells.values()]
    subjects = [cell.subject for cell in next(iter(cells.values()))]
    by_subject = np.hstack(lost)
    if len(subjects) > 1:
        rows = np.full(len(subjects), sum(part.sum() for part in asked))
        lossy = by_subject[:, by_subject.any(axis=0)]
        p_values = [p_among(own, lossy, np.ones(lossy.shape, dtype=np.bool_)) for own in range(len(subjects))]
        yield from _losses(subjects, by_subject.sum(axis=1), rows, p_values)
    if len(cells) > 1:
        rows = np.array([part.sum() for part in asked]) * len(subjects)
        of_all = [part.sum(axis=0) for part in lost]
        yield from _losses(
            list(cells), np.array([part.sum() for part in of_all]), rows, _p_of_dimensions(of_all, asked)
        )


def _losses(names: Sequence[str], lost: Array, rows: Array, p_values: Sequence[float]) -> Iterator[Loss]:
    shares, shares_of_others = lost / rows, (lost.sum() - lost) / (rows.sum() - rows)
    return map(Loss, names, shares.tolist(), shares_of_others.tolist(), p_values)


def _by_call(cell: ItemScores, rows: NDArray[np.generic]) -> Array:
    return sums_by(rows.sum(axis=1, dtype=np.float64), cell.test_calls)


def _p_of_dimensions(lost: Sequence[Array], asked: Sequence[Array]) -> list[float]:
    """Return the p-value of each dimension by random permutations, given its lost and requested rows by call."""
    joined, sizes = np.concatenate(lost), np.concatenate(asked)
    excess = joined - sizes * (joined.sum() / sizes.sum())
    starts = np.cumsum([0, *(len(part) for part in lost[:-1])])
    random = np.random.default_rng(_SEED)
    drawn = np.array([np.add.reduceat(random.permutation(excess), starts) for _ in range(_DRAWS)])
    is_far = np.abs(drawn) >= np.abs(np.add.reduceat(excess, starts)) - _TOLERANCE
    p_values: list[float] = ((1 + is_far.sum(axis=0)) / (1 + _DRAWS)).tolist()
    return p_values


TOLERATED_REFUSALS = TOLERATED_CUT = 0.05
_UNHEEDED = "not sent or ignored"
_Cell = tuple[str, int, int]
"""A subject, a number of its rows in a dimension, and the number of all its rows there."""


def unfinished(statuses: Iterable[StatusCount], verdicts_per_answer: int) -> Iterator[Finding]:
    """Report rows without a reply, and the verdicts that wait for them."""
    still_open = [s for s in statuses if s.state is MissingReason.OPEN]
    answers = sum(s.count for s in still_open if s.judge is None)
    verdicts = answers * verdicts_per_answer + sum(s.count for s in still_open if s.judge is not None)
    if still_open:
        yield Finding(
            "unfinished",
            Severity.HIGH,
            "The run is not complete",
            f"Still open: {counted(answers, 'answer')} and {counted(verdicts, 'verdict')}."
            if answers
            else f"Still open: {counted(verdicts, 'verdict')}.",
            "`hab run` continues where it stopped; if the budget was reached, raise it first.",
            answers + verdicts,
        )


def without_tests(tests: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Report dimensions without tests: the run has not made them yet, could not, or its folder lacks their file."""
    files = [tests_file(dimension) for dimension, ids in tests.items() if not ids]
    if files:
        yield Finding(
            "no_tests",
            Severity.HIGH,
            "Some dimensions have no tests",
            f"The run's folder has no test in {', '.join(files)}. Without the tests no answer to them has a score.",
            "`hab run` writes them, or says why it cannot; if the folder is a copy, copy it again.",
            len(files),
        )


def without_overall(panel: Sequence[Score], statuses: Iterable[StatusCount]) -> Iterator[Finding]:
    """Report subjects without a scored row in some dimension, although none of their rows is open."""
    still_open = {status.subject for status in statuses if status.state is MissingReason.OPEN}
    ended = [score for score in panel if score.subject not in still_open]
    for subject in [score.subject for score in ended if score.dimension == OVERALL and score.mean is None]:
        own = [score for score in ended if score.subject == subject and score.dimension != OVERALL]
        where = [spoken(score.dimension) for score in own if score.mean is None]
        others = "; a mean over its other dimensions would not be comparable" if len(where) < len(own) else ""
        yield Finding(
            "no_overall",
            Severity.MEDIUM,
            f"{subject} has no overall score",
            f"It has no scored row in {', '.join(where)}{others}.",
            "Read the reasons under excluded rows; --retry-failed asks failed rows again.",
            len(where),
        )


def missing(doubtful: Iterable[Bounds]) -> Iterator[Finding]:
    """Report cells of the leaderboard with more than 2 % of their rows missing."""
    means = [b for b in doubtful if b.judge == PANEL and b.dimension != OVERALL]
    if means:
        most = max(means, key=lambda b: b.missing / b.rows)
        yield Finding(
            "missing",
            Severity.MEDIUM,
            f"More than {percent(TOLERATED_MISSING)} of the rows are missing",
            f"This affects {counted(len(means), 'cell')} of the leaderboard, most of all {most.subject} in "
            f"{spoken(most.dimension)} ({most.missing} of {most.rows} rows). Rows are seldom missing at random.",
            "See how far the means could move (Bounds).",
            most.missing / most.rows,
        )


def not_at_random(panel: Iterable[ItemScores], statuses: Iterable[StatusCount]) -> Iterator[Finding]:
    """Report subjects or dimensions that miss more rows than the others, once the run is complete.

    By the permutation tests of `losses` with Holm's correction. If only single ones that miss fewer are significant,
    they are reported.
    """
    if any(status.state is MissingReason.OPEN for status in statuses):
        return
    groups = list(losses(panel))
    found = [(p, group) for p, group in zip(holm([each.p for each in groups]), groups, strict=True) if p <= LEVEL]
    found = [each for each in found if each[1].share > each[1].share_of_others] or found
    if found:
        found.sort(key=lambda each: each[0])
        listed = [
            f"{spoken(group.name)} {percent(group.share)} (the others {percent(group.share_of_others)}, p {p_value(p)})"
            for p, group in found
        ]
        yield Finding(
            "not_at_random",
            Severity.MEDIUM,
            "Rows are not missing at random",
            f"Missing rows: {'; '.join(listed)}, by permutation tests over generation calls after Holm's correction.",
            "Compare subjects over shared tests (Pairwise differences), and see how far the means could move (Bounds).",
            found[0][0],
        )


def refusals(cells: Iterable[_Cell]) -> Iterator[Finding]:
    """Report subjects that refuse more than 5 % of the tests, in prose or by their vendor's block."""
    high = _above(cells, TOLERATED_REFUSALS)
    if high:
        yield Finding(
            "refusals",
            Severity.MEDIUM,
            f"Some subjects refuse more than {percent(TOLERATED_REFUSALS)} of the tests",
            f"{_listed(high)}. A refusal in prose is judged as an answer; a block by the vendor is excluded.",
            "Read some (Transcripts) before attributing a score to the quality of the model's help.",
            max(high.values()),
        )


def cut(cells: Iterable[_Cell]) -> Iterator[Finding]:
    """Report subjects with more than 5 % of all their answers, judged or not, cut at the output limit."""
    high = _above(cells, TOLERATED_CUT)
    if high:
        yield Finding(
            "truncation",
            Severity.MEDIUM,
            f"More than {percent(TOLERATED_CUT)} of some subjects' answers were cut",
            f"{_listed(high)}. Judges see only the part before the cut.",
            "Raise `max_tokens` in `params:`, or compare both means (Truncated answers).",
            max(high.values()),
        )


def _above(cells: Iterable[_Cell], share: float) -> dict[str, float]:
    counts, rows = Counter[str](), Counter[str]()
    for subject, count, of in cells:
        counts[subject] += count
        rows[subject] += of
    return {subject: count / rows[subject] for subject, count in counts.items() if count > share * rows[subject]}


def _listed(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{subject} {percent(share)}" for subject, share in shares.items())


def settings_differ(subjects: Iterable[Sent], without_effect: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """Report parameters that differ between the subjects with responses.

    `without_effect` holds, by subject, the requested parameters that its vendor refuses or ignores.
    """
    compared = sorted((sent for sent in subjects if sent.responses), key=lambda sent: sent.subject)
    listed, are_refused = [], True
    for name in sorted({name for sent in compared for name in sent.parameters}):
        by_value: dict[str, list[str]] = defaultdict(list)
        for sent in compared:
            is_heeded = name in sent.parameters and name not in without_effect.get(sent.subject, ())
            by_value[" / ".join(sent.parameters[name]) if is_heeded else _UNHEEDED].append(sent.subject)
        if len(by_value) > 1:
            shown = (f"{value} ({', '.join(names)})" for value, names in by_value.items())
            listed.append(f"{name}: {'; '.join(shown)}")
            unheeded = by_value.pop(_UNHEEDED, [])
            are_refused &= len(by_value) == 1 and all(name in without_effect.get(each, ()) for each in unheeded)
    if listed:
        yield Finding(
            "settings_differ",
            Severity.MEDIUM,
            "The compared subjects were not asked with the same settings",
            ". ".join(listed) + ".",
            "You asked for the same, but vendors refuse or ignore some: report it (Settings says why)."
            if are_refused
            else "Give all subjects the same `params:` where their vendors allow it, and report the rest.",
            len(listed),
        )


def not_sent(unheeded: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Report requested settings, by model, that the vendor refuses or ignores."""
    if unheeded:
        listed = "; ".join(f"{name}: {', '.join(settings)}" for name, settings in unheeded.items())
        yield Finding(
            "not_sent",
            Severity.LOW,
            "Some settings have no effect",
            f"{listed}. The vendor refuses or ignores them.",
            "Report this with the scores (Settings says why).",
            len(unheeded),
        )
