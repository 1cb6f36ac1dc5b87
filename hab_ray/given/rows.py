"""Tests given in a file: Parquet, CSV or JSON lines with `dimension` and `prompt`, and `id`, `context` where wanted.

Imported ones have `source`, `licence` and `canaries`, too: where they come from, should their source record get lost.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, AliasChoices, ConfigDict, Field, ValidationError, model_validator

from hab_ray.bounds import NUMBER
from hab_ray.calls import clean_text, has_visible_text
from hab_ray.catalog.models import Strict
from hab_ray.config.sections import Name
from hab_ray.errors import ConfigError
from hab_ray.inputs.csv_text import csv_rows
from hab_ray.inputs.files import MEBIBYTE, BadInput, bytes_of, causes_of
from hab_ray.inputs.json_text import json_lines
from hab_ray.inputs.parquet import parquet_columns, parquet_rows
from hab_ray.location import Location
from hab_ray.rows import ChosenTest, id_of_test
from hab_ray.rubric import Rubric
from hab_ray.storage.folder import open_folder
from hab_ray.visible import one_line


def _not_blank(text: str) -> str:
    if not has_visible_text(text):
        raise ValueError("is empty; write what the subject is asked, or leave the row out")
    return text


ROWS_READ: ContextVar[Callable[[int], None]] = ContextVar("ROWS_READ", default=lambda rows: None)
"""Is told now and then how many rows of a file were read."""
_TOLD_ROWS = 10_000
Text = Annotated[str, AfterValidator(clean_text)]
Prompt = Annotated[Text, AfterValidator(_not_blank)]
Cluster = Annotated[int, NUMBER, Field(ge=-1, lt=2**31)]
Given = TypeVar("Given", bound=Strict)
MAX_BYTES = 256 * MEBIBYTE
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class Columns:
    """The columns of a given file by what they hold.

    All cells of a CSV file are text, and an empty one is none, except in columns that `may_be_empty`.
    """

    texts: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    may_be_empty: tuple[str, ...] = ()

    @classmethod
    def of(cls, row: type[Strict], numbers: tuple[str, ...] = (), may_be_empty: tuple[str, ...] = ()) -> Self:
        """The columns that a kind of row has, under all names that it knows them by."""
        aliases = {name: field.validation_alias for name, field in row.model_fields.items()}
        known = [alias.choices if isinstance(alias, AliasChoices) else [name] for name, alias in aliases.items()]
        texts = (str(name) for names in known for name in names if name not in numbers)
        return cls(tuple(texts), numbers, may_be_empty)

    def of_cells(self, cells: Mapping[str, str]) -> dict[str, str | int]:
        """The values of a row of a CSV file; a cell that is no whole number where one belongs stays text."""
        return {
            name: int(cell) if name in self.numbers and _WHOLE_NUMBER.fullmatch(cell) else cell
            for name, cell in cells.items()
            if cell or name in self.may_be_empty
        }


ORIGIN = Columns(texts=("source", "licence", "canaries"))


class GivenTest(Strict):
    """One line of a file of tests; without an id it gets one from its text, without a system the rubric's."""

    dimension: str
    prompt: Prompt
    id: Text | None = None
    context: Text = ""
    system: Text | None = None
    cluster: Cluster | None = None
    source: Text | None = None
    licence: Text | None = None
    canaries: Text | None = None


_COLUMNS = Columns.of(GivenTest, numbers=("cluster",))


class AnswerRow(Strict):
    """What each row about an answer says: whose it is, and its test, by `test_id` or `prompt` (and `context`).

    Further columns are passed over. The names of the benchmark's published data set are understood, too.
    """

    model_config = ConfigDict(extra="ignore")

    dimension: str
    subject: Annotated[Name, Field(validation_alias=AliasChoices("subject", "subject_model"))]
    test_id: Text | None = None
    prompt: Text | None = None
    context: Annotated[Text | None, Field(validation_alias=AliasChoices("context", "misinformation"))] = None
    sample: Annotated[int, NUMBER, Field(ge=0, lt=1000)] = 0

    @model_validator(mode="after")
    def _names_its_test(self) -> Self:
        if self.test_id is None and self.prompt is None:
            raise ValueError("names no test; give `prompt` (and `context` where the rubric has one), or `test_id`")
        return self


def given_file(place: Location, key: str = "tests", most: int = MAX_BYTES) -> bytes:
    """The bytes of a file that a sweep names under a key.

    Raises:
        ConfigError: there is none, or it has more than `most`.
    """
    try:
        return bytes_of(place.path, most) if place.is_local else _in_bucket(place, most)
    except FileNotFoundError:
        raise ConfigError(f"{key}: there is no file {place}; name a .parquet, .csv or .jsonl file") from None
    except BadInput as error:
        raise ConfigError(one_line(f"{key}: {place}: {error}")) from None


def _in_bucket(place: Location, most: int) -> bytes:
    folder = open_folder(place.parent)
    if folder.size(place.name) > most:
        raise BadInput(f"has more than {most:,} bytes", "split it")
    return folder.get(place.name)


def given_row(kind: type[Given], record: object, where: str) -> Given:
    """A row of a given file.

    Raises:
        ConfigError: it is none of this kind; with all that is wrong.
    """
    try:
        return kind.model_validate(record)
    except ValidationError as error:
        raise ConfigError(one_line(f"{where}: {causes_of(error)}")) from None


def read_given_tests(path: Location, rubrics: Mapping[str, Rubric]) -> dict[str, list[ChosenTest]]:
    """The tests of a file, by dimension, in the file's order; other dimensions than the rubrics' are left out.

    Raises:
        ConfigError: the file cannot be read, a line is not a test of its dimension, or an id appears twice.
    """
    tests: dict[str, list[ChosenTest]] = defaultdict(list)
    seen: set[str] = set()
    for number, record in enumerate(_tests_in(path), 1):
        given = given_row(GivenTest, record, f"{path}, row {number}")
        if given.dimension not in rubrics:
            continue
        check_context(given.context, rubrics[given.dimension], f"{path}, row {number}")
        test = _as_test(given, rubrics[given.dimension])
        if test.id in seen:
            raise ConfigError(f"{path}, row {number}: id {test.id!r} appears twice; ids must be unique")
        seen.add(test.id)
        tests[given.dimension].append(test)
    return dict(tests)


def check_context(context: str, rubric: Rubric, where: str) -> None:
    """See that a test has the rubric's second field where there is one: the judge cannot do without.

    Raises:
        ConfigError: it is missing, or given where there is none.
    """
    field = rubric.context
    if field is None:
        if context:
            raise ConfigError(f"{where}: context: {rubric.id} has no such field; leave it out")
    elif not context.strip():
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


def _tests_in(path: Location) -> Iterator[Any]:
    """The rows of a file of tests; one in Parquet with a column that tests do not have is refused."""
    if not _is_parquet(path):
        yield from given_records(path, "tests", _COLUMNS)
        return
    with _named(path, "tests"):
        yield from _told(parquet_rows(given_file(path), _COLUMNS.texts, _COLUMNS.numbers))


def given_records(path: Location, key: str, columns: Columns) -> Iterator[Any]:
    """The rows of a file that a sweep names under a key: of Parquet these columns, else all that is there.

    Raises:
        ConfigError: the file cannot be read.
    """
    data = given_file(path, key)
    with _named(path, key):
        if _is_parquet(path):
            yield from _told(parquet_columns(data, columns.texts, columns.numbers))
        elif path.name.lower().endswith(".csv"):
            yield from _told(columns.of_cells(cells) for _, cells in csv_rows(data))
        else:
            yield from _told(record for _, record in json_lines(data))


def _told(rows: Iterable[Any]) -> Iterator[Any]:
    """The same rows, which are counted for whoever watches."""
    told = ROWS_READ.get()
    for number, row in enumerate(rows, 1):
        if number % _TOLD_ROWS == 0:
            told(number)
        yield row


def _is_parquet(path: Location) -> bool:
    return path.name.lower().endswith(".parquet")


@contextmanager
def _named(path: Location, key: str) -> Iterator[None]:
    """Has what is wrong with a file say which it is, and under which key the sweep names it."""
    try:
        yield
    except BadInput as error:
        raise ConfigError(one_line(f"{key}: {path}: {error}")) from None
