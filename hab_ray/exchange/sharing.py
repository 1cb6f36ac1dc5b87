"""Which texts of a run an export passes on: none that come from elsewhere without a known licence, unless one may."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa

from hab_ray.analysis.sources import Source, Texts, sources_of
from hab_ray.results import Run

_STATE_A_LICENCE = (
    "To have it included, state a licence: `licence:` in FILE.source.yaml beside the given file (with `source:`) or in "
    "the rubric's `literal.origin`, and start the same `hab run` again, which costs nothing; or export with "
    "--i-may-share if you may pass it on."
)
_ASK_THE_RATERS = "Comments are included with --i-may-share, if those who wrote them agree."
_TEST_TEXTS = ("prompt", "context", "system")
_RESPONSE_TEXTS = ("text", "reason")
_VERDICT_TEXTS = ("assessment", "reason")


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

    def without_answers(self, dimension: str, subject: str) -> bool:
        """Whether a subject's answers are left out, also as they may quote what it was shown."""
        shown = self.without(Texts.QUERIES, dimension) or self.without(Texts.SYSTEMS, dimension)
        return shown or self.without(Texts.ANSWERS, subject)

    def without_assessments(self, rater: str, dimension: str, subject: str) -> bool:
        """Whether what a rater says of answers is left out, also as it may quote them or the rater's instructions."""
        is_quoting = self.without(Texts.WORDING, dimension) or self.without_answers(dimension, subject)
        return is_quoting or self.without(Texts.VARIANTS, rater) or self.without(Texts.COMMENTS, rater)

    def without_system(self, dimension: str) -> bool:
        """Whether the system prompt that a dimension adds is left out."""
        return self.without(Texts.QUERIES, dimension) or self.without(Texts.WORDING, dimension)

    def tests(self, dimension: str, table: pa.Table) -> pa.Table:
        """A dimension's tests, with null for what is left out."""
        texts = _TEST_TEXTS if self.without(Texts.QUERIES, dimension) else ()
        return _with_nulls(table, _TEST_TEXTS, texts or (("system",) if self.without_system(dimension) else ()))

    def responses(self, subject: str, dimension: str, table: pa.Table) -> pa.Table:
        """A subject's responses, with null for what is left out."""
        is_out = self.without_answers(dimension, subject)
        return _with_nulls(table, _RESPONSE_TEXTS, _RESPONSE_TEXTS if is_out else ())

    def verdicts(self, rater: str, subject: str, dimension: str, table: pa.Table) -> pa.Table:
        """A rater's verdicts on a subject's responses, with null for what is left out or may quote it."""
        is_out = self.without_assessments(rater, dimension, subject)
        return _with_nulls(table, _VERDICT_TEXTS, _VERDICT_TEXTS if is_out else ())


def licensed(run: Run) -> Sharing:
    """Passes on what has a known licence, and what is the run's own.

    Raises:
        ConfigError: rubrics, or what a source record says, cannot be read.
    """
    found = tuple(sources_of(run))
    return Sharing(
        included=tuple(source for source in found if source.origin.has_licence),
        left_out=tuple(source for source in found if not source.origin.has_licence),
    )


def everything(run: Run) -> Sharing:
    """Passes on all, for somebody who may. Raises as `licensed`."""
    return Sharing(tuple(sources_of(run)), ())


def _with_nulls(table: pa.Table, nullable: Collection[str], names: Collection[str]) -> pa.Table:
    """The table with null in the named columns; all `nullable` ones may hold it, as parts of a file have one schema."""
    columns = [
        pa.nulls(table.num_rows, field.type) if field.name in names else table.column(field.name)
        for field in table.schema
    ]
    fields = [field.with_nullable(True) if field.name in nullable else field for field in table.schema]
    return pa.table(columns, schema=pa.schema(fields))
