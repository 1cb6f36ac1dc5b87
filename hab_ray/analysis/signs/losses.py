"""Which subjects and dimensions miss more or fewer rows than the others.

The rows of a generation call may be lost together: all samples of a test that a filter blocks, or all subjects' answers
to a test whose text confuses a judge. So a call is one observation. Null hypothesis of a subject: in every call its
lost rows may as well be those of any other subject. Null hypothesis of a dimension: its calls may as well be those of
any other dimension; a call's loss is then its lost rows less those expected of its size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.intervals import Array, sums_by
from hab_ray.analysis.marks import ItemScores
from hab_ray.analysis.signflips import p_among

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

    `panel` holds the panel's marks of every subject in every dimension.
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
