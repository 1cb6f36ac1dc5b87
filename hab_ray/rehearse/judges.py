"""Checks the agreement and preferences of a rehearsal's judges, recomputed from the rows.

Agreement and slopes are computed pair by pair, by definition. Intervals from a bootstrap or sandwich estimator are only
checked for the order of their ends.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, permutations, product
from math import log2
from statistics import mean

from hab_ray.analysis.evidence.answers import refuses
from hab_ray.analysis.evidence.kinship import makers
from hab_ray.analysis.marks import OVERALL
from hab_ray.analysis.tables.trust.agreement import agreed
from hab_ray.analysis.tables.trust.preferences import ITSELF, LENGTH, REFUSALS, VENDOR, preferences
from hab_ray.rehearse.figures import Item, Lines, figures_of, mean_of, unequal
from hab_ray.rehearse.reader import Answer, RunReader, most

Values = Sequence[Mapping[str, Fraction]]
_Of = tuple[str, str, int]
_Side = Sequence[tuple[str, Fraction]]
_Sides = tuple[_Side, _Side]
Products = tuple[Fraction | float, Fraction | float]
OfTwo = Callable[[Fraction, Fraction], Fraction]
_MIN_SPREAD = 1e-9
# The agreement that Cohen expects from each judge's own rate, and Gwet from the rate that both have in common.
_BY_CHANCE: Mapping[str, OfTwo] = {
    "kappa": lambda one, other: one * other + (1 - one) * (1 - other),
    "ac1": lambda one, other: (one + other) * (1 - (one + other) / 2),
}


def wrong_agreement(reader: RunReader) -> Iterator[str]:
    """Yield missing, unexpected and wrong values of agreement, and intervals with swapped ends."""
    summary, run = reader.summary, reader.run
    rows = {(row.dimension, row.issue or "", row.judges, row.statistic): row for row in agreed(summary)}
    found: Lines = {key: (row.value, *([] if row.issue else [row.calls])) for key, row in rows.items()}
    wanted: Lines = {}
    panel, tests = ", ".join(run.panel), summary.settings.tests if len(run.panel) > 1 else {}
    scored = {name: _scores(reader, name) for name, asked in tests.items() if asked}
    calls = {name: _calls(reader, name, scores) for name, scores in scored.items()}
    if len(scored) > 1:
        wanted[OVERALL, "", panel, "alpha"] = (
            _alpha(*(list(own.values()) for own in scored.values())),
            min(calls.values()),
        )
    for dimension, scores in scored.items():
        wanted[dimension, "", panel, "alpha"] = (_alpha(list(scores.values())), calls[dimension])
        named = _named(reader, dimension)
        for letter in summary.rubrics[dimension].issue_letters():
            own = [{judge: each[letter] for judge, each in by_judge.items()} for by_judge in named]
            wanted[dimension, letter, panel, "alpha"] = (_alpha(own, apart=_by_lot),)
            for pair in combinations(run.panel, 2):
                both = [(own[pair[0]], own[pair[1]]) for own in own if pair[0] in own and pair[1] in own]
                for statistic, by_chance in _BY_CHANCE.items():
                    wanted[dimension, letter, ", ".join(pair), statistic] = (_beyond_chance(both, by_chance),)
    yield from unequal("agreement", found, wanted)
    for key, row in rows.items():
        if row.low is not None and row.high is not None and row.low > row.high:
            yield f"agreement of {key} has the interval {row.low} to {row.high}"


def _calls(reader: RunReader, dimension: str, scores: Mapping[_Of, Mapping[str, Fraction]]) -> int:
    """Count the generation calls of the answers that two judges or more scored."""
    calls = reader.calls(dimension)
    return len({calls[test] for (_, test, _), by_judge in scores.items() if len(by_judge) > 1})


def _scores(reader: RunReader, dimension: str) -> Mapping[_Of, Mapping[str, Fraction]]:
    found: dict[tuple[str, str, int], dict[str, Fraction]] = defaultdict(dict)
    for subject, judge in product(reader.run.subjects, reader.run.panel):
        for (test, sample), mark in reader.marks(subject, dimension, [judge]).items():
            if mark is not None:
                found[subject, test, sample][judge] = mark
    return found


def _named(reader: RunReader, dimension: str) -> Sequence[Mapping[str, Mapping[str, Fraction]]]:
    """Return for each answer, by judge, whether most of the judge's readings name each issue, half for a tie."""
    found: dict[tuple[str, str, int], dict[str, dict[str, Fraction]]] = defaultdict(dict)
    for subject, judge in product(reader.run.subjects, reader.run.panel):
        for (test, sample), shares in reader.named(subject, dimension, [judge]).items():
            named = {letter: most(share) for letter, share in shares.items()}
            found[subject, test, sample][judge] = named
    return list(found.values())


def _by_lot(one: Fraction, other: Fraction) -> Fraction:
    """Return how probably just one of two judges names an issue, given for each how probably it does."""
    return one * (1 - other) + other * (1 - one)


def _alpha(*dimensions: Values, apart: OfTwo = lambda one, other: (one - other) ** 2) -> Fraction | None:
    """Krippendorff's alpha: 1 - how far values are apart within answers / the same of any two of a dimension."""
    terms = [_differences(answers, apart) for answers in dimensions]
    observed, expected = (sum(each, Fraction(0)) for each in zip(*terms, strict=True))
    return 1 - observed / expected if expected else None


def _differences(answers: Values, apart: OfTwo) -> tuple[Fraction, Fraction]:
    given = [list(own.values()) for own in answers if len(own) > 1]
    pooled = [value for own in given for value in own]
    observed = sum(
        (sum((apart(a, b) for a, b in permutations(own, 2)), Fraction(0)) / (len(own) - 1) for own in given),
        Fraction(0),
    )
    counts = Counter(pooled)
    pairs = (n * (m - (a == b)) * apart(a, b) for a, n in counts.items() for b, m in counts.items())
    expected = sum(pairs, Fraction(0))
    return observed, expected / max(1, len(pooled) - 1)


def _beyond_chance(pairs: Sequence[tuple[Fraction, Fraction]], by_chance: OfTwo) -> Fraction | None:
    if not pairs:
        return None
    rates = [mean(side) for side in zip(*pairs, strict=True)]
    expected = by_chance(*rates)
    alike = mean(one * other + (1 - one) * (1 - other) for one, other in pairs)
    return None if expected == 1 else (alike - expected) / (1 - expected)


def wrong_preferences(reader: RunReader) -> Iterator[str]:
    """Yield missing, unexpected and wrong preferences, and intervals that do not contain their value."""
    rows = [row for row in preferences(reader.summary) if row.value is not None]
    found: Lines = {}
    for row in rows:
        of_kin = (row.low, row.high, row.mean, row.answers) if row.kind in (ITSELF, VENDOR) else ()
        of_refusals = (row.answers, row.calls) if row.kind == REFUSALS else ()
        found[row.kind, row.judge, row.others, row.dimension] = (row.value, *of_kin, *of_refusals)
        if row.low is not None and row.high is not None and not row.low <= (row.value or 0.0) <= row.high:
            yield f"preference {row.kind} of {row.judge} in {row.dimension} has the interval {row.low} to {row.high}"
    wanted = _of_kin(reader)
    panel, dimensions = reader.run.panel, tuple(reader.summary.settings.tests)
    for one, other in combinations(panel, 2):
        on_length = {name: _on_length(reader, one, other, name) for name in dimensions}
        wanted |= _slopes((LENGTH, one, other), on_length)
    for judge in panel if len(panel) > 1 else ():
        others = [other for other in panel if other != judge]
        sides = {name: list(_by_refusal(reader, judge, others, name)) for name in dimensions}
        on_refusals = {name: _on_refusals(own) for name, own in sides.items()}
        counts = _refusals_counted(reader, sides)
        for key, values in _slopes((REFUSALS, judge, ", ".join(others)), on_refusals).items():
            wanted[key] = (*values, *counts[key[-1]])
    yield from unequal("preference", found, wanted)


def _slopes(key: tuple[str, str, str], sums: Mapping[str, Products]) -> Lines:
    """Return slopes within subjects: numerator over denominator in each dimension, and over their sums overall."""
    overall = sum(above for above, _ in sums.values()), sum(below for _, below in sums.values())
    parts = {OVERALL: overall, **sums}
    return {(*key, name): (above / below,) for name, (above, below) in parts.items() if below > _MIN_SPREAD}


def _of_kin(reader: RunReader) -> Lines:
    """Return how much more judges give to their own and their vendor's answers than others do, beside strangers."""
    wanted: Lines = {}
    run, dimensions = reader.run, tuple(reader.summary.settings.tests)
    subjects, judges = makers(run.record)
    for judge in run.panel:
        me = judges[judge]
        others = [other for other in run.panel if not me.is_kin(judges[other])]
        near = [me, *(judges[other] for other in others)]
        strangers = [name for name in run.subjects if not any(each.is_kin(subjects.get(name)) for each in near)]
        own = [name for name in run.subjects if me.is_itself(subjects.get(name))]
        kin = [name for name in run.subjects if me.is_kin(subjects.get(name)) and name not in own]
        for kind, names in ((ITSELF, own), (VENDOR, kin)):
            if not (names and others and strangers):
                continue
            parts, read = [], []
            for dimension in dimensions:
                calls = reader.calls(dimension)
                mine, base = (_ahead(reader, judge, others, each, dimension) for each in (names, strangers))
                items = [Item((mine[test] - base[test]) / 2, 1, calls[test]) for test in mine if test in base]
                parts.append(figures_of(items, -1))
                given = {name: reader.marks(name, dimension, [judge]) for name in names}
                both = [(name, a) for name in names for a in _gaps(reader, judge, others, name, dimension)]
                marks_of = [given[name][answer] for name, answer in both if answer[0] in base]
                read.append([mark for mark in marks_of if mark is not None])
            whole = mean_of([part for part in parts if part.n])
            every = [mark for marks in read for mark in marks]
            for name, half, marks in zip((OVERALL, *dimensions), (whole, *parts), (every, *read), strict=True):
                ends = [None if end is None else 2 * end for end in (half.mean, half.low, half.high)]
                if half.mean is not None:
                    wanted[kind, judge, ", ".join(others), name] = (*ends, mean(marks), len(marks))
    return wanted


def _ahead(
    reader: RunReader, judge: str, others: Sequence[str], subjects: Sequence[str], dimension: str
) -> Mapping[str, Fraction]:
    gaps: dict[str, list[Fraction]] = defaultdict(list)
    for subject in subjects:
        for (test, _), gap in _gaps(reader, judge, others, subject, dimension).items():
            gaps[test].append(gap)
    return {test: mean(own) for test, own in gaps.items()}


def _gaps(
    reader: RunReader, judge: str, others: Sequence[str], subject: str, dimension: str
) -> Mapping[Answer, Fraction]:
    """Return a judge's mark minus the others' mean for each answer that all of them marked."""
    own, rest = (reader.marks(subject, dimension, who) for who in ([judge], others))
    return {
        answer: mark - other for answer, mark in own.items() if mark is not None and (other := rest[answer]) is not None
    }


def _by_refusal(reader: RunReader, judge: str, others: Sequence[str], dimension: str) -> Iterator[_Sides]:
    """Yield the tests and gaps of each subject's refusals and of its other answers, if it has both."""
    for subject in reader.run.subjects:
        gaps = _gaps(reader, judge, others, subject, dimension)
        columns = ["test_id", "sample", "text", "finish"]
        rows = reader.run.responses(subject, dimension, columns=columns).to_pylist()
        refused = {(r["test_id"], r["sample"]) for r in rows if r["finish"] == "refused" or refuses(r["text"])}
        sides = [[(a[0], gap) for a, gap in gaps.items() if (a in refused) is side] for side in (True, False)]
        if all(sides):
            yield sides[0], sides[1]


def _on_refusals(sides: Sequence[_Sides]) -> Products:
    """Return numerator and denominator of a judge's slope on refusals.

    Per subject with n refusals and m other answers, the gap between them has the weight n m / (n + m).
    """
    above = below = Fraction(0)
    for refused, answered in sides:
        weight = Fraction(len(refused) * len(answered), len(refused) + len(answered))
        means = [mean(gap for _, gap in side) for side in (refused, answered)]
        above, below = above + weight * (means[0] - means[1]), below + weight
    return above, below


def _refusals_counted(reader: RunReader, by_dimension: Mapping[str, Sequence[_Sides]]) -> Mapping[str, tuple[int, int]]:
    """Count refusals, and generation calls with one or, if they are fewer, with another answer; overall, their sums."""
    counts = {}
    for dimension, own in by_dimension.items():
        calls = reader.calls(dimension)
        refused, answered = ({calls[test] for pair in own for test, _ in pair[at]} for at in (0, 1))
        counts[dimension] = sum(len(pair[0]) for pair in own), len(refused), len(answered)
    every = {**counts, OVERALL: tuple(map(sum, zip(*counts.values(), strict=True)))}
    return {name: (answers, min(calls)) for name, (answers, *calls) in every.items()}


def _on_length(reader: RunReader, one: str, other: str, dimension: str) -> Products:
    """Return numerator and denominator of a judge's slope on log2 length, over all pairs of a subject's answers."""
    above = below = 0.0
    for subject in reader.run.subjects:
        gaps = _gaps(reader, one, [other], subject, dimension)
        rows = reader.run.responses(subject, dimension, columns=["test_id", "sample", "text"]).to_pylist()
        lengths = {(row["test_id"], row["sample"]): len(row["text"]) for row in rows}
        points = [(log2(lengths[answer]), float(gap)) for answer, gap in gaps.items() if lengths.get(answer)]
        for (x, a), (y, b) in combinations(points, 2):
            above += (x - y) * (a - b) / len(points)
            below += (x - y) ** 2 / len(points)
    return above, below
