"""Selects the given responses that a sweep reads: those of a sample of tests, or those that people have rated.

The sample is ordered by a hash of the seed and the test's id. It does not depend on the order of rows, other tests or
other subjects: the same sweep always draws the same tests, and a larger sample contains the smaller one. Tests for
which every subject has a row come first. A failed response counts as a row: drawing among successful responses only
would leave out the tests on which subjects fail.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256

from hab_ray.config.sections import Drawn, GivenAnswers, ResponseSample
from hab_ray.given.ratings import Rating, is_of_given, test_of, tests_by_text
from hab_ray.given.responses import GivenResponses
from hab_ray.rows import Rater, Response

_Parts = Mapping[tuple[str, str], list[Response]]


def chosen_answers(
    found: GivenResponses, given: GivenAnswers, ratings: Iterable[Rating]
) -> tuple[GivenResponses, dict[str, Drawn]]:
    """Return the responses and tests that a sweep reads, and the draw of each dimension.

    `found` has the responses of the sweep's subjects. The sample is drawn from the rated ones if `only` requests them.
    If the sweep takes all responses, nothing is drawn.
    """
    if given.only is None and given.sample is None:
        return found, {}
    kept = found.responses if given.only is None else _rated(found, ratings)
    chosen = {dimension: _ids(rows) for dimension, rows in _by_dimension(kept).items()}
    if given.sample is not None:
        chosen = {dimension: _drawn(kept, dimension, given.sample) for dimension in chosen}
    kept = {part: [row for row in rows if row.test_id in chosen[part[1]]] for part, rows in kept.items()}
    answered = _by_dimension(found.responses)
    tests = {
        dimension: [test for test in known if test.id in chosen.get(dimension, ())] if dimension in answered else known
        for dimension, known in found.tests.items()
    }
    rows = _by_dimension(kept)
    drawn = {
        dimension: Drawn(
            tests=len(ids),
            of=len(found.tests[dimension]),
            sha256=_digest({f"{r.subject}\n{r.test_id}\n{r.sample}" for r in rows[dimension]} if given.only else ids),
        )
        for dimension, ids in chosen.items()
    }
    return replace(found, tests={d: known for d, known in tests.items() if known}, responses=kept), drawn


def those_rated(names: Iterable[str], ratings: Iterable[Rating]) -> tuple[str, ...]:
    """Return those names of whom people have rated a response."""
    rated = {rating.subject for rating in ratings if _is_by_person(rating)}
    return tuple(name for name in names if name in rated)


def changed_draw(before: GivenAnswers | None, now: GivenAnswers | None) -> Iterator[str]:
    """Yield the keys by which a sweep selects other responses than before."""
    if (before and before.sample) != (now and now.sample):
        yield "responses.sample: differs"
    if (before and before.only) != (now and now.only):
        yield "responses.only: differs"


def describe_sample(given: GivenAnswers | None, drawn: Mapping[str, Drawn]) -> str | None:
    """Describe the selection of given responses for plan, status and report; None if all are read."""
    if given is None or not drawn:
        return None
    by_size: dict[tuple[int, int], list[str]] = {}
    for dimension, part in sorted(drawn.items()):
        by_size.setdefault((part.tests, part.of), []).append(dimension)
    if len(by_size) == 1:
        ((tests, of),) = by_size
        sizes = f"{tests:,} of {of:,} tests a dimension"
    else:
        sizes = "; ".join(f"{tests:,} of {of:,} tests of {', '.join(ds)}" for (tests, of), ds in by_size.items())
    how = f", drawn by {given.sample.by}, seed {given.sample.seed}" if given.sample else ""
    return f"responses: {sizes}{how}{', only answers that people rated' if given.only else ''}"


def _rated(found: GivenResponses, ratings: Iterable[Rating]) -> dict[tuple[str, str], list[Response]]:
    by_text = {dimension: tests_by_text(tests) for dimension, tests in found.tests.items()}
    answers = {part: {(row.test_id, row.sample): row for row in rows} for part, rows in found.responses.items()}
    rated: set[tuple[str, str, str, int]] = set()
    for rating in ratings:
        part = rating.subject, rating.dimension
        if _is_by_person(rating) and part in answers:
            test_id = test_of(rating, by_text[rating.dimension]) or ""
            answer = answers[part].get((test_id, rating.sample))
            if answer is not None and is_of_given(rating, answer):
                rated.add((*part, test_id, rating.sample))
    return {
        part: kept
        for part, rows in found.responses.items()
        if (kept := [row for row in rows if (*part, row.test_id, row.sample) in rated])
    }


def _is_by_person(rating: Rating) -> bool:
    """Whether a person has given a score."""
    return rating.kind is Rater.PERSON and rating.score is not None


def _by_dimension(parts: _Parts) -> dict[str, list[Response]]:
    found: dict[str, list[Response]] = {}
    for (_, dimension), rows in parts.items():
        found.setdefault(dimension, []).extend(rows)
    return found


def _drawn(parts: _Parts, dimension: str, sample: ResponseSample) -> set[str]:
    answered = [_ids(rows) for (_, named), rows in parts.items() if named == dimension]
    by_all = set.intersection(*answered)
    order = sorted(set.union(*answered), key=lambda id: (id not in by_all, _digest((str(sample.seed), id)), id))
    return set(order[: sample.per_dimension])


def _ids(rows: Iterable[Response]) -> set[str]:
    return {row.test_id for row in rows}


def _digest(texts: Iterable[str]) -> str:
    """Return the sha256 of some texts; that of a set does not depend on its order."""
    ordered = sorted(texts) if isinstance(texts, set) else texts
    return sha256("\n\n".join(ordered).encode()).hexdigest()
