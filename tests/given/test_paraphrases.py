"""Paraphrases in a Parquet file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hab_ray.errors import ConfigError
from hab_ray.given.paraphrases import read_paraphrases
from hab_ray.location import Location
from hab_ray.rubric import load_rubrics
from tests.given.tables import write_rows

DIMENSION = "encourage_learning"


def test_an_unknown_column_of_a_parquet_file_is_refused_as_in_csv_and_json(tmp_path: Path) -> None:
    row = {"dimension": DIMENSION, "test_id": "t", "prompt": "In other words."}
    rubrics = {DIMENSION: load_rubrics()[DIMENSION]}
    file = write_rows(tmp_path / "paraphrases.parquet", [row])
    assert read_paraphrases(Location.of(file), rubrics)[DIMENSION]["t"].prompt == "In other words."
    write_rows(file, [row | {"contxt": "A fact."}])
    with pytest.raises(ConfigError, match="unknown column 'contxt'"):
        read_paraphrases(Location.of(file), rubrics)
