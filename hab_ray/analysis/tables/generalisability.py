"""Variance components of marks, and the standard errors and costs of other designs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from math import sqrt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hab_ray.analysis import power
from hab_ray.analysis.evidence.components import (
    Components,
    Design,
    components,
    effective_calls,
    errors,
    subject_judge_overall,
)
from hab_ray.analysis.evidence.making import costs_of_making
from hab_ray.analysis.intervals import Array
from hab_ray.analysis.marks import OVERALL
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.summary import Summary
from hab_ray.catalog.prices import NANO
from hab_ray.rows import State
from hab_ray.rubric import SCORE_START

COMPONENT, DESIGN = "component", "design"
AS_IT_IS = "as it is"
_SPOKEN = {"subject_test_judge": "subject x test x judge, and the rest"}


@dataclass(frozen=True, slots=True)
class Generalised:
    """A component of a dimension's variance, or the precision of a design for it (`overall`: for every dimension).

    A component has a `variance` of marks on the scale 0..1, estimated from the `tests` that all judges scored for all
    subjects; it may be below 0 by chance, and is null if the design does not identify it. A design has a number of
    `tests` per dimension (as it is, all of them), `judges` and `replicates`; the standard errors of the mean of a
    subject with a score on each of these tests, of a difference between two such subjects, and of that difference over
    other judges, null if the complete tests do not tell generation calls from tests; and the additional dollars it
    costs at the run's mean prices per call. `making_usd` is the part of `usd` for generating, validating and
    embedding more tests, at what the run's calls for these cost per chosen test; it is null, and not part of `usd`, if
    the run's tests were given or its store cannot be read.
    """

    kind: str
    dimension: str
    name: str
    tests: int
    judges: int
    replicates: int
    variance: float | None
    mean_error: float | None
    difference_error: float | None
    with_judges_error: float | None
    usd: float | None
    making_usd: float | None = None


@dataclass(frozen=True)
class Shown:
    """Each component's variance by dimension, and the designs by dimension, overall first.

    `complete` is the number of tests behind the components, by dimension, and overall their sum.
    `calls` are the run's generation calls by dimension, and `effective` the equally large ones with as much
    information; `given` says whether its tests were given.
    """

    components: Mapping[str, Mapping[str, float | None]]
    complete: Mapping[str, int]
    designs: Mapping[str, tuple[Generalised, ...]]
    subjects: int
    calls: Mapping[str, int]
    effective: Mapping[str, float]
    given: bool

    @property
    def has_single_call(self) -> bool:
        """Whether all tests of a dimension with designs are from one generation call."""
        return 1 in (self.calls[dimension] for dimension in self.designs)

    def detectable(self, row: Generalised) -> float | None:
        """Return the smallest difference of two subjects that a design detects in four of five runs.

        It is None if none can be significant, or if the error is unknown or estimated as 0.
        """
        if not row.difference_error:
            return None
        tests = self.designs[row.dimension][0].tests
        calls = self.calls[row.dimension] * row.tests // tests
        effective = self.effective[row.dimension] * row.tests / tests
        design = power.Design(self.subjects, calls, row.difference_error * sqrt(calls), effective)
        return design.smallest if design.can_show_any else None


@dataclass(frozen=True)
class _Dimension:
    """A dimension's design, components, mean dollars of an answer and of a verdict, and dollars its tests cost.

    The components are estimated from `complete` tests. `means` are subjects x judges.
    """

    dimension: str
    answers: int
    complete: int
    design: Design
    components: Components
    means: Array
    usd: tuple[float | None, float | None]
    making: float | None


def _shown(summary: Summary, rows: Sequence[Generalised]) -> Shown | None:
    parts = [row for row in rows if row.kind == COMPONENT]
    names, dimensions = dict.fromkeys(row.name for row in parts), dict.fromkeys(row.dimension for row in rows)
    by_name = {name: {row.dimension: row.variance for row in parts if row.name == name} for name in names}
    designs = {d: tuple(row for row in rows if row.kind == DESIGN and row.dimension == d) for d in dimensions}
    of_tests = {name: summary.settings.calls_of(name) for name in summary.settings.tests}
    calls = {name: len(set(of_dimension)) for name, of_dimension in of_tests.items()}
    effective = {name: effective_calls(of_dimension) for name, of_dimension in of_tests.items() if of_dimension}
    calls[OVERALL], effective[OVERALL] = sum(calls.values()), sum(effective.values())
    complete = {row.dimension: row.tests for row in parts}
    complete[OVERALL] = sum(complete.values())
    given = summary.run.record.sweep.gives_tests
    return Shown(by_name, complete, designs, len(summary.settings.subjects), calls, effective, given) if parts else None


@analysis(Generalised, order=38, heading="Value of more tests or judges", layout=_shown)
def generalisability(summary: Summary) -> Sequence[Generalised]:
    """Return overall designs, if every dimension has components, then components and designs by dimension."""
    making = costs_of_making(summary.run)
    parts = [_dimension(summary, dimension, making.get(dimension)) for dimension in summary.settings.tests]
    found = [one for one in parts if one is not None]
    samples = summary.settings.samples
    by_dimension = [_designs(one, samples) for one in found]
    rows = [row for one, designs in zip(found, by_dimension, strict=True) for row in (*_parts(one, samples), *designs)]
    if not len(found) == len(summary.settings.tests) > 1:
        return rows
    shared = subject_judge_overall(np.stack([one.means for one in found]), [o.components.subject_judge for o in found])
    return [*(_together(same, shared) for same in zip(*by_dimension, strict=True)), *rows]


def complete_marks(summary: Summary, dimension: str) -> tuple[Array, list[str], list[str]]:
    """Return the tests that every judge scored for every subject: marks (subjects x tests x judges), ids, calls."""
    settings, cells = summary.settings, summary.cells
    means = [[cells[s, dimension, j].test_means for j in settings.panel] for s in settings.subjects]
    marks = np.array(means, dtype=np.float64)
    marks = marks.reshape(len(settings.subjects), len(settings.panel), -1).transpose(0, 2, 1)
    known = np.flatnonzero(~np.isnan(marks).any(axis=(0, 2)))
    ids, calls = settings.tests[dimension], settings.calls_of(dimension)
    return marks[:, known], [ids[at] for at in known], [calls[at] for at in known]


def _dimension(summary: Summary, dimension: str, making: int | None) -> _Dimension | None:
    settings = summary.settings
    marks, _, calls = complete_marks(summary, dimension)
    subjects, complete, judges = marks.shape
    if subjects < 2 or complete < 2:
        return None
    tests, readings = len(settings.tests[dimension]), settings.samples * settings.replicates
    parts = components(marks, calls, readings, _between_readings(summary, dimension))
    design = Design(effective_calls(settings.calls_of(dimension)), tests, judges, readings)
    usd = None if making is None else making / NANO
    answers, bills = subjects * tests * settings.samples, _usd(summary, dimension)
    return _Dimension(dimension, answers, complete, design, parts, marks.mean(1), bills, usd)


def _between_readings(summary: Summary, dimension: str) -> float:
    """Return the variance between one judge's readings of one answer; nan without replicates."""
    if summary.settings.replicates < 2:
        return float("nan")
    columns = ["subject", "judge", "test_id", "sample", "state", "score"]
    table = summary.run.verdicts(dimension=dimension, columns=columns)
    table = table.filter(pc.equal(table.column("state"), State.OK.value)).drop_columns(["state"])
    table = table.append_column("square", pc.power(table.column("score"), 2))
    grouped = table.group_by(columns[:4]).aggregate([("score", "count"), ("score", "sum"), ("square", "sum")])
    count, total, squares = (np.asarray(grouped.column(name)) for name in ("score_count", "score_sum", "square_sum"))
    freedom = float((count - 1).sum())
    return float((squares - total**2 / count).sum()) / freedom / SCORE_START**2 if freedom else float("nan")


def _usd(summary: Summary, dimension: str) -> tuple[float | None, float | None]:
    """Return the mean dollars of an answer and of a verdict; each None if unknown, as of given answers.

    A verdict that was requested again has the cost of its last request, which counts for the first one too.
    """
    columns = ["reply_key", "cost_nanousd"]
    of_answer = _mean_cost(summary.run.responses(dimension=dimension, columns=columns))
    verdicts = summary.run.verdicts(dimension=dimension, columns=[*columns, "asks"])
    costs = pc.multiply(verdicts.column("cost_nanousd"), verdicts.column("asks"))
    return of_answer, _mean_cost(verdicts.set_column(1, columns[1], costs))


def _mean_cost(rows: pa.Table) -> float | None:
    """Return the mean dollars of rows, or None if unknown; equal answers share a reply, paid for once."""
    known = rows.filter(pc.is_valid(rows.column("cost_nanousd")))
    paid = known.group_by("reply_key").aggregate([("cost_nanousd", "max")])
    return pc.sum(paid.column("cost_nanousd_max")).as_py() / known.num_rows / NANO if known.num_rows else None


def _parts(one: _Dimension, samples: int) -> Iterator[Generalised]:
    design = one.design
    for field in fields(Components):
        name = _SPOKEN.get(field.name, field.name.replace("_", " x "))
        variance = _known(getattr(one.components, field.name))
        sizes = one.complete, design.judges, design.readings // samples
        yield Generalised(COMPONENT, one.dimension, name, *sizes, variance, None, None, None, None)


def _designs(one: _Dimension, samples: int) -> list[Generalised]:
    asked = one.design
    wider = {
        AS_IT_IS: asked,
        "twice the tests": replace(asked, calls=2 * asked.calls, tests=2 * asked.tests),
        "four times the tests": replace(asked, calls=4 * asked.calls, tests=4 * asked.tests),
        "one judge more": replace(asked, judges=asked.judges + 1),
        "twice the judges": replace(asked, judges=2 * asked.judges),
        "one replicate more": replace(asked, readings=asked.readings + samples),
    }
    return [_design(one, name, design, samples) for name, design in wider.items()]


def _design(one: _Dimension, name: str, design: Design, samples: int) -> Generalised:
    asked = one.design
    mean, difference, with_judges = (_known(each) for each in astuple(errors(one.components, asked, design)))
    usd, making = None, None if one.making is None else (design.tests / asked.tests - 1) * one.making
    more, (of_answer, of_verdict) = design.tests / asked.tests, one.usd
    if of_verdict is not None and (of_answer is not None or more == 1):
        verdicts = design.judges * (design.readings // samples) * more - asked.judges * asked.readings // samples
        usd = one.answers * ((more - 1) * (of_answer or 0.0) + verdicts * of_verdict) + (making or 0.0)
    sizes = design.tests, design.judges, design.readings // samples
    return Generalised(DESIGN, one.dimension, name, *sizes, None, mean, difference, with_judges, usd, making)


def _together(rows: Sequence[Generalised], subject_judge: float) -> Generalised:
    """Combine the same design of every dimension: errors of their unweighted mean.

    Dimensions have independent tests but the same judges: `subject_judge` is the variance of that mean between judges.
    """

    def root(errors_of: Sequence[float | None]) -> float | None:
        known = [each for each in errors_of if each is not None]
        return sqrt(sum(each**2 for each in known)) / len(rows) if len(known) == len(rows) else None

    def total(dollars: Sequence[float | None]) -> float | None:
        known = [each for each in dollars if each is not None]
        return sum(known) if len(known) == len(rows) else None

    difference = root([row.difference_error for row in rows])
    with_judges = None if difference is None else _known(sqrt(difference**2 + 2 * subject_judge / rows[0].judges))
    return replace(
        rows[0],
        dimension=OVERALL,
        tests=sum(row.tests for row in rows),
        mean_error=root([row.mean_error for row in rows]),
        difference_error=difference,
        with_judges_error=with_judges,
        usd=total([row.usd for row in rows]),
        making_usd=total([row.making_usd for row in rows]),
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
