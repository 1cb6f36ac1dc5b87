"""Reading a running simulator's meter and truth, and telling it of prompts."""

import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

_TIMEOUT_S = 30.0
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # simulators are on this machine or near it


class _Reading(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


Read = TypeVar("Read", bound=_Reading)


class TrueAnswer(_Reading):
    """What one subject's answer to one test shows: `letters`, "" for none, and the mark that the answer carries.

    `prompt` is the sha256 (hex) of the test's prompt. It was given `times` times, asked in the manner of this number.
    """

    subject: str
    dimension: str
    prompt: str
    letters: str
    mark: str
    manner: int = 0
    times: int = 1


class Manner(_Reading):
    """What requests shared beside their messages; `schema_text` is JSON, "" for none."""

    model: str
    system: str
    limit: int | None
    temperature: float | None
    top_p: float | None
    effort: str | None
    schema_text: str = Field(alias="schema")


class CheckedQuery(_Reading):
    """The letters that a model named of a query, whose texts are known by the marks around them."""

    manner: int
    parts: Mapping[str, str]
    letters: str
    times: int


class WrittenQueries(_Reading):
    """A request for queries, and the queries that it got, by their fields."""

    manner: int
    asked: str
    queries: tuple[Mapping[str, str], ...]
    times: int


class TrueVerdict(_Reading):
    """What a judge's model meant to say of the answer with this mark, and how often it said it in which form.

    `wording` numbers the dimension's wordings, as they were planted, of which the judge was shown one; `parts` are the
    fingerprints of the texts that it was shown between marks, with that of a given answer's white space as `given`; or,
    as `request`, the digest of a whole request in fixed words. `twice` is the letter that it named twice; `in_braces`
    counts the replies of which what stands from the first brace to the last is the verdict.
    """

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


class MissingEvidence(_Reading):
    """What so many requests to a judge's model lacked; `dimension` is "" where no answer was in them."""

    judge: str
    dimension: str
    what: str
    requests: int

    def __str__(self) -> str:
        of = f" of {self.dimension}" if self.dimension else ""
        return f"{self.requests:,} requests to judge {self.judge}{of} lacked {self.what}"


class Repeats(_Reading, extra="ignore"):
    """Bodies that were billed more than once."""

    bodies: int


class ModelCharges(_Reading, extra="ignore"):
    """What was charged for an account's calls to one model, of which replies for `lost_nanousd` did not arrive."""

    account: str
    model: str
    nanousd: int
    lost_nanousd: int = 0


class BatchTotals(_Reading, extra="ignore"):
    """What was counted of batches; `cancelled` and `expired` ones brought a part of their lines."""

    created: int
    failed: int
    expired: int
    cancelled: int
    lines_received: int
    lines_billed: int
    nanousd: int
    models: tuple[ModelCharges, ...]


class MeterReading(_Reading, extra="ignore"):
    """What was counted of calls online, and of batches apart. Money in nano-dollars.

    `lost_after_billing` are replies charged, for `lost_nanousd`, that did not arrive whole.
    """

    received: int
    billed: int
    lost_after_billing: int
    lost_nanousd: int
    nanousd: int
    billed_more_than_once: Repeats
    models: tuple[ModelCharges, ...]
    batch: BatchTotals

    @property
    def charged(self) -> int:
        """All that was charged."""
        return self.nanousd + self.batch.nanousd


@dataclass(frozen=True)
class SimulatorClient:
    """The controls of the simulator that listens at `url`, which has `timeout_s` seconds for each answer."""

    url: str
    timeout_s: float = _TIMEOUT_S

    def answers(self) -> tuple[TrueAnswer, ...]:
        """What every answer shows that was given so far."""
        return self._truth("answers", TrueAnswer)

    def verdicts(self) -> tuple[TrueVerdict, ...]:
        """What every judge meant to say so far."""
        return self._truth("verdicts", TrueVerdict)

    def manners(self) -> tuple[Manner, ...]:
        """What requests shared, by the numbers of the manners."""
        return self._truth("manners", Manner)

    def checks(self) -> tuple[CheckedQuery, ...]:
        """What was named of every query that was checked so far."""
        return self._truth("checks", CheckedQuery)

    def queries(self) -> tuple[WrittenQueries, ...]:
        """What was asked of every author of queries so far, and what it wrote."""
        return self._truth("queries", WrittenQueries)

    def missing(self) -> tuple[MissingEvidence, ...]:
        """What judges were not shown so far."""
        return self._truth("missing", MissingEvidence)

    def meter(self) -> MeterReading:
        """What was received and charged so far."""
        return MeterReading.model_validate_json(self._exchange("/_meter"))

    def announce(self, prompts: Mapping[str, str], contexts: Mapping[str, str]) -> None:
        """Make tests known: by the sha256 (hex) of each prompt its dimension, and its context where it has one."""
        self._exchange("/_contexts", contexts)
        self._exchange("/_prompts", prompts)

    def _truth(self, name: str, kind: type[Read]) -> tuple[Read, ...]:
        return tuple(map(kind.model_validate, json.loads(self._exchange(f"/_truth/{name}"))))

    def _exchange(self, path: str, body: Any = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        with _DIRECT.open(self.url + path, data, timeout=self.timeout_s) as response:
            return bytes(response.read())
