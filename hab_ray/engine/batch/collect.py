"""From a batch's result lines to replies and failures in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime

from hab_ray.calls import Failure, Outcome
from hab_ray.catalog.prices import Price
from hab_ray.engine.alike import MIN_ALIKE
from hab_ray.engine.billing import Billing
from hab_ray.engine.ledger import Harvested, Intent
from hab_ray.engine.memory import trim_malloc
from hab_ray.errors import BadUsage, CallError, FailureKind, ModelError, ProviderError, RowError, TransientError
from hab_ray.providers.base import Provider
from hab_ray.providers.batching import BatchApi, BatchRefused, BatchStatus, Line
from hab_ray.providers.numbers import MAX_TOKENS
from hab_ray.storage.replies.store import StoreWriter

FLUSH_AT = 2048
_WITHHELD = (
    "its batch ended and the vendor never showed the results, which it may have billed: booked at the most that the "
    "call can have cost, and asked and paid for again with --retry-failed"
)


class ResultsLate(TransientError):
    """The vendor has counted answers and shows none of them."""

    def __init__(self, done: int) -> None:
        super().__init__(FailureKind.WITHHELD, f"the vendor says that it answered {done} rows and shows no result yet")


@dataclass
class Results:
    """What was read of a batch's results so far. `answered` are keys with an outcome in the store or on its way there.

    `earlier_nanousd` is the part of `nanousd` that an earlier process has filed; tokens are those of answers that this
    process has read; `lost_nanousd` is what answers that nobody can read may have cost. `stop` says of a line's model
    or account that it cannot be used, `refused` that the model cannot be asked by batch. `bad_requests` are the keys of
    refused requests by the vendor's words, until all lines are read: only the whole batch tells whether the requests
    are at fault or a setting that they share. `withheld` counts failures that stand for results which the vendor never
    showed.
    """

    answered: set[str] = field(default_factory=set)
    replies: int = 0
    failures: int = 0
    unknown_ids: int = 0
    doubled: int = 0
    withheld: int = 0
    nanousd: int = 0
    earlier_nanousd: int = 0
    lost_nanousd: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    stop: CallError | None = None
    refused: BatchRefused | None = None
    bad_requests: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def resumed(cls, outcomes: Collection[Outcome]) -> Results:
        """The results of a batch of which these outcomes are in the store already."""
        cost = sum(outcome.cost_nanousd for outcome in outcomes)
        failures = sum(isinstance(outcome, Failure) for outcome in outcomes)
        return cls(
            answered={outcome.key for outcome in outcomes},
            replies=len(outcomes) - failures,
            failures=failures,
            nanousd=cost,
            earlier_nanousd=cost,
        )

    def event(self, rows: int, epoch: int, at: datetime, refusal: CallError | None = None) -> Harvested:
        """The last event of the batch; `refusal` is why no further one of its model would be answered."""
        return Harvested(
            epoch=epoch,
            at=at,
            replies=self.replies,
            failures=self.failures,
            unanswered=rows - len(self.answered),
            unknown_ids=self.unknown_ids,
            doubled=self.doubled,
            nanousd=self.nanousd,
            lost_nanousd=self.lost_nanousd,
            refusal=None if refusal is None else str(refusal),
        )


class Collector:
    """Files the results of the batches of one provider account."""

    def __init__(
        self,
        provider: Provider,
        api: BatchApi,
        writer: StoreWriter,
        today: Callable[[], datetime],
        billing: Billing,
    ) -> None:
        self._provider, self._api, self._writer, self._today = provider, api, writer, today
        self._billing = billing

    async def collect(
        self, results: Results, intent: Intent, price: Price, hashes: Mapping[str, str], status: BatchStatus
    ) -> None:
        """Read all results that are not filed yet.

        Results are filed by key, whatever their order; a line that answers nothing of ours, and a second one that
        answers the same, are counted and left out. What is filed before an error stays filed, and in `results`.

        Rows whose results the vendor does not show may have been billed: they are failures at the most that they can
        have cost, so that nobody pays for them again without saying so.

        Raises:
            ResultsLate: there are none of those that the vendor has counted.
            CallError: the vendor could not be asked, or the stream broke: collect again.
            ResultsGone: the vendor keeps the results no longer.
            OSError: the store cannot be written.
        """
        results.unknown_ids = results.doubled = results.lost_nanousd = 0
        results.bad_requests.clear()
        seen: set[str] = set()
        try:
            async for line in self._api.results(status):
                if line.custom_id not in hashes:
                    results.unknown_ids += 1
                elif line.custom_id in seen:
                    results.doubled += 1
                elif line.custom_id not in results.answered:
                    self._file(results, intent, price, hashes[line.custom_id], line)
                seen.add(line.custom_id)
                if self._writer.waiting >= FLUSH_AT:
                    await self._flush(results)
            if status.done and not seen and not status.lacks_results:
                raise ResultsLate(status.done)
            self._file_bad_requests(results, intent)
            if status.lacks_results:
                self._file_withheld(results, intent, hashes.keys() - seen)
        finally:
            await self._flush(results)
            trim_malloc()

    async def give_up(self, model: str, key: str, message: str) -> None:
        """File a call that the vendor will never take as a permanent failure.

        Raises:
            OSError: the store cannot be written.
        """
        self._fail(Results(), model, key, FailureKind.BAD_REQUEST, message)
        await asyncio.to_thread(self._writer.flush)

    async def _flush(self, results: Results) -> None:
        unstorable = await asyncio.to_thread(self._writer.flush)
        results.replies -= len(unstorable)
        results.failures += len(unstorable)

    def _file(self, results: Results, intent: Intent, price: Price, body_sha256: str, line: Line) -> None:
        """File what a line brought. What is known only of the whole batch, its reservation, has equal shares."""
        share, key = intent.most // intent.rows, line.custom_id
        try:
            if line.body is None:
                raise line.error or CallError(FailureKind.MALFORMED, "a result without body or error")
            provider = self._provider
            answer = provider.read_embeddings(line.body, 1) if intent.embeds else provider.read_chat(line.body)
        except RowError as error:
            if error.kind is FailureKind.BAD_REQUEST:
                results.bad_requests.setdefault(str(error), []).append(key)
            else:
                cost = share if isinstance(error, BadUsage) else 0
                self._fail(results, intent.model, key, error.kind, str(error), cost)
        except (ModelError, ProviderError) as error:
            results.stop = error
        except BatchRefused as error:
            results.refused = error
        except CallError:
            if line.body is not None:
                results.lost_nanousd += share
        else:
            cost = self._billing.cost(intent.model, answer, price, share)
            if results.nanousd + cost > intent.most or not answer.usage.fits(intent.bytes, MAX_TOKENS):
                self._billing.beyond[intent.model] += 1
            self._writer.add(intent.model, answer.reply(key, cost, body_sha256, self._today()))
            results.replies += 1
            results.nanousd += cost
            results.input_tokens += answer.usage.input
            results.output_tokens += answer.usage.output
            results.answered.add(key)

    def _fail(
        self, results: Results, model: str, key: str, kind: FailureKind, message: str, cost_nanousd: int = 0
    ) -> None:
        """File a call as a permanent failure that cost so much."""
        failure = Failure(key, kind, attempts=1, message=message, cost_nanousd=cost_nanousd)
        self._writer.add(model, failure)
        results.failures += 1
        results.nanousd += cost_nanousd
        results.answered.add(key)

    def _file_bad_requests(self, results: Results, intent: Intent) -> None:
        """File refused requests as permanent failures, unless all were refused alike: then it is the model's end."""
        are_all = len(results.bad_requests) == 1 and not results.replies and not results.failures
        for words, keys in results.bad_requests.items():
            if are_all and len(keys) >= MIN_ALIKE:
                results.stop = results.stop or ModelError(
                    FailureKind.BAD_REQUEST,
                    f"all {len(keys)} requests of a batch were refused in the same words: {words}; change the setting "
                    "at fault (`params:` in the sweep, or the model's catalogue entry) and give the same command again",
                )
                return
            for key in keys:
                self._fail(results, intent.model, key, FailureKind.BAD_REQUEST, words)

    def _file_withheld(self, results: Results, intent: Intent, keys: AbstractSet[str]) -> None:
        for key in keys - results.answered:
            self._fail(results, intent.model, key, FailureKind.WITHHELD, _WITHHELD, intent.nanousd // intent.rows)
            results.withheld += 1
