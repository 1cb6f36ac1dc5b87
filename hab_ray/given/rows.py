"""Tests given in a file: Parquet, CSV or JSON with `dimension` and `prompt`, optionally `id` and `context`.

Exported tests also have `call`, because tests from one generation call are not independent. Imported tests also have
`source`, `licence` and `canaries`, in case their source record is lost.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar
from unicodedata import normalize

from pydantic import AfterValidator, AliasChoices, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from hab_ray.bounds import NUMBER
from hab_ray.calls import clean_text, has_visible_text
from hab_ray.catalog.base import Strict
from hab_ray.config.sections import Name
from hab_ray.errors import ConfigError
from hab_ray.inputs.csv_text import csv_names, csv_rows
from hab_ray.inputs.files import MEBIBYTE, SHOWN, BadInput, bytes_of, causes_of, refusing
from hab_ray.inputs.json_text import json_lines, json_list
from hab_ray.inputs.parquet import number_columns, parquet_columns, parquet_rows
from hab_ray.location import Location
from hab_ray.rows import ChosenTest, id_of_test
from hab_ray.rubric import Rubric, rubric_names
from hab_ray.storage.folder import open_folder
from hab_ray.visible import counted, one_line


def _not_blank(text: str) -> str:
    if not has_visible_text(text):
        raise ValueError("is empty; write what the subject is asked, or leave the row out")
    return text


def _whole_as_text(given: Any) -> Any:
    if isinstance(given, float):
        raise ValueError("is a number that may be rounded; write it as text")
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else given


def call_name(given: Any) -> Any:
    """Return a number that names a test, its call or a rater as text, such as `3` for 3.0 from pandas; None for NaN."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        return given
    if math.isnan(given):
        return None
    return str(int(given) if isinstance(given, float) and given.is_integer() else given)


LOG = logging.getLogger("hab_ray.run")
ROWS_READ: ContextVar[Callable[[int], None]] = ContextVar("ROWS_READ", default=lambda rows: None)
"""Called every `REPORTED_ROWS` with the number of rows of a file read so far."""
REPORTED_ROWS = 10_000
_SHOWN_NAMES = 3
_MAY_BE_NUMBERS = {"id", "call", "test_id"}
_JSON_LINES = (".jsonl", ".json", ".ndjson")
Text = Annotated[str, AfterValidator(clean_text)]
Context = Annotated[Text, BeforeValidator(lambda given: "" if given is None else given)]
Prompt = Annotated[Text, AfterValidator(_not_blank)]
CallName = Annotated[Text | None, BeforeValidator(call_name)]
Cluster = Annotated[int, NUMBER, Field(ge=-1, lt=2**31)]
Given = TypeVar("Given", bound=Strict)
T = TypeVar("T")
MAX_BYTES = 256 * MEBIBYTE
_BEFORE_JSON = b"\xef\xbb\xbf \t\r\n"
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class Columns:
    """The columns of a given file, by type.

    All cells of a CSV file are text, and an empty cell is missing, except in columns that `may_be_empty`. If they are
    `exclusive`, other columns are refused.
    """

    texts: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    may_be_empty: tuple[str, ...] = ()
    exclusive: bool = False

    @classmethod
    def of(cls, row: type[Strict], numbers: tuple[str, ...] = (), may_be_empty: tuple[str, ...] = ()) -> Self:
        """Return the columns of a row type, under all their names; exclusive if the type forbids other fields."""
        aliases = {name: field.validation_alias for name, field in row.model_fields.items()}
        known = [alias.choices if isinstance(alias, AliasChoices) else [name] for name, alias in aliases.items()]
        texts = (str(name) for names in known for name in names if name not in numbers)
        return cls(tuple(texts), numbers, may_be_empty, exclusive=row.model_config.get("extra") == "forbid")

    def check_header(self, names: Collection[str]) -> None:
        """Check that a CSV file, which may have no rows, has a known column; raise BadInput if it has none."""
        if not {*self.texts, *self.numbers}.intersection(names):
            cause = f"the first line names none of the columns {', '.join(self.texts)}"
            raise BadInput(cause, "check that it is the right file, and saved as CSV")

    def of_cells(self, cells: Mapping[str, str]) -> dict[str, str | int]:
        """Return the values of a row of a CSV file. In columns of numbers, other cells stay text."""
        return {
            name: int(cell) if name in self.numbers and _WHOLE_NUMBER.fullmatch(cell) else cell
            for name, cell in cells.items()
            if cell or name in self.may_be_empty
        }


ORIGIN = Columns(texts=("source", "licence", "canaries"))


class GivenTest(Strict):
    """One row of a file of tests. Its id defaults to a hash of its text, its system prompt to the rubric's.

    `call` names the generation call that the test comes from; a test without one counts as independent.
    """

    dimension: str
    prompt: Prompt
    id: Annotated[Text | None, BeforeValidator(_whole_as_text)] = None
    context: Context = ""
    system: Text | None = None
    cluster: Cluster | None = None
    call: CallName = None
    source: Text | None = None
    licence: Text | None = None
    canaries: Text | None = None


_COLUMNS = Columns.of(GivenTest, numbers=("cluster",))


class AnswerRow(Strict):
    """The fields of every row about a response: its subject, and its test by `test_id` or `prompt` (and `context`).

    Other columns are ignored. The names of the benchmark's published data set are accepted as well.
    """

    model_config = ConfigDict(extra="ignore")

    dimension: str
    subject: Annotated[Name, Field(validation_alias=AliasChoices("subject", "subject_model"))]
    test_id: CallName = None
    prompt: Text | None = None
    context: Annotated[Text | None, Field(validation_alias=AliasChoices("context", "misinformation"))] = None
    sample: Annotated[int, NUMBER, Field(ge=0, lt=1000)] = 0

    @model_validator(mode="after")
    def _names_its_test(self) -> Self:
        if self.test_id is None and self.prompt is None:
            raise ValueError("names no test; give `prompt` (and `context` where the rubric has one), or `test_id`")
        return self


def given_file(place: Location, key: str = "tests", most: int = MAX_BYTES) -> bytes:
    """Read a file that a sweep names under `key`.

    Raises:
        ConfigError: the file does not exist, cannot be read or has more than `most` bytes.
    """
    try:
        with refusing(f"{key}: {place}"):
            if place.is_local:
                return bytes_of(place.path, most)
            folder = open_folder(place.parent)
            if folder.size(place.name) > most:
                raise BadInput(f"has more than {most:,} bytes", "split it")
            return folder.get(place.name)
    except FileNotFoundError:
        raise ConfigError(f"{key}: there is no file {place}; name a .parquet, .csv or .jsonl file") from None


def given_row(kind: type[Given], record: object, where: str) -> Given:
    """Validate a row of a given file.

    Raises:
        ConfigError: the row is invalid; the message lists the causes.
    """
    try:
        return kind.model_validate(record)
    except ValidationError as error:
        raise ConfigError(one_line(f"{where}: {causes_of(error)}")) from None


def read_given_tests(
    path: Location, rubrics: Mapping[str, Rubric], own: Path | None = None
) -> dict[str, list[ChosenTest]]:
    """Read the tests of a file, by dimension and in the file's order. Dimensions without a rubric are left out.

    `own` is the folder of the sweep's own rubrics, which may have more than `rubrics`. Raise ConfigError if the file
    cannot be read, a row is not a test of its dimension, or an id appears twice.
    """
    tests: dict[str, list[ChosenTest]] = defaultdict(list)
    seen: set[str] = set()
    left_out: Counter[str] = Counter()
    for number, record in enumerate(given_records(path, "tests", _COLUMNS), 1):
        given = given_row(GivenTest, record, f"{path}, row {number}")
        if given.dimension not in rubrics:
            left_out[given.dimension] += 1
            continue
        rubric = rubrics[given.dimension]
        check_context(given.context, rubric, f"{path}, row {number}")
        test = ChosenTest(
            id=given.id or id_of_test(rubric.id, given.prompt, given.context),
            dimension=rubric.id,
            prompt=given.prompt,
            context=given.context,
            system=rubric.system if given.system is None else given.system,
            cluster=given.cluster,
            call=given.call if has_visible_text(given.call or "") else None,
        )
        if test.id in seen:
            raise ConfigError(f"{path}, row {number}: id {test.id!r} appears twice; ids must be unique")
        seen.add(test.id)
        tests[given.dimension].append(test)
    warn_of_unknown(f"tests: {path}", left_out, rubrics, own)
    return dict(tests)


def warn_of_unknown(where: str, left_out: Mapping[str, int], rubrics: Collection[str], own: Path | None) -> None:
    """Log how many rows are left out because their dimension has no rubric, also in `own`, and may be misspelt."""
    unknown = sorted(left_out.keys() - rubric_names(own))
    if unknown:
        rows = counted(sum(left_out[name] for name in unknown), "row")
        named = ", ".join(repr(name[:SHOWN]) for name in unknown[:_SHOWN_NAMES])
        more = ", ..." if len(unknown) > _SHOWN_NAMES else ""
        cause = f"{where}: left out {rows} of dimensions that neither this sweep nor hab has: {named}{more}"
        LOG.warning("%s", one_line(f"{cause}; correct them if they belong to {', '.join(rubrics)}"))


def warn_of_alike(kind: str, places: Mapping[str, str]) -> None:
    """Log names, given with the row where each is first, that are the same but for capitals or Unicode's forms."""
    alike: dict[str, list[str]] = defaultdict(list)
    for name, where in places.items():
        alike[normalize("NFC", normalize("NFC", name).casefold())].append(where)
    for found in (rows for rows in alike.values() if len(rows) > 1):
        cause = f"{' and '.join(found)}: the {kind}s' names differ only in capitals or in how an accent is encoded"
        LOG.warning("%s", one_line(f"{cause}: they count as {len(found)} {kind}s; write one name if they are the same"))


def check_context(context: str, rubric: Rubric, where: str) -> None:
    """Check that a test has a context exactly if the rubric has one, since its judges are shown it.

    Raises:
        ConfigError: the context is missing, or the rubric has none.
    """
    field = rubric.context
    if field is None:
        if context:
            raise ConfigError(f"{where}: context: {rubric.id} has no such field; leave it out")
    elif not context.strip():
        raise ConfigError(
            f"{where}: context: is missing; add it, as judges of {rubric.id} are shown it ({field.label})"
        )


def given_records(path: Location, key: str, columns: Columns, kept: bytes | None = None) -> Iterator[Any]:
    """Yield the rows of a file that a sweep names under `key`: of Parquet these columns, else all columns.

    `kept` is a run's copy of the file, which is read instead. JSON is one object per line or, in a .json file, may be a
    list. Raise ConfigError if the file cannot be read, or a Parquet file has other columns than exclusive ones.
    """
    data = given_file(path, key) if kept is None else kept
    with refusing(f"{key}: {path}"):
        if path.name.lower().endswith(".parquet"):
            read = parquet_rows if columns.exclusive else parquet_columns
            numbered = number_columns(data).intersection(columns.texts) & _MAY_BE_NUMBERS
            texts = [name for name in columns.texts if name not in numbered]
            yield from _reported(read(data, texts, [*columns.numbers, *numbered]))
        elif path.name.lower().endswith(".csv"):
            if columns.exclusive:
                columns.check_header(csv_names(data))
            yield from _reported(columns.of_cells(cells) for _, cells in csv_rows(data))
        elif path.name.lower().endswith(".json") and data.lstrip(_BEFORE_JSON).startswith(b"["):
            yield from _reported(json_list(data))
        else:
            with _read_as_lines(path):
                yield from _reported(record for _, record in json_lines(data))


@contextmanager
def _read_as_lines(path: Location) -> Iterator[None]:
    """Say in messages that a file is read as JSON lines, if its name does not."""
    try:
        yield
    except BadInput as error:
        if path.name.lower().endswith(_JSON_LINES):
            raise
        cause = f"is read as JSON lines, as its name ends in neither .csv nor .parquet ({error.cause})"
        raise BadInput(cause, "save the table as .csv in UTF-8, .parquet or .jsonl") from None


def _reported(rows: Iterable[Any]) -> Iterator[Any]:
    """Yield the rows, and report their number to `ROWS_READ` now and then."""
    report = ROWS_READ.get()
    for number, row in enumerate(rows, 1):
        if number % REPORTED_ROWS == 0:
            report(number)
        yield row


class ReadOnce:
    """Caches what was read, by key, while a command runs. Pickling drops the contents: a worker reads again."""

    def __init__(self) -> None:
        self._read: dict[Hashable, Any] = {}

    def __reduce__(self) -> tuple[type[ReadOnce], tuple[()]]:
        return ReadOnce, ()

    def get(self, key: Hashable, read: Callable[[], T]) -> T:
        """Return the value of a key, and read it first if necessary. Errors are not cached."""
        if key not in self._read:
            self._read[key] = read()
        value: T = self._read[key]
        return value

    def forget(self) -> None:
        """Free the memory."""
        self._read.clear()
