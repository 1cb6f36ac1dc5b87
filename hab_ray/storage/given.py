"""Tests given in a file: Parquet or JSON lines with `dimension` and `prompt`, and `id`, `context` where wanted."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import AfterValidator, ValidationError

from hab_ray.calls import clean_text
from hab_ray.catalog import Strict
from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.rows import ChosenTest, id_of_test
from hab_ray.rubric import Rubric
from hab_ray.storage.folder import open_folder
from hab_ray.visible import one_line

Text = Annotated[str, AfterValidator(clean_text)]


class GivenTest(Strict):
    """One line of a file of tests; without an id it gets one from its text, without a system the rubric's."""

    dimension: str
    prompt: Text
    id: Text | None = None
    context: Text = ""
    system: Text | None = None
    cluster: int | None = None


def given_file(place: Location) -> bytes:
    """The bytes of a file of tests.

    Raises:
        ConfigError: there is none.
    """
    if place.is_local:
        return place.path.read_bytes()
    try:
        return open_folder(place.parent).get(place.name)
    except FileNotFoundError:
        raise ConfigError(f"tests: there is no file {place}; name a .parquet or .jsonl file, or 'seeds'") from None


def read_given_tests(path: Location, rubrics: Mapping[str, Rubric]) -> dict[str, list[ChosenTest]]:
    """The tests of a file, by dimension, in the file's order; other dimensions than the rubrics' are left out.

    Raises:
        ConfigError: the file cannot be read, a line is not a test of its dimension, or an id appears twice.
    """
    tests: dict[str, list[ChosenTest]] = defaultdict(list)
    seen: set[str] = set()
    for number, record in enumerate(_records(path), 1):
        try:
            given = GivenTest.model_validate(record)
        except ValidationError as error:
            what = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise ConfigError(one_line(f"{path}, row {number}: {what}")) from None
        if given.dimension not in rubrics:
            continue
        _check_context(given, rubrics[given.dimension], f"{path}, row {number}")
        test = _as_test(given, rubrics[given.dimension])
        if test.id in seen:
            raise ConfigError(f"{path}, row {number}: id {test.id!r} appears twice; ids must be unique")
        seen.add(test.id)
        tests[given.dimension].append(test)
    return dict(tests)


def _check_context(given: GivenTest, rubric: Rubric, where: str) -> None:
    """A test has the rubric's second field where there is one: the judge cannot do without.

    Raises:
        ConfigError: it is missing, or given where there is none.
    """
    field = rubric.context
    if field is None:
        if given.context:
            raise ConfigError(f"{where}: context: {rubric.id} has no such field; leave it out")
    elif not given.context.strip():
        raise ConfigError(
            f"{where}: context: is missing; add it, as judges of {rubric.id} are shown it ({field.label})"
        )


def _as_test(given: GivenTest, rubric: Rubric) -> ChosenTest:
    return ChosenTest(
        id=given.id or id_of_test(rubric.id, given.prompt, given.context),
        dimension=rubric.id,
        prompt=given.prompt,
        context=given.context,
        system=rubric.system if given.system is None else given.system,
        cluster=given.cluster,
    )


def _records(path: Location) -> Iterator[Any]:
    data = given_file(path)
    if path.name.endswith(".parquet"):
        try:
            yield from pq.ParquetFile(pa.BufferReader(data)).read().to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise ConfigError(f"{path}: not a Parquet file that can be read: {error}") from None
        return
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise ConfigError(f"{path}, line {number}: not JSON: {error}") from None
