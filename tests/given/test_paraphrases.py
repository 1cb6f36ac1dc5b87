"""Paraphrases in a Parquet file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hab_ray.errors import ConfigError
from hab_ray.given.paraphrases import read_paraphrases
from hab_ray.location import Location
from hab_ray.rubric import load_rubrics

DIMENSION = "encourage_learning"


def test_an_unknown_column_of_a_parquet_file_is_refused_as_in_csv_and_json(tmp_path: Path) -> None:
    row = {"dimension": DIMENSION, "test_id": "t", "prompt": "In other words."}
    rubrics = {DIMENSION: load_rubrics()[DIMENSION]}
    file = tmp_path / "paraphrases.parquet"
    pq.write_table(pa.Table.from_pylist([row]), file)
    assert read_paraphrases(Location.of(file), rubrics)[DIMENSION]["t"].prompt == "In other words."
    pq.write_table(pa.Table.from_pylist([row | {"contxt": "A fact."}]), file)
    with pytest.raises(ConfigError, match="unknown column 'contxt'"):
        read_paraphrases(Location.of(file), rubrics)
