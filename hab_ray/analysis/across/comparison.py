"""Differences between the same subjects' scores in two runs, by dimension and overall.

Tests are the same if their texts are. If the runs share tests in a dimension, they are compared over these alone, in
pairs, which is more precise than using the other tests as well. If they share none, as after a new seed, the difference
is that of two independent means, with a wider interval (Zou and Donner's MOVER). Every row says which it is.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import pyarrow as pa

from hab_ray.analysis.intervals import Interval, apart, combined, ends
from hab_ray.analysis.marks import OVERALL, PANEL, ItemScores
from hab_ray.analysis.pairs import Ahead, ahead, holm, of_known, p_of
from hab_ray.analysis.scores import mean_of_tests
from hab_ray.analysis.summary import Summary
from hab_ray.config.changes import Change, changes, changes_of_tests
from hab_ray.errors import ConfigError
from hab_ray.results import Run, Sent, rows_in
from hab_ray.rows import State
from hab_ray.visible import counted

_SHOWN = 12
_MAX_OF_RUBRIC = 8
_OF_RUN = ("samples", "replicates", "truncated", "accept_substitutes")


def settings_apart(first: Run, second: Run) -> list[Change]:
    """Return the settings that differ: those of the runs, their rubrics and tests, then of each subject of both.

    `before` is a setting's value in the first run, `now` that in the second.
    """
    found = [*_apart(_of_run(first), _of_run(second)), *_of_rubrics(first, second), *_of_tests(first, second)]
    asked = {sent.subject: sent for sent in second.settings().subjects}
    for sent in first.settings().subjects:
        if other := asked.get(sent.subject):
            parameters = sorted({*sent.parameters, *other.parameters})
            found += _apart(_of_subject(sent, parameters), _of_subject(other, parameters))
    return found


def _apart(own: Mapping[str, str], theirs: Mapping[str, str]) -> list[Change]:
    shared = (setting for setting in own if setting in theirs)
    return [Change(each, own[each], theirs[each]) for each in shared if own[each] != theirs[each]]


def _of_run(run: Run) -> Mapping[str, str]:
    record = run.record
    shown = {name: digest[:_SHOWN] for name, digest in record.hashes.items()}
    return {
        "judges, of equal weight in the panel": ", ".join(run.panel),
        **{f"settings of judge {judge}": shown.get(f"judges: {judge}", "") for judge in run.panel},
        "rules by which verdicts are read": str(record.reader_version),
        "wording of prompts": shown.get("prompts", ""),
        **{name: str(getattr(record.sweep, name)) for name in _OF_RUN},
    }


def _of_rubrics(first: Run, second: Run) -> Iterator[Change]:
    """Yield the keys in which rubrics differ, or their digests if a text is gone or they differ in many keys."""
    for dimension, digest in first.record.rubric_hashes.items():
        other = second.record.rubric_hashes.get(dimension, digest)
        if digest == other or dimension not in first.dimensions or dimension not in second.dimensions:
            continue
        found: list[Change] = []
        with suppress(ConfigError, KeyError):
            rubrics = first.rubrics[dimension], second.rubrics[dimension]
            if (rubrics[0].sha256, rubrics[1].sha256) == (digest, other):
                found = list(changes(f"rubric of {dimension}", *(rubric.model_dump() for rubric in rubrics)))
        if 0 < len(found) <= _MAX_OF_RUBRIC:
            yield from found
        else:
            yield Change(f"rubric of {dimension}", digest[:_SHOWN], other[:_SHOWN])


def _of_tests(first: Run, second: Run) -> Iterator[Change]:
    """Yield what makes the tests of the runs; if both were given theirs, only whether it is another file."""
    sweeps = first.record.sweep, second.record.sweep
    are_given = all(sweep.gives_tests for sweep in sweeps)
    if not are_given:
        yield from changes_of_tests(*sweeps)
    for name in ("tests", "responses") if are_given else ("themes",):
        own, theirs = (run.record.hashes.get(name, "")[:_SHOWN] for run in (first, second))
        if own != theirs:
            yield Change(f"text of `{name}`", own, theirs)


def _of_subject(sent: Sent, parameters: Sequence[str]) -> Mapping[str, str]:
    values = {
        "model": sent.model or "given answers",
        "provider": sent.provider or "",
        "system prompt": sent.system or "",
        **{name: " / ".join(sent.parameters.get(name, ("not sent",))) for name in parameters},
        "name reported by the vendor": ", ".join(sent.reported),
    }
    return {f"{name} of {sent.subject}": value for name, value in values.items()}


_Text = tuple[str, str, int]
_Key = tuple[object, ...]
_Reply = tuple[str, str]
_OF_ANSWERS = ("test_id", "sample", "reply_key", "text", "state")
_OF_VERDICTS = ("test_id", "sample", "replicate", "reply_key", "assessment", "state")


class Matching(StrEnum):
    """How two runs' answers are compared."""

    PAIRED = "paired"
    UNPAIRED = "unpaired"
    MIXED = "some dimensions paired, some not"
    NONE = "nothing to compare"


@dataclass(frozen=True, slots=True)
class RunDifference:
    """A subject's mean in the second run less that in the first, 0..1, with a 95 % interval.

    `shared` tests are in both runs, `first_alone` and `second_alone` in one of them; only tests with a mark of the
    subject count. Means are over the shared tests if these are paired. `p` is that of the sign-flip test, `holm` the
    same corrected for all subjects of the dimension; both are null if nothing is paired or there is no interval.
    """

    subject: str
    dimension: str
    matching: Matching
    shared: int
    first_alone: int
    second_alone: int
    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None = None
    holm: float | None = None


@dataclass(frozen=True)
class SameReplies:
    """The number of answers and verdicts on shared tests that both runs have, and how many are the same reply."""

    answers: int
    same_answers: int
    verdicts: int
    same_verdicts: int

    @property
    def is_copy(self) -> bool:
        """Whether all answers and verdicts that both runs have are the same replies."""
        return 0 < self.answers == self.same_answers and 0 < self.verdicts == self.same_verdicts


@dataclass(frozen=True)
class SharedTests:
    """A subject's tests in one dimension of two runs: `ahead` if shared tests are paired, else only each run's mean.

    `alone` counts each run's tests that are not shared.
    """

    shared: int
    alone: tuple[int, int]
    means: tuple[Interval, Interval] | None
    ahead: Ahead | None


def compare_runs(first: Summary, second: Summary) -> list[RunDifference]:
    """Compare every subject that both runs have: overall, then by dimension.

    Raises:
        ConfigError: the runs share no subject or no dimension.
    """
    subjects = [name for name in first.settings.subjects if name in second.settings.subjects]
    dimensions = [name for name in first.settings.tests if name in second.settings.tests]
    if not subjects or not dimensions:
        what, one, other = (
            ("dimension", first.settings.tests, second.settings.tests)
            if subjects
            else ("subject", first.settings.subjects, second.settings.subjects)
        )
        raise ConfigError(
            f"{first.run.location} and {second.run.location} share no {what}: the one has {', '.join(one)}, the other "
            f"{', '.join(other)}; give a subject the same `name:` in both sweeps"
        )
    shared = {dimension: _shared_ids(first.run, second.run, dimension) for dimension in dimensions}
    parts = {subject: [_part(first, second, subject, d, shared[d]) for d in dimensions] for subject in subjects}
    return compared_rows(parts, dimensions)


def compared_rows(parts: Mapping[str, Sequence[SharedTests]], dimensions: Sequence[str]) -> list[RunDifference]:
    """Return the rows of subjects, overall and then by dimension; `parts` holds one entry per dimension."""
    overall = [_row(subject, OVERALL, own) for subject, own in parts.items()] if len(dimensions) > 1 else []
    rows = _corrected(overall)
    for at, dimension in enumerate(dimensions):
        rows += _corrected([_row(subject, dimension, [own[at]]) for subject, own in parts.items()])
    return rows


def same_replies(first: Run, second: Run) -> SameReplies:
    """Count the answers and verdicts that both runs have, and how many of them are the same reply.

    A reply is the same if its key and text are; runs that share a store have one reply per key. Given answers have no
    key, and are the same as any with their text.
    """
    answers, verdicts = Counter[bool](), Counter[bool]()
    for dimension in set(first.dimensions) & set(second.dimensions):
        ids = _shared_ids(first, second, dimension)
        for subject in set(first.subjects) & set(second.subjects):
            one, other = (_replies(run.responses(subject, dimension, columns=_OF_ANSWERS)) for run in (first, second))
            answers.update(_is_same(one, other, ids))
            for judge in set(first.panel) & set(second.panel):
                tables = (run.verdicts(judge, subject, dimension, columns=_OF_VERDICTS) for run in (first, second))
                one, other = map(_replies, tables)
                verdicts.update(_is_same(one, other, ids))
    return SameReplies(answers.total(), answers[True], verdicts.total(), verdicts[True])


def _is_same(one: Mapping[_Key, _Reply], other: Mapping[_Key, _Reply], ids: Mapping[str, str]) -> Iterator[bool]:
    """Yield for each row that both runs have whether its reply is the same; `ids` maps test ids of one to the other."""
    for key, (reply_key, text) in one.items():
        if (match := (ids.get(str(key[0])), *key[1:])) in other:
            other_key, other_text = other[match]
            yield text == other_text and (not reply_key or not other_key or reply_key == other_key)


def _ids_by_text(run: Run, dimension: str) -> dict[_Text, str]:
    """Return the id of each test by prompt, context and the number of earlier tests with the same ones."""
    table = run.tests(dimension, columns=["prompt", "context", "id"])
    earlier: Counter[tuple[str, str]] = Counter()
    ids: dict[_Text, str] = {}
    for prompt, context, id_ in rows_in(table):
        ids[prompt, context, earlier[prompt, context]] = id_
        earlier[prompt, context] += 1
    return ids


def share_tests(first: Run, second: Run) -> bool:
    """Whether a test of a shared dimension is in both runs, scored or not."""
    return any(_shared_ids(first, second, name) for name in set(first.dimensions) & set(second.dimensions))


def _shared_ids(first: Run, second: Run, dimension: str) -> dict[str, str]:
    """Return the second run's ids of shared tests by the first's."""
    own, theirs = (_ids_by_text(run, dimension) for run in (first, second))
    return {id_: theirs[text] for text, id_ in own.items() if text in theirs}


def _replies(table: pa.Table) -> dict[_Key, _Reply]:
    """Return the key and text of the replies of valid answers or verdicts, by what identifies them in their run."""
    return {tuple(row): (key, text) for *row, key, text, state in rows_in(table) if state == State.OK}


def _part(first: Summary, second: Summary, subject: str, dimension: str, ids: Mapping[str, str]) -> SharedTests:
    one, other = (summary.cells[subject, dimension, PANEL] for summary in (first, second))
    marked, other_marked = (~np.isnan(each.test_means) for each in (one, other))
    positions = second.settings.positions(dimension)
    pairs = [(at, positions[ids[id_]]) for at, id_ in enumerate(first.settings.tests[dimension]) if id_ in ids]
    both = [(a, b) for a, b in pairs if marked[a] and other_marked[b]]
    alone = int(marked.sum()) - len(both), int(other_marked.sum()) - len(both)
    if both:
        mine, theirs = _chosen(one, [a for a, _ in both]), _chosen(other, [b for _, b in both])
        calls = min(mine.calls, theirs.calls, key=lambda each: len(set(each)))  # given tests may have no calls
        return SharedTests(
            len(both), alone, _means(mine, theirs), ahead(replace(theirs, calls=calls), replace(mine, calls=calls))
        )
    return SharedTests(len(both), alone, _means(one, other) if not pairs else None, None)


def _chosen(scores: ItemScores, positions: Sequence[int]) -> ItemScores:
    calls = tuple(str(scores.test_calls[at]) for at in positions)
    return replace(scores, by_test=scores.by_test[list(positions)], calls=calls)


def _means(one: ItemScores, other: ItemScores) -> tuple[Interval, Interval] | None:
    first, second = mean_of_tests(one), mean_of_tests(other)
    return (first, second) if first and second else None


def _difference(part: SharedTests) -> Interval | None:
    """Return the difference in a dimension over shared tests, or else of two independent means, if known."""
    if part.ahead is not None:
        return part.ahead.difference
    return apart(part.means[1], part.means[0]) if part.means else None


def _row(subject: str, dimension: str, parts: Sequence[SharedTests]) -> RunDifference:
    found = combined([_difference(part) for part in parts])
    pairs = [part.ahead for part in parts if part.ahead is not None]
    means = [part.means for part in parts if part.means is not None]
    all_known = len(means) == len(parts)
    difference, low, high = ends(found)
    return RunDifference(
        subject=subject,
        dimension=dimension,
        matching=_matching(len(pairs), len(parts)) if found else Matching.NONE,
        shared=sum(part.shared for part in parts),
        first_alone=sum(part.alone[0] for part in parts),
        second_alone=sum(part.alone[1] for part in parts),
        first=sum(mean.mean for mean, _ in means) / len(means) if all_known else None,
        second=sum(mean.mean for _, mean in means) / len(means) if all_known else None,
        difference=difference,
        low=low,
        high=high,
        p=p_of(pairs) if low is not None and len(pairs) == len(parts) else None,
    )


def _matching(paired: int, dimensions: int) -> Matching:
    if not paired:
        return Matching.UNPAIRED
    return Matching.PAIRED if paired == dimensions else Matching.MIXED


def _corrected(rows: list[RunDifference]) -> list[RunDifference]:
    """Apply Holm's correction to the rows of one family."""
    return [replace(row, holm=p) for row, p in zip(rows, of_known(holm, [row.p for row in rows]), strict=True)]


def describe(replies: SameReplies, first: Run, second: Run) -> Iterator[str]:
    """Describe in sentences what the runs share."""
    if first.record.id is not None and first.record.id == second.record.id:
        yield "both folders hold the same run (same id): one is a copy of the other"
    if replies.is_copy:
        yield (
            f"{counted(replies.answers, 'answer')} and {counted(replies.verdicts, 'verdict')} are all that both runs "
            "have, and they are the same replies: this is not a second measurement"
        )
    elif replies.answers:
        yield (
            f"{_counted(replies.same_answers, replies.answers)} answers to shared tests and "
            f"{_counted(replies.same_verdicts, replies.verdicts)} verdicts on them by shared judges are the same "
            "replies in both runs"
        )


def _counted(some: int, all_: int) -> str:
    return f"{some:,} of the {all_:,}" if some else f"none of the {all_:,}"
