"""Paraphrases given in a file: the wordings in which a variant asks tests."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, model_validator

from hab_ray.catalog.base import Strict
from hab_ray.errors import ConfigError
from hab_ray.given.rows import CallName, Columns, Context, Prompt, Text, check_context, given_records, given_row
from hab_ray.location import Location
from hab_ray.rows import Paraphrase
from hab_ray.rubric import Rubric
from hab_ray.visible import one_line


class GivenParaphrase(Strict):
    """One row: another wording of a test, named by `test_id` or by its prompt in `paraphrase_of`."""

    dimension: str
    prompt: Prompt
    context: Context = ""
    test_id: Annotated[CallName, Field(min_length=1)] = None
    paraphrase_of: Annotated[Text | None, Field(min_length=1)] = None

    @model_validator(mode="after")
    def _names_one_test(self) -> Self:
        if (self.test_id is None) == (self.paraphrase_of is None):
            raise ValueError("names no test, or two; give either `test_id` or, as `paraphrase_of`, the test's prompt")
        return self

    @property
    def of(self) -> str:
        """The id or prompt of the test."""
        return self.test_id or self.paraphrase_of or ""


_COLUMNS = Columns.of(GivenParaphrase)


def read_paraphrases(
    path: Location, rubrics: Mapping[str, Rubric], kept: bytes | None = None
) -> dict[str, dict[str, Paraphrase]]:
    """Read the paraphrases in a file (Parquet, CSV or JSON), by dimension and by the test's id or prompt.

    `kept` is a run's copy of the file, which is read instead. Dimensions without a rubric are left out; every rubric's
    dimension has an entry. Raise ConfigError if the file cannot be read, a row is not a paraphrase, or a test has two.
    """
    found: dict[str, dict[str, Paraphrase]] = defaultdict(dict, {dimension: {} for dimension in rubrics})
    for number, record in enumerate(given_records(path, "variants.subjects.tests", _COLUMNS, kept), 1):
        where = f"{path}, row {number}"
        row = given_row(GivenParaphrase, record, where)
        if row.dimension not in rubrics:
            continue
        rubric = rubrics[row.dimension]
        check_context(row.context, rubric, where)
        if rubric.context and rubric.context.within_prompt and row.context not in row.prompt:
            raise ConfigError(f"{where}: context: does not occur in the prompt; copy it from there word for word")
        if row.of in found[row.dimension]:
            raise ConfigError(one_line(f"{where}: {row.of!r} has a paraphrase already; give it another variant"))
        found[row.dimension][row.of] = Paraphrase(row.of, row.dimension, row.prompt, row.context)
    if not any(found.values()):
        raise ConfigError(f"variants.subjects.tests: {path} has no row of {', '.join(rubrics)}")
    return dict(found)
