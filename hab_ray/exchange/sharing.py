"""Which texts of a run an export passes on: none that come from elsewhere without a known licence, unless one may."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

import pyarrow as pa
import pyarrow.compute as pc

from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.results import Run
from hab_ray.rows import Rater
from hab_ray.rubric import Origin
from hab_ray.storage.given import given_file
from hab_ray.storage.origins import RESPONSES, RUBRIC, TESTS, given_files, origins_of
from hab_ray.visible import one_line

_STATE_A_LICENCE = (
    "To have it included, state a licence: `licence:` in FILE.source.yaml beside the given file (with `source:`) or in "
    "the rubric's `literal.origin`, and start the same `hab run` again, which costs nothing; or export with "
    "--i-may-share if you may pass it on."
)
_ASK_THE_RATERS = "Comments are included with --i-may-share, if those who wrote them agree."
_TEST_TEXTS = ("prompt", "context", "system")
_RESPONSE_TEXTS = ("text", "reason")
_VERDICT_TEXTS = ("assessment", "reason")


class Texts(StrEnum):
    """Texts of a run that may come from elsewhere. Queries and wording go by dimension, the others by who wrote."""

    QUERIES = "queries"
    ANSWERS = "answers"
    WORDING = "wording of rubrics"
    COMMENTS = "comments of raters"


@dataclass(frozen=True)
class Source:
    """Texts that come from elsewhere: of which dimensions, subjects or raters, and in how many rows."""

    texts: Texts
    of: tuple[str, ...]
    rows: int
    origin: Origin

    def __str__(self) -> str:
        canaries = f"; canary {', '.join(self.origin.canaries)}" if self.origin.canaries else ""
        return one_line(
            f"{self.texts} ({', '.join(self.of)}; {self.rows:,} rows) from {self.origin.source} (licence: "
            f"{self.origin.licence}{canaries})"
        )


@dataclass(frozen=True)
class Sharing:
    """What an export includes and leaves out of the texts that come from elsewhere."""

    included: tuple[Source, ...]
    left_out: tuple[Source, ...]

    @property
    def remedies(self) -> str:
        """How to have what is left out included."""
        kinds = {source.texts is Texts.COMMENTS for source in self.left_out}
        told = {False: _STATE_A_LICENCE, True: _ASK_THE_RATERS}
        return " ".join(told[is_comment] for is_comment in sorted(kinds))

    def without(self, texts: Texts, name: str) -> bool:
        """Whether these texts of a dimension, subject or rater are left out."""
        return any(source.texts is texts and name in source.of for source in self.left_out)

    def without_question(self, dimension: str, subject: str) -> bool:
        """Whether a test or the answer to it is left out, and so every text that quotes them."""
        return self.without(Texts.QUERIES, dimension) or self.without(Texts.ANSWERS, subject)

    def without_system(self, dimension: str) -> bool:
        """Whether the system prompt that a dimension adds is left out."""
        return self.without(Texts.QUERIES, dimension) or self.without(Texts.WORDING, dimension)

    def tests(self, dimension: str, table: pa.Table) -> pa.Table:
        """A dimension's tests, with null for what is left out."""
        texts = _TEST_TEXTS if self.without(Texts.QUERIES, dimension) else ()
        return _with_nulls(table, _TEST_TEXTS, texts or (("system",) if self.without_system(dimension) else ()))

    def responses(self, subject: str, table: pa.Table) -> pa.Table:
        """A subject's responses, with null for what is left out."""
        return _with_nulls(table, _RESPONSE_TEXTS, _RESPONSE_TEXTS if self.without(Texts.ANSWERS, subject) else ())

    def verdicts(self, rater: str, subject: str, dimension: str, table: pa.Table) -> pa.Table:
        """A rater's verdicts on a subject's responses, with null for what is left out or may quote it."""
        is_out = self.without(Texts.COMMENTS, rater) or self.without_question(dimension, subject)
        return _with_nulls(table, _VERDICT_TEXTS, _VERDICT_TEXTS if is_out else ())


def licensed(run: Run) -> Sharing:
    """Passes on what has a known licence, and what is the run's own.

    Raises:
        ConfigError: rubrics, or what a source record says, cannot be read.
    """
    found = tuple(_sources(run))
    return Sharing(
        included=tuple(source for source in found if source.origin.has_licence),
        left_out=tuple(source for source in found if not source.origin.has_licence),
    )


def everything(run: Run) -> Sharing:
    """Passes on all, for somebody who may. Raises as `licensed`."""
    return Sharing(tuple(_sources(run)), ())


def _with_nulls(table: pa.Table, nullable: Collection[str], names: Collection[str]) -> pa.Table:
    """The table with null in the named columns; all `nullable` ones may hold it, as parts of a file have one schema."""
    columns = [
        pa.nulls(table.num_rows, field.type) if field.name in names else table.column(field.name)
        for field in table.schema
    ]
    fields = [field.with_nullable(True) if field.name in nullable else field for field in table.schema]
    return pa.table(columns, schema=pa.schema(fields))


def _sources(run: Run) -> Iterator[Source]:
    origins = _origins(run)
    given = run.record.sweep.responses
    queries = origins.get(TESTS)
    if run.record.sweep.tests is None and queries is None:
        queries = origins.get(RESPONSES)
    if queries is not None:
        yield Source(Texts.QUERIES, run.dimensions, _tests(run, *run.dimensions), queries)
    if given is not None:
        rows = sum(run.responses(subject, columns=["sample"]).num_rows for subject in given.subjects)
        yield Source(Texts.ANSWERS, given.subjects, rows, origins.get(RESPONSES, Origin(source=given.file.name)))
    for dimension in run.dimensions:
        if origin := origins.get(f"{RUBRIC}{dimension}"):
            rows = run.verdicts(dimension=dimension, columns=["sample"]).num_rows
            yield Source(Texts.WORDING, (dimension,), rows, origin)
            if run.record.sweep.tests == "seeds":
                yield Source(Texts.QUERIES, (dimension,), _tests(run, dimension), origin)
    yield from _comments(run)


def _tests(run: Run, *dimensions: str) -> int:
    return sum(run.tests(dimension, columns=["id"]).num_rows for dimension in dimensions)


def _comments(run: Run) -> Iterator[Source]:
    """What raters wrote who are no models of this run: people, and whoever stands behind published verdicts."""
    for rater in run.raters:
        if rater not in run.panel:
            kinds = run.verdicts(rater, columns=["kind"]).column("kind")
            if set(pc.unique(kinds).to_pylist()) - {str(Rater.MODEL)}:
                yield Source(Texts.COMMENTS, (rater,), len(kinds), Origin(source="a rater who is no model of this run"))


def _origins(run: Run) -> Mapping[str, Origin]:
    """The origins in the run's record. Of a run from before they were kept, what can be found out today."""
    if run.record.sources is not None:
        return run.record.sources
    files = given_files(run.record.sweep)
    lost = {key: Origin(source=file.name) for key, file in files.items() if not _is_there(run, key, file)}
    return origins_of(run.record.sweep, run.rubrics, {}) | lost


def _is_there(run: Run, key: str, file: Location) -> bool:
    """Whether a file is the one that the run was given: what is stated beside another says nothing of it."""
    try:
        return sha256(given_file(file, key)).hexdigest() == run.record.hashes.get(key)
    except ConfigError:
        return False
