"""Turns the result lines of a batch into replies and failures in the store."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime

from hab_ray.calls import Failure, Outcome
from hab_ray.catalog.prices import Price
from hab_ray.engine.alike import MIN_ALIKE
from hab_ray.engine.jobs import Traffic
from hab_ray.engine.ledger import Batch, Harvested, Intent
from hab_ray.engine.memory import trim_malloc
from hab_ray.errors import CallError, FailureKind, ModelError, ProviderError, RowError, TransientError
from hab_ray.providers.base import BrokenReader, Provider, malformed, read_answer
from hab_ray.providers.batching import BatchApi, BatchRefused, BatchStatus, Line
from hab_ray.providers.numbers import MAX_TOKENS
from hab_ray.storage.replies.store import StoreWriter
from hab_ray.visible import one_line

FLUSH_AT = 2048
MAX_ID = 80
MAX_PROBLEM = 300  # characters, as each row of the batch stores them
_WITHHELD = (
    "its batch ended and the vendor never showed the results{instead}, which it may have billed: booked at its share "
    "of what is left of the batch's reservation, and sent and paid for again with --retry-failed"
)
_INSTEAD = " (what came instead cannot be read: {problem})"
_FOREIGN = " (what came instead has the ids of other requests, the first {id})"
_UNREAD = (
    "its line in the results of its batch cannot be read, and the vendor may have billed it: {reason}; booked at its "
    "share of the batch's reservation, and sent and paid for again with --retry-failed"
)


class ResultsLate(TransientError):
    """The vendor reports a number of answers but shows none of them, or something `instead`, as a proxy's page."""

    def __init__(self, done: int, instead: str = "") -> None:
        answered = f"says that it answered {done} rows and " if done else ""
        super().__init__(FailureKind.WITHHELD, f"the vendor {answered}does not show the results yet{instead}")


class SomeResultsLate(ResultsLate):
    """The vendor reports more answers than it shows, and rows without any result may be the others'."""


@dataclass
class Results:
    """The results of a batch read so far. `answered` holds keys whose outcome is in the store or about to be.

    `earlier_nanousd` is the part of `nanousd` that an earlier process stored, and `failed_earlier` has the keys of its
    failures; tokens, and the names in `reported` of the models that answered, count only answers that this process
    read; `lost_nanousd` is the most that answers without a line, and lines that name no row, may have cost. `stop` is
    an error that makes the model or account unusable, `refused` one that rules out batches of the model.
    `refusals` holds the keys of refused requests by kind and message until all lines are read: an answer may follow,
    and only the whole batch shows whether single requests are at fault or a setting that they share. `unread` says by
    key why a line, or the answer in it, cannot be read; once all lines are read, it keeps those that may have been
    billed. `aborted` says by key why the server aborted an answer, which it may have billed. `withheld` counts failures
    for unread answers and for results that the vendor never showed; `late_reads` counts the reads of this process that
    showed none, and `partial_reads` those that showed only some. `instead` says what came instead of results, as a part
    of a message.
    """

    answered: set[str] = field(default_factory=set)
    replies: int = 0
    failures: int = 0
    unknown_ids: int = 0
    doubled: int = 0
    reported: Counter[str] = field(default_factory=Counter)
    withheld: int = 0
    late_reads: int = 0
    partial_reads: int = 0
    instead: str = ""
    nanousd: int = 0
    earlier_nanousd: int = 0
    failed_earlier: frozenset[str] = frozenset()
    lost_nanousd: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    stop: CallError | None = None
    refused: BatchRefused | None = None
    refusals: dict[tuple[FailureKind, str], list[str]] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    aborted: dict[str, str] = field(default_factory=dict)

    @classmethod
    def resumed(cls, outcomes: Collection[Outcome]) -> Results:
        """Return the results of a batch whose outcomes are already in the store in part."""
        cost = sum(outcome.cost_nanousd for outcome in outcomes)
        failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
        failed = frozenset(failure.key for failure in failures)
        return cls(
            answered={outcome.key for outcome in outcomes},
            replies=len(outcomes) - len(failed),
            failures=len(failed),
            withheld=sum(failure.kind is FailureKind.WITHHELD for failure in failures),
            nanousd=cost,
            earlier_nanousd=cost,
            failed_earlier=failed,
        )

    def event(self, rows: int, epoch: int, at: datetime, refusal: CallError | None = None) -> Harvested:
        """Return the last event of the batch; `refusal` is why no further batch of its model would be answered."""
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
    """Stores the results of one provider account's batches."""

    def __init__(
        self,
        provider: Provider,
        api: BatchApi,
        writer: StoreWriter,
        today: Callable[[], datetime],
        traffic: defaultdict[str, Traffic],
    ) -> None:
        self._provider, self._api, self._writer, self._today = provider, api, writer, today
        self._traffic = traffic

    async def collect(
        self, results: Results, record: Batch, price: Price, hashes: Mapping[str, str], status: BatchStatus
    ) -> None:
        """Store all results that are not in the store yet, matched by key.

        Lines with an unknown or repeated id are counted and skipped, but for an answer after an error of the same row.
        Results stored before an error stay in the store and in `results`.

        Rows whose results the vendor withholds, or whose line cannot be read, may have been billed: they become
        failures, booked at all that is left of the batch's reservation or at their share of it, so that they are paid
        for again only on request. Rows whose answer the server aborted are sent again; the aborted one counts as lost.

        Raises:
            ResultsLate: the vendor reports answers and shows none of them, only some, or something else.
            BrokenReader: no answer of the provider can be read: collect again once its code is repaired.
            CallError: the request failed, or the stream broke off: collect again.
            ResultsGone: the vendor no longer has the results.
            OSError: the store cannot be written.
        """
        intent = record.intent
        results.unknown_ids = results.doubled = results.lost_nanousd = 0
        results.instead = ""
        results.refusals.clear()
        results.unread.clear()
        results.aborted.clear()
        seen: set[str] = set()
        with_body: set[str] = set()
        bare: list[str] = []
        nameless = 0
        try:
            async for line in self._api.results(status):
                if line.custom_id not in hashes:
                    results.unknown_ids += 1
                    if line.custom_id and record.is_certain:
                        results.instead = results.instead or _FOREIGN.format(id=one_line(line.custom_id, MAX_ID))
                    elif not line.custom_id:
                        nameless += 1
                        results.instead = results.instead or _INSTEAD.format(
                            problem=one_line(str(line.error or "a line without an id"), MAX_PROBLEM)
                        )
                elif line.custom_id in seen and (line.body is None or line.custom_id in results.answered):
                    results.doubled += 1
                elif line.custom_id not in results.answered:
                    self._store(results, intent, price, hashes[line.custom_id], line)
                seen.add(line.custom_id)
                if line.body is not None:
                    with_body.add(line.custom_id)
                elif line.error is None or line.error.kind is FailureKind.MALFORMED:
                    bare.append(line.custom_id)
                if self._writer.waiting >= FLUSH_AT:
                    await self._flush(results)
            missing = hashes.keys() - seen
            # Lines of other ids prove that a batch in doubt is somebody else's.
            others = 0 if record.is_certain else results.unknown_ids - nameless
            named, shown = len(hashes) - len(missing) + others, len(with_body & hashes.keys()) + others
            hidden = max(0, min(status.done - shown, len(missing)))
            if not status.lacks_results and _is_late(status, len(hashes), named, nameless):
                raise ResultsLate(status.done, results.instead)
            if hidden > 0 and status.problem is None and not (status.lacks_results or status.lacks_some):
                raise SomeResultsLate(status.done)
            self._fail_refused(results, intent)
            bare = [key for key in dict.fromkeys(bare) if key in hashes and key not in with_body]
            if status.done or status.failed or status.problem:
                bare = bare[: max(0, status.done - shown - hidden)]  # the vendor counts no more of them as answers
            self._count_aborted(results, intent)
            self._fail_unread(results, intent, with_body.union(bare))
            if status.lacks_results and not status.lacks_some:
                self._fail_withheld(results, intent, missing)
            elif status.problem is None:
                results.lost_nanousd += max(hidden, min(nameless, len(missing))) * intent.share
        finally:
            await self._flush(results)
            trim_malloc()

    async def give_up(self, model: str, key: str, message: str) -> None:
        """Store a permanent failure of a call that the vendor will never accept.

        Raises:
            OSError: the store cannot be written.
        """
        self._writer.add(model, Failure(key, FailureKind.BAD_REQUEST, attempts=1, message=message))
        await asyncio.to_thread(self._writer.flush)

    async def _flush(self, results: Results) -> None:
        unstorable = await asyncio.to_thread(self._writer.flush)
        results.replies -= len(unstorable)
        results.failures += len(unstorable)

    def _store(self, results: Results, intent: Intent, price: Price, body_sha256: str, line: Line) -> None:
        """Store the outcome of a line. A cost that is not known of the line is an equal share of the batch's bound."""
        share, key = intent.share, line.custom_id
        try:
            if line.body is None:
                raise line.error or malformed("a result without body or error")
            answer = read_answer(self._provider, line.body, 1 if intent.embeds else None)
        except RowError as error:
            if line.body is None:
                results.refusals.setdefault((error.kind, str(error)), []).append(key)
            else:
                self._fail(results, intent, key, error.kind, str(error), share)
        except BrokenReader:
            raise
        except (ModelError, ProviderError) as error:
            results.stop = error
        except BatchRefused as error:
            results.refused = error
        except CallError as error:
            if error.kind is FailureKind.MALFORMED:
                results.unread.setdefault(key, str(error))
            elif line.body is not None:
                results.aborted[key] = str(error)
        else:
            traffic = self._traffic[intent.model]
            cost = traffic.cost(answer, price, share)
            if results.nanousd + cost > intent.most or not answer.usage.fits(intent.bytes, MAX_TOKENS):
                traffic.beyond += 1
            self._writer.add(intent.model, answer.reply(key, cost, body_sha256, self._today()))
            results.replies += 1
            results.reported[answer.model_reported] += 1
            results.nanousd += cost
            results.input_tokens += answer.usage.input
            results.output_tokens += answer.usage.output
            results.answered.add(key)

    def _fail(
        self, results: Results, intent: Intent, key: str, kind: FailureKind, message: str, nanousd: int = 0
    ) -> None:
        self._writer.add(intent.model, Failure(key, kind, attempts=1, message=message, cost_nanousd=nanousd))
        results.failures += 1
        results.nanousd += nanousd
        results.answered.add(key)

    def _fail_refused(self, results: Results, intent: Intent) -> None:
        """Store refused requests as permanent failures; if all were refused alike, stop the model instead.

        Texts that are too long are always their rows' fault.
        """
        is_only_message = len(results.refusals) == 1 and not results.replies and not results.failures
        for (kind, message), keys in results.refusals.items():
            if is_only_message and len(keys) >= MIN_ALIKE and kind is FailureKind.BAD_REQUEST:
                results.stop = results.stop or ModelError(
                    FailureKind.BAD_REQUEST,
                    f"all {len(keys)} requests of a batch were refused in the same words: {message}; change the "
                    "setting at fault (`params:` in the sweep, or the model's catalogue entry) and run the same "
                    "command again",
                )
                return
            for key in keys:
                if key not in results.answered:
                    self._fail(results, intent, key, kind, message)

    def _count_aborted(self, results: Results, intent: Intent) -> None:
        """Count aborted answers as lost. If there are many, and no other answer, stop the model."""
        aborted = [why for key, why in results.aborted.items() if key not in results.answered]
        results.lost_nanousd += len(aborted) * (_bound(results, intent) // intent.rows)
        if len(aborted) >= MIN_ALIKE and not results.replies:
            results.stop = results.stop or ModelError(
                FailureKind.SERVER,
                f"all {len(aborted)} answers of a batch were broken off, and may be billed: {aborted[0]}; wait until "
                "the vendor's server has recovered, or have it repaired, and run the same command again",
            )

    def _fail_unread(self, results: Results, intent: Intent, billed: AbstractSet[str]) -> None:
        """Store rows whose line cannot be read and may be `billed` as failures.

        If there are many, and no answer of the batch can be read, stop the model too.
        """
        unread = {key: why for key, why in results.unread.items() if key in billed and key not in results.answered}
        results.unread = unread
        if len(unread) >= MIN_ALIKE and not results.replies:
            _stop_unread(results, intent, f": {next(iter(unread.values()))}")
        share = _bound(results, intent) // intent.rows
        for key, reason in unread.items():
            self._fail(results, intent, key, FailureKind.WITHHELD, _UNREAD.format(reason=reason), share)
        results.withheld += len(unread)

    def _fail_withheld(self, results: Results, intent: Intent, keys: AbstractSet[str]) -> None:
        """Store rows without a result as failures, booked together at all that is left of the batch's bound.

        They may be the batch's dearest rows, so equal shares of the bound could sum up to less than their bill.
        """
        withheld = sorted(keys - results.answered)
        if len(withheld) >= MIN_ALIKE and results.instead and not results.replies:
            _stop_unread(results, intent, results.instead)
        booked = results.nanousd + results.lost_nanousd
        left = max(_bound(results, intent) - booked, len(withheld) * (intent.nanousd // intent.rows))
        for number, key in enumerate(withheld):
            share = left // len(withheld) + (number < left % len(withheld))
            message = _WITHHELD.format(instead=results.instead)
            self._fail(results, intent, key, FailureKind.WITHHELD, message, share)
            results.withheld += 1


def _stop_unread(results: Results, intent: Intent, why: str) -> None:
    results.stop = results.stop or ModelError(
        FailureKind.MALFORMED,
        f"no answer in a batch of {intent.rows} rows can be read{why}; repair what changes the vendor's answers (a "
        "gateway, or the package that adds the provider's kind), and give the same command with --retry-failed: it "
        "pays for the batch's rows again",
    )


def _bound(results: Results, intent: Intent) -> int:
    """Return the most that the batch may have cost: its reservation, unless its answers already cost more."""
    return intent.nanousd if results.nanousd <= intent.nanousd else intent.most


def _is_late(status: BatchStatus, rows: int, named: int, nameless: int) -> bool:
    """Whether what a vendor shows, lines of `named` rows and `nameless` others, lacks answers that it will show."""
    is_page = nameless > 0 and status.problem is None and named < (status.done + status.failed or rows)
    return is_page or (named == 0 and status.done > 0)
