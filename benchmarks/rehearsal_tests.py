"""Writes jobs/rehearsal-tests.parquet: 500 tests a dimension, each a rubric's seed query with a theme of its own.

    python benchmarks/rehearsal_tests.py

They serve rehearsals, where only their number and length matter, and measure nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hab_ray.rubric import Rubric, load_rubrics, load_themes

EACH = 500
FILE = Path(__file__).parent.parent / "jobs" / "rehearsal-tests.parquet"


def tests_of(rubric: Rubric) -> Iterator[dict[str, str]]:
    """A dimension's tests: every seed with every theme, as far as they are wanted."""
    pairs = itertools.product(load_themes(), rubric.seeds)
    for number, (theme, seed) in enumerate(itertools.islice(pairs, EACH)):
        yield {
            "id": f"{rubric.id}-{number:04d}",
            "dimension": rubric.id,
            "prompt": f"{seed.prompt}\n\n(Theme: {theme}.)",
            "context": seed.context or "",
        }


def main() -> None:
    """Write the file."""
    rows = [row for rubric in load_rubrics().values() for row in tests_of(rubric)]
    pq.write_table(pa.Table.from_pylist(rows), FILE, compression="zstd")
    print(f"{FILE}: {len(rows)} tests, {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
