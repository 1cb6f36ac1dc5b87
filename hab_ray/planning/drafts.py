"""One shard's part of a plan: its open calls, and the measured tokens of answered ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from hab_ray.calls import Call, ChatCall, Outcome, Reply, Usage
from hab_ray.catalog.models import Purpose, Thinking
from hab_ray.catalog.prices import BYTES_PER_TOKEN, Mode, input_bytes, rate, reserved_rate
from hab_ray.errors import ConfigError
from hab_ray.planning.figures import Figures, PlanLine
from hab_ray.stages import wiring
from hab_ray.stages.base import CallStage
from hab_ray.work import Shard, Work

WIRE_BYTES = 4096  # names and brackets around the texts of a request
BYTES_ESCAPED = 3  # of a byte of text, where a vendor's file has every other character than ASCII as its code
THINKING_TOKENS = 600  # that a model which thinks is taken to spend before it answers

Cell = tuple[str, str, str]


@dataclass(frozen=True)
class Measured:
    """The number of answered calls, their input in bytes (`said`), and the tokens billed."""

    calls: int = 0
    said: int = 0
    input: int = 0
    output: int = 0

    def __add__(self, other: Measured) -> Measured:
        return Measured(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Measured)))

    @classmethod
    def of(cls, call: Call, outcome: Outcome) -> Measured:
        """Measure a call; all zero unless its outcome is a reply that reports usage."""
        if isinstance(outcome, Reply) and outcome.usage.input:
            return cls(1, input_bytes(call), outcome.usage.input, outcome.usage.output)
        return cls()

    def input_tokens(self, said: float) -> float:
        """Estimate the input tokens of `said` bytes, as measured or else as assumed."""
        return said * self.input / self.said if self.said else said / BYTES_PER_TOKEN


@dataclass(frozen=True)
class _Asked:
    """`count` similar calls, with the bytes of one on average and at most. `limit` is 0 for embeddings."""

    count: int
    limit: int
    said: float
    most_said: float


@dataclass
class Draft:
    """The calls of a shard. `open` are its known calls that are not in the store, each once, with row ids.

    `sample` holds some calls of a complete shard.
    """

    work: Work
    shard: Shard
    stage: CallStage[Any, Any]
    exact: bool = True
    reused: int = 0
    measured: Measured = Measured()
    open: list[tuple[str, Call]] = field(default_factory=list)
    sample: Sequence[Call] = ()
    _asked: list[_Asked] = field(default_factory=list)

    @property
    def cell(self) -> Cell:
        """Stage, name and dimension: draft lines that share one measurement across judged subjects."""
        return self.shard.stage, self.shard.name, self.shard.dimension

    @property
    def asks(self) -> bool:
        return bool(self._asked)

    def add(self, count: int, call: Call, said: float, most_said: float) -> None:
        """Add `count` calls like this one, with the bytes of one on average and at most."""
        limit = call.params.max_tokens if isinstance(call, ChatCall) else 0
        self._asked.append(_Asked(count, limit, said, most_said))

    def line(self, measured: Measured) -> PlanLine:
        """Return the shard's line, with tokens as measured in its cell or else as assumed."""
        model = self.work.model(self.shard)
        modes = Mode.ONLINE, Mode.BATCH
        online, batch = (rate(model.entry, mode) for mode in modes)
        highest_online, highest_batch = (reserved_rate(model.entry, mode) for mode in modes)
        figures, dearest, largest = Figures(calls=self.reused, reused=self.reused), 0, 0
        for asked in self._asked:
            answer, most_answer = self._answers(asked.limit, measured)
            most_input, most_output = round(asked.count * asked.most_said), asked.count * most_answer
            usage = Usage(
                input=min(round(asked.count * measured.input_tokens(asked.said)), most_input),
                output=min(round(asked.count * answer), most_output),
            )
            dearest = max(dearest, highest_online.bound(round(asked.most_said), most_answer))
            together = min(asked.count, model.entry.list_size) if model.entry.purpose is Purpose.EMBEDDING else 1
            sent = BYTES_ESCAPED * round(asked.most_said * together) + WIRE_BYTES
            largest = max(largest, highest_online.bound(sent, most_answer))
            each_online, each_batch = (price.at(usage.input // max(1, asked.count)) for price in (online, batch))
            most_said = round(asked.most_said)
            most_online, most_batch = (price.up_to(most_said) for price in (highest_online, highest_batch))
            figures += Figures(
                calls=asked.count,
                batchable=asked.count if model.entry.batch else 0,
                input=usage.input,
                output=usage.output,
                most_input=most_input,
                most_output=most_output,
                online=each_online.cost(usage),
                most_online=most_online.bound(most_input, most_output),
                batch=each_batch.cost(usage),
                most_batch=most_batch.bound(most_input, most_output),
            )
        return PlanLine(
            stage=self.shard.stage,
            name=self.shard.name,
            model=model.name,
            dimension=self.shard.dimension,
            exact=self.exact,
            assumed=self.asks and not measured.calls,
            measured=self.measured.calls,
            figures=figures,
            dearest=dearest,
            largest=largest,
        )

    def _answers(self, limit: int, measured: Measured) -> tuple[float, int]:
        """Return the average and maximum output tokens of a call."""
        if not limit:
            return 0, 0
        entry = self.work.model(self.shard).entry
        if measured.calls:
            return measured.output / measured.calls, entry.output_limit(limit)
        thinking = 0 if entry.thinking is Thinking.NONE else min(THINKING_TOKENS, entry.thinking_reserve)
        return min(self._assumed_tokens(), limit) + thinking, entry.output_limit(limit)

    def _assumed_tokens(self) -> int:
        tokens = self.stage.answer_tokens()
        if tokens < 0:
            package = wiring.packages().get(self.shard.stage, "hab-ray")
            raise ConfigError(
                f"the package {package} expects {tokens} tokens per answer of the stage {self.shard.stage!r}; its "
                "`answer_tokens` must return 0 or more: update or repair that package, or uninstall it"
            )
        return tokens
