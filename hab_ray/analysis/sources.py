"""Third-party texts in a run, with their origin and licence."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from hab_ray.errors import ConfigError
from hab_ray.given.origins import RESPONSES, RUBRIC, TESTS, WORDING, given_files, origins_of
from hab_ray.given.rows import given_file
from hab_ray.inputs.origin import Origin
from hab_ray.location import Location
from hab_ray.results import Run
from hab_ray.rows import Rater
from hab_ray.visible import counted, one_line


class Texts(StrEnum):
    """Kinds of texts that may come from a third party.

    Queries, wording and system prompts are listed by dimension, variants by judge, the others by author.
    """

    QUERIES = "queries"
    ANSWERS = "answers"
    WORDING = "wording of rubrics"
    VARIANTS = "wording of judges' variants"
    SYSTEMS = "system prompts of rubrics"
    COMMENTS = "comments or reasons by raters"


@dataclass(frozen=True)
class Source:
    """Third-party texts: the dimensions, subjects or raters they belong to, and the number of rows."""

    texts: Texts
    of: tuple[str, ...]
    rows: int
    origin: Origin

    def __str__(self) -> str:
        canaries = f"; canary {', '.join(self.origin.canaries)}" if self.origin.canaries else ""
        return one_line(
            f"{self.texts} ({', '.join(self.of)}; {counted(self.rows, 'row')}) from {self.origin.source} (licence: "
            f"{self.origin.licence}{canaries})"
        )


def sources_of(run: Run) -> Iterator[Source]:
    """Yield the third-party texts of a run, according to its record.

    Raises:
        ConfigError: rubrics or a source record cannot be read.
    """
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
            if run.rubrics[dimension].system:
                yield Source(Texts.SYSTEMS, (dimension,), _tests(run, dimension), origin)
            if run.record.sweep.tests == "seeds":
                yield Source(Texts.QUERIES, (dimension,), _tests(run, dimension), origin)
    for judge in run.raters:
        if origin := origins.get(f"{WORDING}{judge}"):
            yield Source(Texts.VARIANTS, (judge,), run.verdicts(judge, columns=["sample"]).num_rows, origin)
    yield from _comments(run)


def _tests(run: Run, *dimensions: str) -> int:
    return sum(run.tests(dimension, columns=["id"]).num_rows for dimension in dimensions)


def _comments(run: Run) -> Iterator[Source]:
    """Yield what raters other than this run's models wrote: people, and authors of published verdicts."""
    for rater in run.raters:
        if rater not in run.panel:
            rows = run.verdicts(rater, columns=["kind", "assessment", "reason"]).to_pylist()
            written = sum(row["kind"] != Rater.MODEL and bool(row["assessment"] or row["reason"]) for row in rows)
            if written:
                yield Source(Texts.COMMENTS, (rater,), written, Origin(source="a rater outside this run"))


def _origins(run: Run) -> Mapping[str, Origin]:
    """Return the origins in the run's record; for older runs without them, those found beside unchanged files."""
    if run.record.sources is not None:
        return run.record.sources
    files = given_files(run.record.sweep)
    lost = {key: Origin(source=file.name) for key, file in files.items() if not _is_unchanged(run, key, file)}
    return origins_of(run.record.sweep, run.rubrics, {}) | lost


def _is_unchanged(run: Run, key: str, file: Location) -> bool:
    try:
        return sha256(given_file(file, key)).hexdigest() == run.record.hashes.get(key)
    except ConfigError:
        return False
