"""Creating a batch once: what the vendor's list must show before it is sent again, and which batch is adopted."""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from hab_ray.catalog.models import BatchPolicy
from hab_ray.engine.batch import decisions, search
from hab_ray.engine.batch.components import Components
from hab_ray.engine.batch.create import Creator
from hab_ray.engine.batch.rows import BatchInFlight, Request
from hab_ray.engine.batch.send import Sender
from hab_ray.engine.batch.states import Abandoned, AtVendor, BatchState, Closed, Funded, Malformed, Packed
from hab_ray.engine.batch.transitions import recovered
from hab_ray.engine.ledger import Batch, Phase
from hab_ray.errors import (
    CallError,
    ConfigError,
    FailureKind,
    Intercepted,
    LeaseLost,
    LeaseStale,
    ModelError,
    Overloaded,
    ProviderError,
    RateLimited,
    TransientError,
    Unreachable,
)
from hab_ray.providers.batching import BadRows, BatchStatus, NoBatchApi, PageNotFound, ResultsGone, SeenBatch
from tests.engine.batch.fakes import (
    KEYS,
    LINES,
    START,
    Clock,
    Vendor,
    broken,
    components_of,
    context_of,
    intent,
    seen,
    submitted,
    told,
    written,
)

FULL = RateLimited("too many batches", 60)


async def settled(components: Components, state: BatchState, known: str | None = None) -> BatchInFlight:
    """A batch with a reservation of 100 nano-dollars, after the creator has settled it."""
    request = Request(LINES, intent("tag"))
    creator, batch = Creator(components, Sender(components)), BatchInFlight("m", state, nanousd=100, request=request)
    if known:
        creator.register(Batch("acme", 0, (intent(), submitted().model_copy(update={"batch_id": known}))))
    creator.allow_new()
    assert await components.budget.reserve(100) is None
    components.ledger.keep(1, LINES)
    await creator.create(batch)
    return batch


def doubtful(components: Components, **changes: object) -> BatchState:
    """A batch whose process died between its intent and the vendor's answer."""
    event = intent("tag").model_copy(update=changes)
    return recovered(components.ledger.add(Batch("acme", 1), event), components.context.clock())


@pytest.fixture
def vendor() -> Vendor:
    return Vendor()


@pytest.fixture
def components(tmp_path: Path, vendor: Vendor) -> Components:
    return components_of(tmp_path, vendor)


async def test_a_batch_is_sent_once_and_noted(components: Components, vendor: Vendor) -> None:
    batch = await settled(components, Funded())
    assert isinstance(batch.state, AtVendor) and batch.state.batch_id == "new-1" and batch.request is None
    assert told(components) == ["intent", "submitted"] and batch.state.record == components.ledger.read()[0]
    assert [job.lines for job in vendor.submitted] == [LINES.requests] and "since" not in vendor.asked
    assert components.budget.in_batches == 100 and components.budget.reserved == 0


async def test_a_lost_answer_is_looked_for_by_tag_and_not_sent_again(components: Components, vendor: Vendor) -> None:
    vendor.refuses, vendor.listed = [broken()], [seen("other", ""), seen("ours", "tag")]
    batch = await settled(components, Funded())
    assert isinstance(batch.state, AtVendor) and batch.state.batch_id == "ours" and batch.state.record.is_certain
    assert len(vendor.submitted) == 1 and "no clear answer" in components.counters.notes[0]


async def test_only_two_empty_listings_after_the_whole_time_let_it_be_sent_again(tmp_path: Path) -> None:
    vendor, now, policy = Vendor(listed=[seen("other", "")]), Clock(), BatchPolicy(poll_s=0.001, in_doubt_s=0.2)
    context = context_of(lambda: (now() - START).total_seconds(), today=now)
    components = components_of(tmp_path, vendor, policy, context)
    await settled(components, doubtful(components))
    assert told(components) == ["intent", "intent", "submitted"]
    assert len(vendor.submitted) == 1 and vendor.asked.count("since") >= 2
    assert components.ledger.read()[0].events[1].at - START >= timedelta(seconds=policy.in_doubt_s)


@pytest.mark.parametrize("is_own", [True, False], ids=["this process's", "an earlier process's"])
async def test_a_clock_put_forward_does_not_send_a_batch_again(tmp_path: Path, is_own: bool) -> None:
    vendor, hours = Vendor(refuses=[broken()]), count(1)
    context = context_of(today=lambda: START + timedelta(hours=next(hours)))
    components = components_of(tmp_path, vendor, policy=BatchPolicy(poll_s=0.001, in_doubt_s=60.0), context=context)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await settled(components, Funded() if is_own else doubtful(components))
    assert len(vendor.submitted) == is_own and vendor.asked.count("since") > 4


async def test_an_untagged_batch_is_ours_if_its_results_are(components: Components, vendor: Vendor) -> None:
    vendor.listed = [seen("foreign", None), seen("ours", None)]
    vendor.ended = {"foreign": "somebody's", "ours": KEYS[1]}
    batch = await settled(components, doubtful(components))
    assert isinstance(batch.state, AtVendor) and batch.state.batch_id == "ours" and batch.state.record.is_certain
    assert not vendor.submitted


async def test_an_untagged_batch_beside_one_with_a_tag_of_ours_is_foreign(
    components: Components, vendor: Vendor
) -> None:
    vendor.listed = [seen("untagged", None), seen("earlier", "tag of another batch")]
    batch = await settled(components, doubtful(components))
    assert isinstance(batch.state, AtVendor) and batch.state.batch_id == "new-1" and len(vendor.submitted) == 1


async def test_a_page_instead_of_results_does_not_prove_that_a_batch_is_foreign(
    components: Components, vendor: Vendor
) -> None:
    vendor.listed, vendor.ended = [seen("ours", None)], {"ours": ""}
    batch = await settled(components, doubtful(components))
    assert isinstance(batch.state, AtVendor) and batch.state.batch_id == "ours" and not vendor.submitted


async def test_a_batch_that_another_run_deletes_during_the_search_is_none_of_ours(tmp_path: Path) -> None:
    @dataclass
    class Deleting(Vendor):
        async def poll(self, batch_id: str) -> BatchStatus:
            self.listed.clear()
            raise ResultsGone("no such batch")

    components = components_of(tmp_path, Deleting(listed=[seen("foreign", None)]))
    batch = await settled(components, doubtful(components))
    assert isinstance(batch.state, AtVendor) and batch.state.batch_id == "new-1" and not components.counters.stops


async def test_a_batch_that_is_older_than_the_intent_is_not_taken(components: Components, vendor: Vendor) -> None:
    """The vendor lists those of all times where the newest one before the intent was deleted since."""
    recent = START - timedelta(hours=23)
    vendor.listed = [replace(seen("maybe", None), created=recent)]
    vendor.listed += [replace(seen(f"old-{n}", None), created=START - timedelta(hours=25 + n)) for n in range(3)]
    batch = await settled(components, doubtful(components))
    assert isinstance(batch.state, AtVendor) and batch.state.batch_id == "maybe" and not vendor.submitted
    assert not any("old" in asked for asked in vendor.asked)


async def test_batches_that_ended_and_were_archived_are_foreign(tmp_path: Path) -> None:
    """With two of them the search would never end."""

    @dataclass
    class Archived(Vendor):
        async def poll(self, batch_id: str) -> BatchStatus:
            return BatchStatus(batch_id, "ended", ended=True)

    components = components_of(tmp_path, Archived(listed=[seen(f"archived-{n}", None) for n in range(2)]))
    async with asyncio.timeout(10):
        batch = await settled(components, doubtful(components))
    assert isinstance(batch.state, AtVendor) and batch.state.batch_id == "new-1"


async def test_the_only_untagged_batch_is_taken_after_the_whole_time_but_is_not_certain(
    components: Components, vendor: Vendor
) -> None:
    vendor.listed = [seen("maybe", None), seen("known", None), seen("longer", None, rows=3)]
    batch = await settled(components, doubtful(components), known="known")
    assert isinstance(batch.state, AtVendor) and batch.state.batch_id == "maybe"
    assert not batch.state.record.is_certain and not vendor.submitted


@pytest.mark.parametrize(
    ("then", "now", "same"),
    [("org", "org/workspace", True), ("org/a", "org/b", False), ("org", "other/a", False), ("", "org", True)],
)
async def test_an_owner_is_the_same_as_far_as_both_records_say_and_another_is_refused_at_once(
    components: Components, vendor: Vendor, then: str, now: str, same: bool
) -> None:
    vendor.org = now
    state = doubtful(components, owner=then)
    if same:
        await settled(components, state)
    else:
        with pytest.raises(ConfigError, match=f"{then}, and the key now belongs to {now}"):
            await settled(components, state)
    assert len(vendor.submitted) == same == ("since" in vendor.asked)


@pytest.mark.parametrize("listed", [[], [seen("ours", "tag")]], ids=["unseen", "seen"])
async def test_a_doubtful_batch_of_another_key_is_adopted_if_seen_and_not_sent_again_if_not(
    components: Components, vendor: Vendor, listed: list[SeenBatch]
) -> None:
    vendor.org, vendor.listed = "", listed
    state = doubtful(components, owner="", fingerprint="ffff")
    if listed:
        batch = await settled(components, state)
        assert isinstance(batch.state, AtVendor) and batch.state.batch_id == "ours"
    else:
        with pytest.raises(ConfigError, match="it was sent with another one, or to another `url:`; use that key"):
            await settled(components, state)
    assert not vendor.submitted


@pytest.mark.parametrize("stale_looks", [[1], [2], [3], [3, 5], [1, 2, 3, 4]])
async def test_a_batch_waits_while_the_lease_is_stale_and_is_made_once(
    tmp_path: Path, vendor: Vendor, stale_looks: list[int]
) -> None:
    """Before the intent, before the upload, or between the upload and the create request."""
    looks = count(1)

    def guard() -> None:
        if next(looks) in stale_looks:
            raise LeaseStale("not renewed")

    components = components_of(tmp_path, vendor, context=context_of(guard=guard))
    batch = await settled(components, Funded())
    assert isinstance(batch.state, AtVendor) and next(looks) > max(stale_looks)
    assert told(components) == ["intent", "submitted"] and len(vendor.submitted) == 1
    assert components.budget.in_batches == 100 and components.budget.reserved == 0


async def test_an_intent_that_another_driver_wrote_stops_before_the_vendor(
    components: Components, vendor: Vendor
) -> None:
    components.ledger.add(Batch("acme", 1), intent())
    with pytest.raises(LeaseLost):
        await settled(components, Funded())
    assert not vendor.submitted


async def test_a_full_queue_closes_the_batch_and_keeps_its_rows_waiting(components: Components, vendor: Vendor) -> None:
    vendor.refuses = [FULL]
    batch = await settled(components, Funded())
    assert isinstance(batch.state, Packed) and len(vendor.submitted) == 1
    assert told(components) == ["intent", "ended", "harvested"]
    assert not components.limits.has_room("m", 0, 1) and components.budget.in_batches == 0


async def test_malformed_rows_close_the_batch_and_are_told(components: Components, vendor: Vendor) -> None:
    error = BadRows("row 2 is malformed", (1,))
    vendor.refuses = [error]
    batch = await settled(components, Funded())
    assert batch.state == Malformed(error) and told(components) == ["intent", "ended", "harvested"]
    assert not components.counters.stops


@pytest.mark.parametrize("error", [FULL, BadRows("malformed"), ModelError(FailureKind.MODEL_RETIRED, "retired")])
async def test_a_refusal_ends_a_batch_of_an_earlier_process(
    components: Components, vendor: Vendor, error: Exception
) -> None:
    vendor.refuses = [error]
    batch = await settled(components, doubtful(components))
    assert batch.state == Closed() and told(components)[-2:] == ["ended", "harvested"]
    assert set(components.counters.stops) == ({"m"} if isinstance(error, ModelError) else set())


async def test_an_overloaded_vendor_is_asked_again_with_a_new_intent(components: Components, vendor: Vendor) -> None:
    vendor.refuses = [TransientError(FailureKind.SERVER, "overloaded", None)]
    creating = asyncio.create_task(settled(components, Funded()))
    while told(components) != ["intent"]:
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    assert len(vendor.submitted) == 1, "it is sent again without a pause"
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    assert components.budget.in_batches == 100, "the money of a batch that may be at the vendor is set free"


@dataclass
class Blind(Vendor):
    """A vendor whose list can no longer be read."""

    failing: CallError = field(kw_only=True)

    async def since(self, newest: str | None) -> list[SeenBatch]:
        raise self.failing


@pytest.mark.parametrize("sent", [True, False])
@pytest.mark.parametrize("error", [ProviderError(FailureKind.BAD_KEY, "no such key"), NoBatchApi("HTTP 403")], ids=str)
async def test_a_look_that_fails_leaves_the_batch_in_doubt_and_sends_nothing_again(
    error: CallError, tmp_path: Path, sent: bool
) -> None:
    """Nor online: the batch may exist, though the vendor now says that there are none."""
    vendor = Blind(refuses=[broken()], failing=error)
    components = components_of(tmp_path, vendor)
    batch = await settled(components, Funded() if sent else doubtful(components))
    assert isinstance(batch.state, Abandoned) and batch.state.record.phase is Phase.IN_DOUBT
    assert len(vendor.submitted) == sent and str(error) in components.counters.stops[""]
    assert not components.counters.refused


async def test_a_model_that_was_stopped_meanwhile_gets_no_batch(components: Components, vendor: Vendor) -> None:
    components.counters.stops["m"] = "retired"
    batch = await settled(components, Funded())
    assert batch.state == Closed() and not vendor.submitted and not told(components)
    assert components.budget.reserved == 0


async def test_a_batch_that_the_vendor_does_not_have_is_not_created_after_the_deadline(tmp_path: Path) -> None:
    vendor = Vendor()
    components = components_of(tmp_path, vendor, context=replace(context_of(), deadline=START))
    batch = await settled(components, doubtful(components))
    assert batch.state == Closed() and "since" in vendor.asked and not vendor.submitted
    assert told(components) == ["intent", "ended", "harvested"]


NEVER_LISTED = (
    PageNotFound("404 page not found"),
    TransientError(FailureKind.SERVER, "HTTP 500: no attribute 'id'"),
    TransientError(FailureKind.MALFORMED, "a list without data"),
)
ANSWERS_NOTHING = (
    Unreachable(FailureKind.CONNECTION, "cannot connect"),
    TransientError(FailureKind.CONNECTION, "the connection broke"),
    TransientError(FailureKind.TIMEOUT, "HTTP 504"),
    Overloaded("HTTP 503", None),
    Intercepted(FailureKind.SERVER, "a login page"),
)


@dataclass
class WithoutList(Vendor):
    """A server whose list fails with this error, from the `first` request on."""

    failing: CallError = NEVER_LISTED[0]
    first: int = 1
    asked_newest: int = 0

    async def newest(self) -> str | None:
        self.asked_newest += 1
        if self.asked_newest >= self.first:
            raise self.failing
        return None


@pytest.mark.parametrize("error", NEVER_LISTED, ids=str)
async def test_a_server_that_never_shows_a_list_of_batches_has_none(
    error: CallError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "FIRST_BACKOFF_S", 0.0)
    vendor = WithoutList(failing=error)
    components = components_of(tmp_path, vendor)
    batch = await settled(components, Funded())
    assert batch.state == Closed() and vendor.asked_newest == decisions.ATTEMPTS and not vendor.submitted
    assert str(error) in components.counters.refused[""] and not components.counters.stops
    assert components.budget.reserved == 0


@pytest.mark.parametrize("error", [NEVER_LISTED[0], NEVER_LISTED[1]], ids=str)
@pytest.mark.parametrize("is_known", ["shown before", "from the ledger", "in doubt", "the vendor's address"])
async def test_a_list_that_was_there_before_is_not_taken_for_missing(
    is_known: str, error: CallError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else all calls would go online, at twice the price, and those of a batch in doubt would be paid for twice."""
    monkeypatch.setattr(decisions, "FIRST_BACKOFF_S", 0.0)
    first = 2 if is_known == "shown before" else 1
    vendor = WithoutList(failing=error, first=first, refuses=[TransientError(FailureKind.SERVER, "")])
    context = replace(context_of(), is_vendors=is_known == "the vendor's address")
    components = components_of(tmp_path, vendor, context=context)
    if is_known == "from the ledger":
        written(components.ledger, 7, intent(), submitted())
    if is_known == "in doubt":
        written(components.ledger, 7, intent())
    batch = await settled(components, Funded())
    assert isinstance(batch.state, Abandoned) and not components.counters.refused
    assert str(error) in components.counters.stops[""]


@pytest.mark.parametrize("error", ANSWERS_NOTHING, ids=str)
async def test_an_outage_is_not_taken_for_a_missing_list(
    error: CallError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "FIRST_BACKOFF_S", 0.0)
    components = components_of(tmp_path, WithoutList(failing=error))
    batch = await settled(components, Funded())
    assert isinstance(batch.state, Abandoned) and not components.counters.refused


async def test_a_list_that_keeps_failing_is_noted_once_while_it_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nothing is shown for two minutes."""
    monkeypatch.setattr(decisions, "FIRST_BACKOFF_S", 0.001)
    monkeypatch.setattr(search, "NOTED_AFTER_S", 0.005)
    vendor = WithoutList(failing=TransientError(FailureKind.SERVER, "HTTP 500: no list today"))
    components = components_of(tmp_path, vendor)
    await settled(components, Funded())
    (note,) = (note for note in components.counters.notes if "keeps failing" in note)
    assert note.startswith("acme: ") and "no list today" in note and vendor.asked_newest == decisions.ATTEMPTS


async def test_a_vendor_that_asks_to_wait_for_days_before_a_list_is_not_waited_for(tmp_path: Path) -> None:
    """The account would create nothing meanwhile, whatever the deadline, and nobody would be told."""

    @dataclass
    class Shut(Vendor):
        async def newest(self) -> str | None:
            raise RateLimited("come back on Monday", 200_000.0)

    components = components_of(tmp_path, Shut())
    async with asyncio.timeout(5):
        batch = await settled(components, Funded())
    assert "come back on Monday" in components.counters.refused["m"] and not told(components)
    assert isinstance(batch.state, Packed)
