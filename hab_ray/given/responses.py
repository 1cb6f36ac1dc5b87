"""Responses given in a file, which are judged instead of asking subjects."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from hab_ray.calls import Finish, has_visible_text
from hab_ray.errors import ConfigError
from hab_ray.given.rows import (
    LOG,
    AnswerRow,
    CallName,
    Columns,
    Text,
    check_context,
    given_records,
    given_row,
    warn_of_alike,
    warn_of_unknown,
)
from hab_ray.location import Location
from hab_ray.rows import ChosenTest, Response, State, id_of_test
from hab_ray.rubric import Rubric
from hab_ray.visible import counted, one_line

# The benchmark's published code wrote these instead of a response that it did not get.
ERROR_MARKS = (
    "[ERROR DURING LLM CHAT]",
    "[RATE LIMIT ERROR",
    "[ANTHROPIC OVERLOAD",
    "[GENERATION STOPPED",
    "[ERROR PARSING BATCH RESULT]",
    "[ERROR DURING BATCH LLM CHAT]",
)
# What vendors call the end of an answer at its output limit.
_CUT = ("length", "max_tokens", "max_output_tokens")


def _finish(given: Any) -> Any:
    return Finish.TRUNCATED.value if isinstance(given, str) and given.strip().lower() in _CUT else given


class GivenResponse(AnswerRow):
    """One row: a subject's answer to a test. Tables mark an empty text by null.

    `finish` is `truncated`, or as vendors say it, for an answer that was cut at its output limit.
    `call` names the generation call that the test comes from, for rows that define the tests.
    """

    text: Annotated[
        Text,
        BeforeValidator(lambda given: "" if given is None else given),
        Field(validation_alias=AliasChoices("text", "subject_response")),
    ]
    state: State | None = None
    finish: Annotated[Text | None, BeforeValidator(_finish)] = None
    model_reported: Text | None = None
    reason: Text | None = None
    call: CallName = None

    @model_validator(mode="after")
    def _has_its_text(self) -> Self:
        """Refuse rows of exports without texts: they must not be read as empty responses."""
        if self.state is State.OK and not self.text:
            raise ValueError("its state is ok and it has no text; give its text, or leave the row out")
        return self


_COLUMNS = Columns.of(GivenResponse, numbers=("sample",), may_be_empty=("text", "subject_response"))


@dataclass(frozen=True)
class GivenResponses:
    """The responses of a file, by subject and dimension, and their tests, by dimension."""

    tests: Mapping[str, list[ChosenTest]]
    responses: Mapping[tuple[str, str], list[Response]]

    @property
    def subjects(self) -> tuple[str, ...]:
        """The names of the subjects, in the file's order."""
        return tuple(dict.fromkeys(subject for subject, _ in self.responses))

    def of_samples(self, samples: int, path: Location) -> GivenResponses:
        """Return the responses whose `sample` is below `samples`; log the number of others, which enter no mean.

        Raises:
            ConfigError: there are only others.
        """
        kept = {part: [row for row in rows if row.sample < samples] for part, rows in self.responses.items()}
        left_out = sum(map(len, self.responses.values())) - sum(map(len, kept.values()))
        if left_out:
            cause = f"responses: {path}: {counted(left_out, 'row')} whose `sample` is {samples} or more left out"
            remedy = f"set `samples:` to more than {samples} to judge them; the first `sample` is 0"
            if not any(kept.values()):
                raise ConfigError(f"{cause}, and there are no others; {remedy}")
            LOG.warning("%s", one_line(f"{cause}; {remedy}"))
        return replace(self, responses=kept)


def read_given_responses(
    path: Location,
    rubrics: Mapping[str, Rubric],
    tests: Mapping[str, list[ChosenTest]] | None,
    own: Path | None = None,
) -> GivenResponses:
    """Read the responses in a file (Parquet, CSV or JSON). Dimensions without a rubric are left out.

    `tests` are those that the sweep gives; without them the rows define the tests. `own` is the folder of the sweep's
    own rubrics, which may have more than `rubrics`. Raise ConfigError if the file cannot be read, a row answers no
    known test, its `test_id` is that of a test with other texts, or two rows are different answers of one subject to
    one test.
    """
    reader = _GivenReader(path, rubrics, tests)
    left_out: Counter[str] = Counter()
    subjects: dict[str, str] = {}
    for number, record in enumerate(given_records(path, "responses", _COLUMNS), 1):
        row = given_row(GivenResponse, record, f"{path}, row {number}")
        if row.dimension in rubrics:
            reader.add(row, f"{path}, row {number}")
            subjects.setdefault(row.subject, f"{path}, row {number}")
        else:
            left_out[row.dimension] += 1
    warn_of_alike("subject", subjects)
    warn_of_unknown(f"responses: {path}", left_out, rubrics, own)
    if not reader.responses:
        raise ConfigError(f"responses: {path} has no row of {', '.join(rubrics)}")
    return GivenResponses(
        tests={dimension: list(found.values()) for dimension, found in reader.tests.items()},
        responses={part: list(found.values()) for part, found in reader.responses.items()},
    )


class _GivenReader:
    """Collects rows and refuses those that contradict an earlier row."""

    def __init__(
        self, path: Location, rubrics: Mapping[str, Rubric], tests: Mapping[str, list[ChosenTest]] | None
    ) -> None:
        self._path, self._rubrics, self._tests_are_given = path, rubrics, tests is not None
        self.tests: dict[str, dict[str, ChosenTest]] = defaultdict(dict)
        self.responses: dict[tuple[str, str], dict[tuple[str, int], Response]] = defaultdict(dict)
        for dimension, given in (tests or {}).items():
            self.tests[dimension] = {test.id: test for test in given}
        self._contexts: dict[tuple[str, str | None], str] = {}
        self._by_text: dict[tuple[str, str | None, str], ChosenTest] = {
            (dimension, test.prompt, test.context): test for dimension, given in (tests or {}).items() for test in given
        }

    def add(self, row: GivenResponse, where: str) -> None:
        test = self._test(row, where)
        state, reason = _state(row)
        response = Response(
            test_id=test.id,
            dimension=row.dimension,
            subject=row.subject,
            sample=row.sample,
            state=state,
            text=row.text if state is State.OK else "",
            finish=row.finish or str(Finish.OK),
            settings="",
            model_reported=row.model_reported or "",
            served_by="",
            reason=reason,
            reply_key="",
        )
        known = self.responses[row.subject, row.dimension].setdefault((test.id, row.sample), response)
        if known != response:
            cause = f"{where}: {row.subject} has answered {test.id} before, in other words"
            raise ConfigError(one_line(f"{cause}; number the answers by `sample`"))

    def _test(self, row: GivenResponse, where: str) -> ChosenTest:
        known, rubric = self.tests[row.dimension], self._rubrics[row.dimension]
        context = row.context or "" if rubric.context else ""
        if row.test_id is not None and row.test_id in known:
            return self._same(known[row.test_id], {"prompt": row.prompt, "context": context}, where)
        self._refuse_another_context(row, where)
        if row.test_id is None and (row.dimension, row.prompt, context) in self._by_text:
            return self._by_text[row.dimension, row.prompt, context]
        if row.prompt is None or self._tests_are_given:
            named = row.test_id if row.test_id is not None else row.prompt
            raise ConfigError(
                one_line(f"{where}: there is no test {named!r} in `tests:`; add it, or leave the row out")
            )
        check_context(context, rubric, where)
        id = row.test_id or id_of_test(rubric.id, row.prompt, row.context or "")  # as in runs of earlier versions
        test = ChosenTest(id, rubric.id, row.prompt, context, rubric.system, None, row.call or None)
        self._by_text[row.dimension, row.prompt, context] = known[test.id] = test
        return test

    def _refuse_another_context(self, row: GivenResponse, where: str) -> None:
        """Refuse a context that the rubric does not have if it is not that of an earlier row with the same prompt."""
        if self._rubrics[row.dimension].context or self._tests_are_given or not row.context or row.test_id is not None:
            return
        if self._contexts.setdefault((row.dimension, row.prompt), row.context) != row.context:
            cause = f"{where}: context: {row.dimension} has none, and an earlier row has another one with this prompt"
            raise ConfigError(f"{cause}; give each a `test_id` if they are different tests, or leave `context` out")

    def _same(self, test: ChosenTest, texts: Mapping[str, str | None], where: str) -> ChosenTest:
        """Return a test that a row names by its id; refuse a row with other texts, which answers another test."""
        for name, text in texts.items():
            if text and text.split() != getattr(test, name).split():
                there = "in `tests:`" if self._tests_are_given else "in an earlier row"
                remedy = f"give each test of {test.dimension} an id of its own, or leave `test_id` out"
                raise ConfigError(one_line(f"{where}: {name}: test {test.id!r} has another {name} {there}; {remedy}"))
        return test


def _state(row: GivenResponse) -> tuple[State, str]:
    """Return a row's state, and the reason if it is not a response."""
    if row.state not in (None, State.OK):
        return row.state, row.reason or "given as no answer"
    if row.text.lstrip().startswith(ERROR_MARKS):
        return State.FAILED, one_line(row.text, 300)
    if not has_visible_text(row.text):
        return State.EMPTY, "no text in the response"
    return State.OK, ""
