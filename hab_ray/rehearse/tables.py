"""Checks the tables of a run (boards, variants, bounds, terminal, export), recomputed from rows and scores."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from io import StringIO
from itertools import combinations, islice, product
from math import comb
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from scipy.special import betainc

from hab_ray.analysis.board import Board
from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.preregistration import plan_of
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.bounds import bounds
from hab_ray.analysis.tables.declared import DeclaredResult, declared
from hab_ray.analysis.tables.judges import judges
from hab_ray.analysis.tables.leaderboard import ShownBoard, leaderboard, ranks_of
from hab_ray.analysis.tables.variants import Change, variants
from hab_ray.config.preregistration import PRIMARY, Compared, Correction, Family
from hab_ray.exchange.export import export
from hab_ray.exchange.sharing import everything
from hab_ray.rehearse.claims import benjamini_hochberg, holm, wrong_comparison, wrong_differences, wrong_issues
from hab_ray.rehearse.figures import Figures, Item, Lines, all_same, figures_of, same, unequal
from hab_ray.rehearse.judges import wrong_agreement, wrong_preferences
from hab_ray.rehearse.reader import Marks, RunReader
from hab_ray.rehearse.stability import wrong_generalisability, wrong_reliability, wrong_robustness
from hab_ray.rehearse.truth import ScoreKey, Truth
from hab_ray.report import leaderboard as on_terminal
from hab_ray.visible import one_line

_TOLERATED = 0.02
_BOUNDS = Fraction(0), Fraction(1)
_WIDE = 4000
_MAX_SHOWN = 3
_ROUNDING = 1e-9
_HALF = 0.005 + _ROUNDING
_CELLS = re.compile(r" {2,}")
_NOTHING = Figures(None, None, None, 0)
Planted = Mapping[ScoreKey, Figures]
_VERDICT = ("subject", "dimension", "judge", "test_id", "sample", "replicate")
_PUBLISHED = {"subject": "subject_model", "judge": "evaluator_model"}
Key = tuple[str, str, str, str, str]


def wrong_tables(summary: Summary, truth: Truth) -> list[str]:
    """Return up to `_MAX_SHOWN` problems of each table that does not follow from rows and truth."""
    reader, planted = RunReader(summary, truth.calls), truth.scores()
    boards = (_wrong_boards(reader, planted), _wrong_terminal(reader, planted))
    rows = (_wrong_variants(reader), _wrong_bounds(reader))
    claims = (wrong_differences(reader), wrong_issues(reader), wrong_declared(reader, planted))
    of_judges = (wrong_agreement(reader), wrong_preferences(reader), wrong_comparison(reader))
    of_order = (wrong_robustness(reader), wrong_reliability(reader), wrong_generalisability(reader))
    checks = (*boards, *rows, *claims, *of_judges, *of_order, _wrong_export(reader, planted))
    return [problem for check in checks for problem in islice(check, _MAX_SHOWN)]


def _wrong_boards(reader: RunReader, planted: Planted) -> Iterator[str]:
    """Check the panel's board, each judge's board, and their overall scores side by side."""
    panel = leaderboard.shown(reader.summary)
    assert isinstance(panel, ShownBoard)
    yield from _wrong_board(reader, planted, PANEL, panel.board)
    by_judge = judges(reader.summary)
    if len(reader.run.panel) < 2:
        return
    if by_judge is None or len(by_judge.boards) != len(reader.run.panel):
        yield "the judges have no separate boards"
        return
    for judge, board in zip(reader.run.panel, by_judge.boards, strict=True):
        yield from _wrong_board(reader, planted, judge, board)
    for subject, scores in by_judge.overall.items():
        wanted = [planted.get((subject, OVERALL, judge), _NOTHING).mean for judge in (PANEL, *reader.run.panel)]
        if not all_same([score.mean for score in scores], wanted):
            yield f"the overall scores side by side of {subject} are not those of panel and judges in turn"


def _wrong_board(reader: RunReader, planted: Planted, judge: str, board: Board) -> Iterator[str]:
    for line in board.lines:
        wanted = [planted.get((line.subject, name, judge), _NOTHING).mean for name in (OVERALL, *reader.run.dimensions)]
        if not all_same([score.mean for score in (line.overall, *line.by_dimension)], wanted):
            yield f"the board of {judge} shows other means for {line.subject}"
    for row in leaderboard(reader.summary) if judge == PANEL else ():
        own = planted[row.subject, OVERALL, PANEL]
        if not all_same([row.mean, row.low, row.high], [own.mean, own.low, own.high]):
            yield f"the leaderboard's interval of {row.subject} is {row.low} to {row.high}"
    ranked = [line.overall.mean for line in board.lines if line.overall.mean is not None]
    if ranked != sorted(ranked, reverse=True) or len(board.lines) != len(reader.run.subjects):
        yield f"the board of {judge} does not rank every subject by its overall mean"


def _wrong_terminal(reader: RunReader, planted: Planted) -> Iterator[str]:
    """Check the printed leaderboard."""
    console = Console(width=_WIDE, file=StringIO())
    with console.capture() as printed:
        console.print(on_terminal(reader.summary.scores, ranks_of(reader.summary)))
    lines = [_CELLS.split(line.strip()) for line in printed.get().splitlines()]
    shown = {cells[1]: cells[2:] for cells in lines if len(cells) > 2}
    for subject in reader.run.subjects:
        wanted = [planted.get((subject, name, PANEL), _NOTHING).mean for name in (OVERALL, *reader.run.dimensions)]
        cells = shown.get(one_line(subject), [])
        if len(cells) != len(wanted) or not all(map(_is_rounded, cells, wanted)):
            yield f"the terminal shows for {subject} {cells}, expected {wanted}"


def _wrong_variants(reader: RunReader) -> Iterator[str]:
    """Check the means of each base and variant over the same answers."""
    found, run = variants(reader.summary), reader.run
    for change in found:
        names, dimension = (change.base, change.variant), change.dimension
        if change.is_judge:
            pairs = [
                [reader.marks(subject, dimension, [name]) for name in names]
                for subject in run.subjects
                if run.verdicts(change.variant, subject, dimension, columns=["test_id"]).num_rows
            ]
        else:
            pairs = [[reader.marks(name, dimension, run.panel) for name in names]]
        yield from _wrong_change(change, pairs, reader.calls(dimension))
    named, sweep = {change.variant for change in found}, run.record.sweep
    varied = {*(subject.name for subject in sweep.varied_subjects), *(judge.name for judge in sweep.varied_judges)}
    for name in sorted(varied - named):
        yield f"the table of variants lacks {name}"


def _wrong_bounds(reader: RunReader) -> Iterator[str]:
    """Check the means with every missing answer scored 0, and scored 1."""
    found: Lines = {(b.subject, b.dimension, b.judge): (b.worst, b.best) for b in bounds(reader.summary)}
    seats = {PANEL: reader.run.panel}
    if len(reader.run.panel) > 1:
        seats |= {judge: (judge,) for judge in reader.run.panel}
    wanted: Lines = {
        (subject, dimension, judge): sides
        for subject, (judge, names) in product(reader.run.subjects, seats.items())
        for dimension, sides in _bounds(reader, subject, names)
    }
    yield from unequal("the bounds", found, wanted)


def _bounds(reader: RunReader, subject: str, seats: Sequence[str]) -> Iterator[tuple[str, list[Fraction]]]:
    sides, is_doubtful = [], False
    for dimension in reader.run.dimensions:
        marks = reader.marks(subject, dimension, seats)
        if not marks:
            continue
        missing = sum(mark is None for mark in marks.values())
        sides.append([mean(fill if mark is None else mark for mark in marks.values()) for fill in _BOUNDS])
        if missing > _TOLERATED * len(marks):
            is_doubtful = True
            yield dimension, sides[-1]
    if is_doubtful:
        yield OVERALL, [mean(side) for side in zip(*sides, strict=True)]


def _wrong_export(reader: RunReader, planted: Planted) -> Iterator[str]:
    """Check exported rows and scores."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "export"
        export(reader.run, "hf", out, "", everything(reader.run))
        columns = [*_VERDICT, "score"]
        rows = reader.run.verdicts(columns=columns).to_pylist()
        wanted = {tuple(row[name] for name in _VERDICT): row["score"] for row in rows}
        verdicts = _read(out / "verdicts.parquet", columns)
        found = {key: score for key, score in verdicts.items() if key in wanted}
        if found != wanted:
            yield "the exported verdicts have other scores than the run's"
        published = [_PUBLISHED.get(name, name) for name in _VERDICT]
        scored = {key: score for key, score in wanted.items() if score is not None}
        if _read(out / "evaluations.parquet", [*published, "score"]) != scored:
            yield "the exported evaluations have other scores than the run's"
        means = _read(out / "scores.parquet", ["subject", "dimension", "judge", "mean"])
        if not all_same([means.get(key) for key in planted], [each.mean for each in planted.values()]):
            yield "the exported scores differ from the run's"


def _read(file: Path, columns: Sequence[str]) -> dict[tuple[Any, ...], Any]:
    table = pq.read_table(file, columns=list(columns)).to_pylist()
    return {tuple(row[name] for name in columns[:-1]): row[columns[-1]] for row in table}


def _wrong_change(change: Change, pairs: Iterable[Sequence[Marks]], calls: Mapping[str, str]) -> Iterator[str]:
    every = [(row[0], one[row], other.get(row)) for one, other in pairs for row in one]
    both: dict[str, list[tuple[Fraction, Fraction]]] = defaultdict(list)
    for test, one, other in every:
        if one is not None and other is not None:
            both[test].append((one, other))
    sides = {test: [mean(side) for side in zip(*marks, strict=True)] for test, marks in both.items()}
    means = [mean(side) for side in zip(*sides.values(), strict=True)] if both else [None, None]
    steps = [Item(other - one, len(both[test]), calls[test]) for test, (one, other) in sides.items()]
    figures = figures_of(steps, -1)
    wanted = [*means, figures.mean, figures.low, figures.high]
    found = [change.base_mean, change.variant_mean, change.difference, change.low, change.high]
    if (change.n, change.asked) != (figures.n, len(every)) or not all_same(found, wanted):
        yield f"{change.variant} beside {change.base} in {change.dimension} is shown as {found}, expected {wanted}"


def _is_rounded(cell: str, mean: float | None) -> bool:
    """Whether a cell shows a mean to two decimals, or more if it would be 0 or 1, or a dash for None."""
    shown = cell.split(" ")[0]
    if mean is None or shown == "-":
        return mean is None and shown == "-"
    return abs(float(shown) - mean) <= (_ROUNDING if float(shown) in (0, 1) else _HALF)


def wrong_declared(reader: RunReader, planted: Mapping[tuple[str, str, str], Figures]) -> Iterator[str]:
    """Yield declared results that are wrong, missing, unexpected or wrongly corrected."""
    plan, run = plan_of(reader.run.record), reader.run
    found = {_key(row): row for row in declared(reader.summary)}
    if plan is None:
        yield from (f"{key} is shown, but nothing was declared" for key in found)
        return
    for subject in run.subjects:
        row = found.pop((PRIMARY, subject, "", "", plan.primary.dimension), None)
        wanted = planted[subject, plan.primary.dimension, plan.primary.judge]
        ends = None if row is None else (row.value, row.low, row.high)
        if ends is None or not all_same(ends, (wanted.mean, wanted.low, wanted.high)):
            yield f"the primary outcome of {subject} is {ends}, expected {wanted}"
    for family in plan.families:
        rows = []
        for key, value in _compared(reader, family):
            if (row := found.pop(key, None)) is None:
                yield f"the declared family {family.name} lacks {key}"
                continue
            rows.append(row)
            yield from _wrong(row, value, plan.margin)
            if family.compares is Compared.DIMENSIONS and not same(row.p, p := _p_of_dimensions(reader, row)):
                yield f"the p-value of {_key(row)} is {row.p}, expected {p}"
        yield from _wrongly_corrected(family, rows, plan.alpha)
    yield from (f"{key} is shown, but was not declared" for key in found)


def _key(row: DeclaredResult) -> Key:
    return (row.family, row.one, row.other, row.within, row.dimension)


def _wrong(row: DeclaredResult, value: Fraction | None, margin: float) -> Iterator[str]:
    if not same(row.value, value):
        yield f"{_key(row)} is {row.value}, expected {value if value is None else float(value)}"
    elif row.value is not None and row.low is not None and row.high is not None:
        if not row.low - 1e-9 <= row.value <= row.high + 1e-9:
            yield f"{_key(row)} has the interval {row.low} to {row.high}"
        if row.equal != (-margin <= row.low and row.high <= margin):
            yield f"{_key(row)} is {'' if row.equal else 'not '}called equal"


def _compared(reader: RunReader, family: Family) -> Iterator[tuple[Key, Fraction | None]]:
    run = reader.run

    def chosen(names: Sequence[str]) -> list[str]:
        return [name for name in names if not family.among or name in family.among]

    if family.compares is Compared.DIMENSIONS:
        for subject in run.subjects:
            for one, other in combinations(chosen(run.dimensions), 2):
                sides = [list(reader.means(subject, d, run.panel).values()) for d in (one, other)]
                if all(sides):
                    yield (family.name, one, other, subject, ""), mean(sides[0]) - mean(sides[1])
        return
    is_of_judges = family.compares is Compared.JUDGES
    names = chosen((*run.panel, PANEL) if is_of_judges else run.subjects)
    for dimension in dict.fromkeys(family.dimensions):
        over = run.dimensions if dimension == OVERALL else (dimension,)
        for one, other in combinations(names, 2):
            compare = _of_judges if is_of_judges else _of_subjects
            parts = [compare(reader, one, other, each) for each in over]
            known = [part for part in parts if part is not None]
            middle = mean(known) if len(known) == len(parts) else None
            yield (family.name, one, other, "", dimension), middle


def _p_of_dimensions(reader: RunReader, row: DeclaredResult) -> float | None:
    """Return the p-value of the difference of two means, each with its own error by generation call.

    A call's residuals are weighted by the inverse of the share of tests that other calls have.
    """
    middles, errors, sizes, freedom = [], [], [], []
    for dimension in (row.one, row.other):
        means, calls = reader.means(row.within, dimension, reader.run.panel), reader.calls(dimension)
        tests: dict[str, list[Fraction]] = {}
        for test, mark in means.items():
            tests.setdefault(calls[test], []).append(mark)
        middle, number = mean(means.values()), len(means)
        if len(tests) < 2:
            return None
        residuals = [(sum(own) - len(own) * middle, Fraction(len(own), number)) for own in tests.values()]
        errors.append(sum(rest * rest / (1 - share) for rest, share in residuals) / number**2)
        freedom.append(1 / sum(share * share for _, share in residuals) - 1)
        middles.append(middle)
        sizes.append(len(tests))
    if not (whole := sum(errors)):
        return None if middles[0] == middles[1] else 2 / comb(sum(sizes), sizes[0])
    degrees = float(whole**2 / sum(error * error / each for error, each in zip(errors, freedom, strict=True)))
    ratio = float((middles[0] - middles[1]) ** 2 / whole)
    return float(betainc(degrees / 2, 0.5, degrees / (degrees + ratio)))


def _of_subjects(reader: RunReader, one: str, other: str, dimension: str) -> Fraction | None:
    first, second = (reader.means(name, dimension, reader.run.panel) for name in (one, other))
    steps = [first[test] - second[test] for test in first if test in second]
    return mean(steps) if steps else None


def _of_judges(reader: RunReader, one: str, other: str, dimension: str) -> Fraction | None:
    """Average the difference of two judges over the answers to each test that both scored, then over tests."""
    steps: dict[str, list[Fraction]] = {}
    seats = [reader.run.panel if name == PANEL else [name] for name in (one, other)]
    for subject in reader.run.subjects:
        sides = [reader.marks(subject, dimension, judges) for judges in seats]
        for answer, mark in sides[0].items():
            if mark is not None and (second := sides[1][answer]) is not None:
                steps.setdefault(answer[0], []).append(mark - second)
    return mean([mean(own) for own in steps.values()]) if steps else None


def _wrongly_corrected(family: Family, rows: Sequence[DeclaredResult], alpha: float) -> Iterator[str]:
    """Yield p-values that are wrongly corrected, or wrongly called different at `alpha`."""
    tested = [row.p for row in rows if row.p is not None]
    for row in (row for row in rows if row.p is not None):
        p = row.p or 0.0
        expected = {
            Correction.NONE: p,
            Correction.BONFERRONI: min(1.0, p * len(tested)),
            Correction.HOLM: holm(p, tested),
            Correction.BENJAMINI_HOCHBERG: benjamini_hochberg(p, tested),
        }[family.correction]
        if not same(row.adjusted, expected) or row.differs != (row.adjusted is not None and row.adjusted <= alpha):
            yield f"{_key(row)} has the p-value {row.adjusted} after correction, expected {expected}"
