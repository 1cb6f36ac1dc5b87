"""Which texts of a run an export includes: by default none from other sources without a known licence."""

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
    """The sources of texts that an export includes, and those that it leaves out."""

    included: tuple[Source, ...]
    left_out: tuple[Source, ...]

    @property
    def remedies(self) -> str:
        """How to include what is left out."""
        are_comments = {source.texts is Texts.COMMENTS for source in self.left_out}
        return " ".join(_ASK_THE_RATERS if comments else _STATE_A_LICENCE for comments in sorted(are_comments))

    def without(self, texts: Texts, name: str) -> bool:
        """Whether texts of this kind of a dimension, subject or rater are left out."""
        return any(source.texts is texts and name in source.of for source in self.left_out)

    def without_answers(self, dimension: str, subject: str) -> bool:
        """Whether a subject's answers are left out, or texts that they may quote."""
        shown = self.without(Texts.QUERIES, dimension) or self.without(Texts.SYSTEMS, dimension)
        return shown or self.without(Texts.ANSWERS, subject)

    def without_assessments(self, rater: str, dimension: str, subject: str) -> bool:
        """Whether a rater's assessments are left out, or texts that they may quote."""
        is_quoting = self.without(Texts.WORDING, dimension) or self.without_answers(dimension, subject)
        return is_quoting or self.without(Texts.VARIANTS, rater) or self.without(Texts.COMMENTS, rater)

    def without_system(self, dimension: str) -> bool:
        """Whether the system prompt that a dimension adds is left out."""
        return self.without(Texts.QUERIES, dimension) or self.without(Texts.WORDING, dimension)

    def tests(self, dimension: str, table: pa.Table) -> pa.Table:
        """Return a dimension's tests with null for texts that are left out."""
        texts = _TEST_TEXTS if self.without(Texts.QUERIES, dimension) else ()
        return _with_nulls(table, _TEST_TEXTS, texts or (("system",) if self.without_system(dimension) else ()))

    def responses(self, subject: str, dimension: str, table: pa.Table) -> pa.Table:
        """Return a subject's responses with null for texts that are left out."""
        is_out = self.without_answers(dimension, subject)
        return _with_nulls(table, _RESPONSE_TEXTS, _RESPONSE_TEXTS if is_out else ())

    def verdicts(self, rater: str, subject: str, dimension: str, table: pa.Table) -> pa.Table:
        """Return a rater's verdicts on a subject with null for texts that are left out."""
        is_out = self.without_assessments(rater, dimension, subject)
        return _with_nulls(table, _VERDICT_TEXTS, _VERDICT_TEXTS if is_out else ())


def licensed(run: Run) -> Sharing:
    """Share the run's own texts and those with a known licence.

    Raises:
        ConfigError: a rubric or source record cannot be read.
    """
    sources = tuple(sources_of(run))
    return Sharing(
        included=tuple(source for source in sources if source.origin.has_licence),
        left_out=tuple(source for source in sources if not source.origin.has_licence),
    )


def everything(run: Run) -> Sharing:
    """Share all texts, as the user has confirmed (--i-may-share). Raises as `licensed`."""
    return Sharing(tuple(sources_of(run)), ())


def _with_nulls(table: pa.Table, nullable: Collection[str], names: Collection[str]) -> pa.Table:
    """Set the columns `names` to null. All `nullable` columns allow null, as parts of a file share one schema."""
    columns = [
        pa.nulls(table.num_rows, field.type) if field.name in names else table.column(field.name)
        for field in table.schema
    ]
    fields = [field.with_nullable(True) if field.name in nullable else field for field in table.schema]
    return pa.table(columns, schema=pa.schema(fields))
