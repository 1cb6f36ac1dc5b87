"""Reading a running simulator's meter and truth, and telling it of prompts."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

_TIMEOUT_S = 30.0


class TrueAnswer(BaseModel):
    """What one subject's answer to one test shows: `letters`, "" for none, and the mark that the answer carries.

    `prompt` is the sha256 (hex) of the test's prompt. It was given `times` times, asked in the manner of this number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    subject: str
    dimension: str
    prompt: str
    letters: str
    mark: str
    manner: int = 0
    times: int = 1


class Manner(BaseModel):
    """What requests shared beside their messages; `schema_text` is JSON, "" for none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    system: str
    limit: int | None
    temperature: float | None
    top_p: float | None
    schema_text: str = Field(alias="schema")


class CheckedQuery(BaseModel):
    """The letters that a model named of a query, whose texts are known by the marks around them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    manner: int
    parts: Mapping[str, str]
    letters: str
    times: int


class WrittenQueries(BaseModel):
    """A request for queries, and the queries that it got, by their fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    manner: int
    asked: str
    queries: tuple[Mapping[str, str], ...]
    times: int


class TrueVerdict(BaseModel):
    """What a judge's model meant to say of the answer with this mark, and how often it said it in which form.

    `wording` numbers the dimension's wordings, as they were planted, of which the judge was shown one; `parts` are the
    fingerprints of the texts that it was shown between marks, with that of a given answer's white space as `given`; or,
    as `request`, the digest of a whole request in fixed words. `twice` is the letter that it named twice; `in_braces`
    counts the replies of which what stands from the first brace to the last is the verdict.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    judge: str
    dimension: str
    mark: str
    wording: int = 0
    letters: str
    readable: int
    unreadable: int
    in_braces: int = 0
    twice: str = ""
    manner: int = 0
    parts: Mapping[str, str] = {}


class MissingEvidence(BaseModel):
    """What so many requests to a judge's model lacked; `dimension` is "" where no answer was in them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    judge: str
    dimension: str
    what: str
    requests: int

    def __str__(self) -> str:
        of = f" of {self.dimension}" if self.dimension else ""
        return f"{self.requests:,} requests to judge {self.judge}{of} lacked {self.what}"


class Repeats(BaseModel):
    """Bodies that were billed more than once."""

    model_config = ConfigDict(frozen=True)

    bodies: int


class BatchTotals(BaseModel):
    """What was counted of batches; `cancelled` and `expired` ones brought a part of their lines."""

    model_config = ConfigDict(frozen=True)

    created: int
    failed: int
    expired: int
    cancelled: int
    lines_received: int
    lines_billed: int
    nanousd: int


class MeterReading(BaseModel):
    """What was counted of calls online, and of batches apart. Money in nano-dollars.

    `lost_after_billing` are replies charged, for `lost_nanousd`, that did not arrive whole.
    """

    model_config = ConfigDict(frozen=True)

    received: int
    billed: int
    lost_after_billing: int
    lost_nanousd: int
    nanousd: int
    billed_more_than_once: Repeats
    batch: BatchTotals

    @property
    def charged(self) -> int:
        """All that was charged."""
        return self.nanousd + self.batch.nanousd


_ANSWERS = TypeAdapter(tuple[TrueAnswer, ...])
_VERDICTS = TypeAdapter(tuple[TrueVerdict, ...])
_MANNERS = TypeAdapter(tuple[Manner, ...])
_CHECKS = TypeAdapter(tuple[CheckedQuery, ...])
_QUERIES = TypeAdapter(tuple[WrittenQueries, ...])
_MISSING = TypeAdapter(tuple[MissingEvidence, ...])


@dataclass(frozen=True)
class SimulatorClient:
    """The controls of the simulator that listens at `url`, which has `timeout_s` seconds for each answer."""

    url: str
    timeout_s: float = _TIMEOUT_S

    def answers(self) -> tuple[TrueAnswer, ...]:
        """What every answer shows that was given so far."""
        return _ANSWERS.validate_json(self._exchange("/_truth/answers"))

    def verdicts(self) -> tuple[TrueVerdict, ...]:
        """What every judge meant to say so far."""
        return _VERDICTS.validate_json(self._exchange("/_truth/verdicts"))

    def manners(self) -> tuple[Manner, ...]:
        """What requests shared, by the numbers of the manners."""
        return _MANNERS.validate_json(self._exchange("/_truth/manners"))

    def checks(self) -> tuple[CheckedQuery, ...]:
        """What was named of every query that was checked so far."""
        return _CHECKS.validate_json(self._exchange("/_truth/checks"))

    def queries(self) -> tuple[WrittenQueries, ...]:
        """What was asked of every author of queries so far, and what it wrote."""
        return _QUERIES.validate_json(self._exchange("/_truth/queries"))

    def missing(self) -> tuple[MissingEvidence, ...]:
        """What judges were not shown so far."""
        return _MISSING.validate_json(self._exchange("/_truth/missing"))

    def meter(self) -> MeterReading:
        """What was received and charged so far."""
        return MeterReading.model_validate_json(self._exchange("/_meter"))

    def announce(self, prompts: Mapping[str, str], contexts: Mapping[str, str]) -> None:
        """Make tests known: by the sha256 (hex) of each prompt its dimension, and its context where it has one."""
        self._exchange("/_contexts", contexts)
        self._exchange("/_prompts", prompts)

    def _exchange(self, path: str, body: Any = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(self.url + path, data, timeout=self.timeout_s) as response:
            return bytes(response.read())
