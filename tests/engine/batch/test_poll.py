"""Polling and collecting: which requests are sent when, what is written, and who pays."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from hab_ray.calls import Failure, Reply
from hab_ray.catalog.models import BatchPolicy
from hab_ray.catalog.prices import DatedPrices, Mode, Price
from hab_ray.engine.batch import collect, poll
from hab_ray.engine.batch.collect import Collector
from hab_ray.engine.batch.components import Components
from hab_ray.engine.batch.decisions import LATE_POLLS, SOME_LATE_POLLS
from hab_ray.engine.batch.poll import Poller
from hab_ray.engine.batch.rows import BatchInFlight
from hab_ray.engine.batch.states import AtVendor, Closed, Ended
from hab_ray.engine.batch.transitions import recovered
from hab_ray.engine.ledger import Harvested
from hab_ray.errors import (
    CallError,
    ConfigError,
    FailureKind,
    ModelError,
    ProviderError,
    RateLimited,
    RowError,
    TransientError,
)
from hab_ray.providers import connect
from hab_ray.providers.base import Endpoint
from hab_ray.providers.batching import BatchStatus, Line, NoBatchApi, ResultsGone
from hab_ray.providers.openai.chat import OpenAIProvider
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.replies.keyindex import KeySet
from hab_ray.storage.replies.store import StoreWriter
from tests.engine.batch.fakes import ENTRY, KEYS, START, Vendor, components_of, context_of, sent, told
from tests.engine.bench import completion, stored
from tests.storage.conftest import Clock

POLICY = BatchPolicy(poll_s=10.0, still_s=60.0, longest_s=1000.0)
REFUSED = RowError(FailureKind.TOO_LONG, "too long")
BOTH = [Line(KEYS[0], error=REFUSED), Line(KEYS[1], error=REFUSED)]
BUSY = TransientError(FailureKind.SERVER, "overloaded")
UNREADABLE = TransientError(FailureKind.MALFORMED, "neither a response nor an error")


@dataclass
class Scripted(Vendor):
    """A vendor with scripted statuses and results; it repeats the last status."""

    statuses: list[BatchStatus | CallError] = field(default_factory=list)
    lines: list[Line | CallError] = field(default_factory=list)
    cancels: list[CallError] = field(default_factory=list)

    async def poll(self, batch_id: str) -> BatchStatus:
        self.asked.append("poll")
        answer = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if isinstance(answer, CallError):
            raise answer
        return answer

    async def cancel(self, batch_id: str) -> None:
        self.asked.append("cancel")
        if self.cancels:
            raise self.cancels.pop()


@dataclass
class Nameless(Scripted):
    """A vendor that does not answer whose the key is."""

    error: CallError = BUSY

    async def owner(self) -> str:
        raise self.error


def status(word: str = "completed", **facts: object) -> BatchStatus:
    return replace(BatchStatus("b-1", word, ended=word != "in_progress"), **facts)  # type: ignore[arg-type]


@dataclass
class Scene:
    """A batch of two rows at a vendor, and its poller."""

    vendor: Scripted
    components: Components
    poller: Poller
    batch: BatchInFlight
    clock: Clock

    async def at(self, clock: float) -> None:
        """Set the clock, and perform every action that is due."""
        self.clock.now = clock
        await self.components.advance(self.batch, self.poller)

    async def polled(self, times: int) -> None:
        """Have the batch polled so many times, each as soon as it is due and its counters are still."""
        for n in range(times):
            await self.at(n * 70.0)

    @property
    def harvested(self) -> Harvested:
        """The last event of the batch."""
        (record,) = self.components.ledger.read()
        assert record.harvested
        return record.harvested


SceneOf = Callable[..., Scene]


@pytest.fixture
def scene_of(tmp_path: Path) -> SceneOf:
    """A scene with this vendor; the batch is `certain` to be ours, and this run pays for it if it `is_own`.

    `intended` changes its intent.
    """

    def scene(
        vendor: Scripted,
        certain: bool = True,
        is_own: bool = True,
        age_s: float = 0.0,
        deadline: datetime | None = None,
        keeps_refusals: bool = False,
        **intended: object,
    ) -> Scene:
        clock = Clock(0.0)

        def today() -> datetime:
            return START + timedelta(seconds=age_s + clock.now)

        context = replace(context_of(clock, today), deadline=deadline, keeps_refusals=keeps_refusals)
        components = components_of(tmp_path, vendor, POLICY, context)
        record = sent(components.ledger, certain, **intended)
        batch = BatchInFlight("m", recovered(record, 0.0), is_own=is_own, nanousd=100 if is_own else 0)
        components.rows.open(batch, record, KeySet(KEYS))
        batch.waiting[7] = 2
        if is_own:
            components.budget.adopt(100)
        provider = connect(Endpoint("acme", "openai", "http://localhost:1", "a-key", 1.0))
        folder = LocalFolder(tmp_path)
        writer = StoreWriter(folder, 2, "w", Mode.BATCH)
        collector = Collector(provider, vendor, writer, today, components.counters.traffic)
        poller = Poller(components, collector, {"m": DatedPrices(Price(1, 1, 1, 1))})
        return Scene(vendor, components, poller, batch, clock)

    return scene


async def test_a_batch_is_polled_when_due_and_collected_once(scene_of: SceneOf) -> None:
    scene = scene_of(Scripted(statuses=[status("in_progress"), status()], lines=[*BOTH]))
    await scene.at(0.0)
    await scene.at(8.9)
    assert scene.vendor.asked == ["poll"] and isinstance(scene.batch.state, AtVendor)
    await scene.at(11.1)
    assert scene.vendor.asked == ["poll", "poll", "results", "clean up b-1"] and isinstance(scene.batch.state, Closed)
    assert told(scene.components) == ["intent", "submitted", "ended", "harvested"]
    counters = scene.components.counters
    assert counters.finished[7] == 2 and counters.in_flight["m"] == 0 and not scene.components.rows.batches
    assert scene.components.budget.in_batches == 0


@pytest.mark.parametrize(("sent_at", "booked"), [(Price(5, 5, 5, 5), 10), (None, 2)], ids=["known", "an old ledger"])
async def test_a_row_is_booked_at_the_price_at_which_its_batch_was_sent(
    scene_of: SceneOf, sent_at: Price | None, booked: int
) -> None:
    million = completion({"prompt_tokens": 1_000_000, "completion_tokens": 1_000_000})
    scene = scene_of(Scripted(statuses=[status()], lines=[Line(KEYS[0], million)]), price=sent_at)
    await scene.at(0.0)
    assert scene.harvested.nanousd == booked


async def test_results_that_break_off_are_read_again_and_nothing_is_filed_twice(scene_of: SceneOf) -> None:
    scene = scene_of(Scripted(statuses=[status()], lines=[BOTH[0], BUSY, BOTH[1]]))
    await scene.at(0.0)
    assert isinstance(scene.batch.state, Ended) and told(scene.components)[-1] == "ended"
    assert scene.components.counters.retries == 1
    await scene.at(20.0)
    assert (scene.harvested.failures, scene.harvested.unanswered) == (2, 0)


async def test_counters_must_be_still_before_results_are_read(scene_of: SceneOf) -> None:
    scene = scene_of(Scripted(statuses=[status(counters=(1, 0)), status(counters=(2, 0))]))
    await scene.at(0.0)
    await scene.at(30.0)
    await scene.at(80.0)
    assert "results" not in scene.vendor.asked
    await scene.at(150.0)
    assert scene.vendor.asked[-2:] == ["results", "clean up b-1"]


LATE = status(counters=(2, 0), done=2, lacks_results=True)


async def test_an_end_without_its_results_is_watched_until_they_show(scene_of: SceneOf) -> None:
    scene = scene_of(Scripted(statuses=[*[LATE] * 50, status()], lines=[*BOTH]))
    await scene.polled(50)
    assert scene.vendor.asked == ["poll"] * 50 and scene.batch.is_ending
    assert told(scene.components) == ["intent", "submitted"]
    await scene.at(50 * 70.0)
    assert scene.vendor.asked[50:] == ["poll", "results", "clean up b-1"]
    assert len(scene.components.counters.notes) == 1 and scene.components.budget.lost == 0


async def test_results_that_never_show_are_booked_in_full_and_nothing_is_deleted(
    scene_of: SceneOf, tmp_path: Path
) -> None:
    scene = scene_of(Scripted(statuses=[LATE], lines=[Line(KEYS[0], error=BUSY)]))
    await scene.polled(LATE_POLLS)
    assert isinstance(scene.batch.state, Closed)
    assert scene.vendor.asked == ["poll"] * LATE_POLLS + ["results"]
    assert (scene.harvested.failures, scene.harvested.unanswered) == (1, 1)
    assert scene.harvested.nanousd == 100, "the row that the vendor did not tell of may be the dearer one"
    failure = stored(tmp_path, "m")[KEYS[1]]
    assert isinstance(failure, Failure) and failure.cost_nanousd == 100
    assert "--retry-failed" in failure.message and "b-1 ended" in scene.components.counters.notes[-1]


async def test_a_batch_that_ended_early_and_shows_nothing_costs_what_it_counts_and_its_rows_are_sent_again(
    scene_of: SceneOf, tmp_path: Path
) -> None:
    """As of Gemini: three answers counted in a cancelled batch of ten thousand rows would fail all of them."""
    scene = scene_of(Scripted(statuses=[replace(LATE, done=1, lacks_some=True)]))
    await scene.polled(LATE_POLLS - 1)
    assert not isinstance(scene.batch.state, Closed), "it is not watched"
    await scene.polled(LATE_POLLS)
    assert (scene.harvested.failures, scene.harvested.unanswered, scene.harvested.lost_nanousd) == (0, 2, 50)
    assert not stored(tmp_path, "m") and not any(asked.startswith("clean up") for asked in scene.vendor.asked)
    assert "counts 1 answers" in scene.components.counters.notes[-1]


async def test_counted_answers_of_which_none_shows_are_waited_for_likewise(scene_of: SceneOf) -> None:
    counted = status(counters=(2, 0), done=2)
    scene = scene_of(Scripted(statuses=[counted]))
    await scene.polled(LATE_POLLS - 1)
    assert isinstance(scene.batch.state, Ended) and scene.batch.is_ending and scene.components.budget.lost == 0
    scene.vendor.lines.append(Line(KEYS[0], error=REFUSED))
    for n in range(SOME_LATE_POLLS):
        assert isinstance(scene.batch.state, Ended), "those that do not show yet have their own time"
        await scene.at((LATE_POLLS + n) * 70.0)
    assert (scene.harvested.failures, scene.harvested.unanswered) == (1, 1)


async def test_what_came_instead_of_results_is_told_at_once_and_in_each_row(scene_of: SceneOf, tmp_path: Path) -> None:
    """As of a proxy's page: who can mend it learns of it hours before the vendor is asked for the last time."""
    page = Line("", error=TransientError(FailureKind.MALFORMED, "a web page came: " + "<html>" * 100))
    scene = scene_of(Scripted(statuses=[status(counters=(2, 0), done=2)], lines=[page, page]))
    await scene.polled(2)
    (note,) = scene.components.counters.notes
    assert "has ended, and the vendor" in note and "(what came instead cannot be read: a web page came: <html>" in note
    for n in range(2, LATE_POLLS):
        await scene.at(n * 70.0)
    _, last = scene.components.counters.notes
    assert "never showed its results (what came instead cannot be read: a web page" in last
    assert (scene.harvested.failures, scene.harvested.nanousd) == (2, 100)
    assert not any(asked.startswith("clean up") for asked in scene.vendor.asked)
    for failure in stored(tmp_path, "m").values():
        assert isinstance(failure, Failure) and "(what came instead cannot be read: a web page" in failure.message
        assert len(failure.message) < 700


async def test_answers_that_show_later_than_others_are_kept_and_paid_for_once(scene_of: SceneOf) -> None:
    """As where a download ends between two lines: the row would be paid for again, and its answer deleted."""
    answer = completion({"prompt_tokens": 3, "completion_tokens": 2})
    scene = scene_of(Scripted(statuses=[status(done=2)], lines=[Line(KEYS[0], answer)]))
    await scene.polled(SOME_LATE_POLLS - 1)
    assert isinstance(scene.batch.state, Ended) and scene.batch.is_ending
    scene.vendor.lines.append(Line(KEYS[1], answer))
    await scene.at(SOME_LATE_POLLS * 70.0)
    assert (scene.harvested.replies, scene.harvested.lost_nanousd) == (2, 0)
    assert scene.vendor.asked[-2:] == ["results", "clean up b-1"]


async def test_answers_that_never_show_beside_others_are_booked_and_not_deleted(scene_of: SceneOf) -> None:
    answer = completion({"prompt_tokens": 3, "completion_tokens": 2})
    scene = scene_of(Scripted(statuses=[status(done=2)], lines=[Line(KEYS[0], answer)]))
    await scene.polled(SOME_LATE_POLLS)
    assert (scene.harvested.replies, scene.harvested.unanswered, scene.harvested.lost_nanousd) == (1, 1, 50)
    assert isinstance(scene.batch.state, Closed) and scene.vendor.asked[-1] == "results"
    assert "never showed all of them" in scene.components.counters.notes[-1]


async def test_answers_that_cannot_be_read_are_booked_told_and_not_deleted(scene_of: SceneOf, tmp_path: Path) -> None:
    scene = scene_of(Scripted(statuses=[status(done=2)], lines=[Line(KEYS[0], {}), Line(KEYS[1], error=UNREADABLE)]))
    await scene.polled(1)
    assert (scene.harvested.failures, scene.harvested.nanousd, scene.harvested.unanswered) == (2, 100, 0)
    assert isinstance(scene.batch.state, Closed) and scene.vendor.asked[-1] == "results"
    (note,) = scene.components.counters.notes
    assert "2 answers of b-1 may have been billed and cannot be read, the first because: the response body" in note
    assert {outcome.cost_nanousd for outcome in stored(tmp_path, "m").values()} == {50}


async def test_a_batch_whose_answers_the_code_cannot_read_stays_open_for_the_next_run(
    scene_of: SceneOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [Line(key, completion({"prompt_tokens": 1, "completion_tokens": 1})) for key in KEYS]
    scene = scene_of(Scripted(statuses=[status(done=2)], lines=[*lines]))
    monkeypatch.setattr(OpenAIProvider, "read_chat", lambda self, body: body["choice"])
    await scene.polled(1)
    assert isinstance(scene.batch.state, Ended) and "KeyError: 'choice'" in scene.components.counters.stops[""]
    assert told(scene.components) == ["intent", "submitted", "ended"] and not stored(tmp_path, "m")
    assert scene.vendor.asked[-1] == "results"


async def test_files_of_answers_that_an_earlier_process_could_not_read_are_not_deleted(
    scene_of: SceneOf, tmp_path: Path
) -> None:
    """It ended between storing them and the last event."""
    earlier = StoreWriter(LocalFolder(tmp_path), 1, "earlier", Mode.BATCH)
    for key in KEYS:
        earlier.add("m", Failure(key, FailureKind.WITHHELD, attempts=1, message="cannot be read", cost_nanousd=50))
    earlier.flush()
    scene = scene_of(Scripted(statuses=[status(done=2)], lines=[Line(key, {}) for key in KEYS]))
    await scene.polled(1)
    assert isinstance(scene.batch.state, Closed) and scene.vendor.asked[-1] == "results"
    assert (scene.harvested.failures, scene.harvested.nanousd) == (2, 100)


async def test_an_old_batch_is_cancelled_once_and_a_failed_cancel_repeated(scene_of: SceneOf) -> None:
    scene = scene_of(Scripted(statuses=[status("in_progress")], cancels=[BUSY]), age_s=1001.0)
    for clock in (0.0, 1.0, 20.0, 40.0):
        await scene.at(clock)
    assert scene.vendor.asked == ["cancel", "poll", "cancel", "poll", "poll"]
    assert scene.components.counters.notes == ["batch acme/000001 was not done after 1021 s and is cancelled"]


async def test_a_batch_that_vanishes_costs_all_that_was_set_aside(scene_of: SceneOf) -> None:
    scene = scene_of(Scripted(statuses=[status("in_progress"), ResultsGone("b-1: no such batch")]))
    for clock in (0.0, 400.0, 600.0, 700.0):
        await scene.at(clock)
    assert isinstance(scene.batch.state, AtVendor), "a batch is given up at once"
    (note,) = scene.components.counters.notes
    assert note.startswith(
        "batch acme/000001: b-1: no such batch; it may show late, and is asked for until 12:11:40 UTC"
    )
    await scene.at(801.0)
    assert isinstance(scene.batch.state, Closed) and told(scene.components)[-2:] == ["ended", "harvested"]
    assert scene.components.budget.lost == 100 and scene.components.counters.finished[7] == 2


async def test_a_batch_whose_vendor_does_not_answer_for_ten_minutes_is_told_once(scene_of: SceneOf) -> None:
    scene = scene_of(Scripted(statuses=[BUSY, status("in_progress"), BUSY]))
    for clock in (0.0, 150.0, 250.0, 450.0, 700.0):
        await scene.at(clock)
    assert scene.components.counters.notes == [], "told although the vendor has answered meanwhile"
    for clock in (860.0, 970.0):
        await scene.at(clock)
    (note,) = scene.components.counters.notes
    assert note == (
        "batch acme/000001: no request for its status or results succeeded in 10 minutes, the last because: "
        "overloaded. The vendor is asked until it answers; nothing is sent again"
    )
    assert scene.vendor.asked == ["poll"] * 7


@pytest.mark.parametrize("between", [status("in_progress"), BUSY], ids=["known", "overloaded"])
async def test_a_batch_that_is_not_unknown_all_the_time_is_kept(
    scene_of: SceneOf, between: BatchStatus | CallError
) -> None:
    gone = ResultsGone("no such batch")
    scene = scene_of(Scripted(statuses=[gone, between, gone]))
    for clock in (0.0, 200.0, 400.0, 600.0):
        await scene.at(clock)
    assert isinstance(scene.batch.state, AtVendor) and scene.components.budget.lost == 0


async def test_a_batch_that_another_accounts_key_cannot_see_is_not_paid_for_again(scene_of: SceneOf) -> None:
    scene = scene_of(Scripted(statuses=[ResultsGone("no such batch")], org="rival"))
    await scene.at(0.0)
    with pytest.raises(
        ConfigError, match=r"use a key of the first one .* If there is none any more, delete the folder ledger/"
    ):
        await scene.at(301.0)
    assert told(scene.components) == ["intent", "submitted"] and scene.components.budget.lost == 0


@pytest.mark.parametrize(
    ("owner", "org", "fingerprint", "is_kept"),
    [
        ("", "", "ffff", True),
        ("", "", "a1b2", False),
        ("", "", None, False),
        ("org", "org", "ffff", True),
        ("org/project", "org/project", "ffff", False),
    ],
    ids=["another key", "the same key", "an old ledger", "only the organisation is named", "a new key of the project"],
)
async def test_a_batch_sent_with_another_key_is_not_paid_for_again_unless_the_vendor_names_the_same_project(
    scene_of: SceneOf, owner: str, org: str, fingerprint: str | None, is_kept: bool
) -> None:
    scene = scene_of(Scripted(statuses=[ResultsGone("no such batch")], org=org), owner=owner, fingerprint=fingerprint)
    await scene.at(0.0)
    if is_kept:
        with pytest.raises(ConfigError, match=r"use that key, or one of the same project.*folder ledger/acme/000001"):
            await scene.at(301.0)
        assert told(scene.components) == ["intent", "submitted"] and scene.components.budget.lost == 0
    else:
        await scene.at(301.0)
        assert isinstance(scene.batch.state, Closed) and scene.components.budget.lost == 100


async def test_results_that_expired_of_a_batch_that_a_rotated_key_can_see_count_as_lost(scene_of: SceneOf) -> None:
    gone = [ResultsGone("results are kept for 29 days") for _ in range(9)]
    scene = scene_of(Scripted(statuses=[status()], lines=[*gone], org=""), owner="", fingerprint="ffff")
    for clock in (0.0, 20.0, 200.0, 300.0):
        await scene.at(clock)
    assert isinstance(scene.batch.state, Ended), "given up at the first sight"
    assert "it may show late" in scene.components.counters.notes[0] and len(scene.components.counters.notes) == 1
    await scene.at(400.0)
    assert isinstance(scene.batch.state, Closed) and scene.components.budget.lost == 100


async def test_results_that_are_not_there_yet_are_read_once_they_are(scene_of: SceneOf) -> None:
    """As where the file is not known everywhere at once: every row would be paid for again."""
    gone = [ResultsGone("no such file"), ResultsGone("no such file")]
    scene = scene_of(Scripted(statuses=[status()], lines=[*gone, *BOTH]))
    for clock in (0.0, 20.0, 200.0):
        await scene.at(clock)
    assert (scene.harvested.failures, scene.components.budget.lost) == (2, 0)


async def test_an_answer_of_a_call_that_was_sent_again_is_kept_whatever_it_had_failed_with(
    scene_of: SceneOf, tmp_path: Path
) -> None:
    """`hab run --retry-failed` sent it and ended; a run without the option collects its batch."""
    earlier = StoreWriter(LocalFolder(tmp_path), 0, "earlier", Mode.ONLINE)
    earlier.add("m", Failure(KEYS[0], FailureKind.WITHHELD, attempts=1, message="late", cost_nanousd=50))
    earlier.flush()
    answer = completion({"prompt_tokens": 1, "completion_tokens": 1})
    scene = scene_of(Scripted(statuses=[status()], lines=[Line(key, answer) for key in KEYS]))
    await scene.at(0.0)
    assert (scene.harvested.replies, scene.harvested.failures, scene.harvested.nanousd) == (2, 0, 0)
    assert set(map(type, stored(tmp_path, "m").values())) == {Reply}


async def test_only_what_failed_before_this_process_may_be_sent_again(scene_of: SceneOf, tmp_path: Path) -> None:
    """A process ended while it collected the batch; the next one runs with `--retry-failed`."""
    earlier = StoreWriter(LocalFolder(tmp_path), 1, "earlier", Mode.BATCH)
    earlier.add("m", Failure(KEYS[0], FailureKind.TOO_LONG, attempts=1, message="too long"))
    earlier.flush()
    scene = scene_of(Scripted(statuses=[status()], lines=[*BOTH]))
    await scene.at(0.0)
    rows = scene.components.rows
    assert (scene.harvested.failures, rows.held(KEYS)) == (2, {KEYS[1]})
    assert rows.sent(KEYS) == set(KEYS)


async def test_a_batch_is_not_given_up_while_the_keys_account_is_unknown(scene_of: SceneOf) -> None:
    scene = scene_of(Nameless(statuses=[ResultsGone("no such batch")]))
    for clock in (0.0, 301.0):
        await scene.at(clock)
    assert isinstance(scene.batch.state, AtVendor) and scene.components.budget.lost == 0


async def test_an_endpoint_that_knows_neither_a_batch_nor_a_list_is_asked_no_more(scene_of: SceneOf) -> None:
    """As where the provider's url was changed: the batch may be at the endpoint that it was sent to."""
    gone = ResultsGone("no such batch")
    scene = scene_of(Nameless(statuses=[gone], error=NoBatchApi("404: no batch API at this url")))
    for clock in (0.0, 301.0, 700.0, 1100.0):
        await scene.at(clock)
    assert scene.vendor.asked == ["poll", "poll"] and scene.components.budget.lost == 0
    assert "no batch API at this url" in scene.components.counters.stops[""]
    assert told(scene.components) == ["intent", "submitted"]


async def test_a_batch_of_another_run_is_collected_and_not_paid_for(scene_of: SceneOf) -> None:
    scene = scene_of(Scripted(statuses=[ResultsGone("no such batch")]), certain=False, is_own=False)
    await scene.at(0.0)
    assert isinstance(scene.batch.state, Closed) and scene.components.budget.lost == 0


@pytest.mark.parametrize(("is_own", "paid"), [(True, 10_000_000), (False, 0)])
async def test_a_run_says_that_it_paid_for_its_own_batches_only(scene_of: SceneOf, is_own: bool, paid: int) -> None:
    answer = completion({"prompt_tokens": 3000, "completion_tokens": 2000})
    lines: list[Line | CallError] = [Line(key, answer) for key in KEYS]
    bounds = {"nanousd": 1, "most_nanousd": 10**9}
    scene = scene_of(Scripted(statuses=[status(done=2)], lines=lines), is_own=is_own, price=Price.usd(1, 1), **bounds)
    await scene.at(0.0)
    counters = scene.components.counters
    assert scene.harvested.nanousd == 10_000_000
    assert counters.cost_nanousd == counters.traffic["m"].cost_nanousd == paid
    assert bool(scene.components.overruns) is is_own


@pytest.mark.parametrize(("is_own", "asked"), [(True, ["cancel", "poll"]), (False, ["poll"])])
async def test_a_deadline_cancels_batches_of_its_run_only(scene_of: SceneOf, is_own: bool, asked: list[str]) -> None:
    scene = scene_of(Scripted(statuses=[status("in_progress")]), is_own=is_own, deadline=START)
    await scene.at(0.0)
    assert scene.vendor.asked == asked


async def test_what_may_be_somebody_elses_is_not_deleted(scene_of: SceneOf) -> None:
    scene = scene_of(Scripted(statuses=[status()], lines=[Line("f" * 64, error=REFUSED)]), certain=False)
    await scene.at(0.0)
    assert isinstance(scene.batch.state, Closed) and scene.vendor.asked == ["poll", "results"]


async def test_a_bad_key_stops_the_provider_and_gives_its_rows_back(scene_of: SceneOf) -> None:
    scene = scene_of(Scripted(statuses=[ProviderError(FailureKind.BAD_KEY, "no such key")]))
    await scene.at(0.0)
    await scene.at(1000.0)
    assert scene.vendor.asked == ["poll"] and told(scene.components) == ["intent", "submitted"]
    counters = scene.components.counters
    assert counters.stops == {"": "no such key"} and counters.finished[7] == 2
    assert scene.components.rows.batches == (scene.batch,), "a batch at the vendor is forgotten"


async def test_what_a_whole_batch_was_refused_for_is_heeded(scene_of: SceneOf) -> None:
    full = scene_of(Scripted(statuses=[status("failed", problem=RateLimited("queue full", None))]))
    await full.at(0.0)
    counters = full.components.counters
    assert counters.deferred[7] == 2 and not full.components.limits.has_room("m", 1, 10_000)
    waits, failed = counters.notes
    assert "other programs may fill it" in waits and "is asked again for 15 minutes: queue full" in waits
    assert failed == "batch acme/000001 failed: queue full" and not counters.refused


async def test_a_queue_that_others_fill_for_a_quarter_of_an_hour_takes_no_more_batches(scene_of: SceneOf) -> None:
    full = RateLimited("queue full", None)
    scene = scene_of(Scripted(statuses=[status("failed", problem=full)]))
    scene.components.limits.note_overflow("m", 0, 10, full)
    await scene.at(901.0)
    assert "for 15 minutes" in scene.components.counters.refused["m"]


async def test_a_line_that_tells_of_its_model_stops_the_model(scene_of: SceneOf) -> None:
    retired = ModelError(FailureKind.MODEL_RETIRED, "retired")
    scene = scene_of(Scripted(statuses=[status()], lines=[Line(KEYS[0], error=retired)]), epoch=2)
    await scene.at(0.0)
    assert scene.components.counters.stops == {"m": "retired"}


@pytest.mark.parametrize(
    "error", [ProviderError(FailureKind.BAD_KEY, "no key"), ModelError(FailureKind.BAD_REQUEST, "no key")]
)
@pytest.mark.parametrize("leaves", [False, True], ids=["stays", "--detach"])
async def test_lines_of_a_batch_that_an_earlier_start_sent_stop_nothing_unless_starts_leave_their_batches(
    scene_of: SceneOf, error: CallError, leaves: bool
) -> None:
    """The key may be another one since; a run that leaves would send the same batch at every start."""
    scene = scene_of(Scripted(statuses=[status()], lines=[Line(KEYS[0], error=error)]), keeps_refusals=leaves)
    await scene.at(0.0)
    counters = scene.components.counters
    assert bool(counters.stops) == leaves and any("no key" in note for note in counters.notes) != leaves


async def test_a_model_of_whose_earlier_batch_no_answer_can_be_read_gets_no_further_one(
    scene_of: SceneOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read now, so the cause is not repaired yet."""
    monkeypatch.setattr(collect, "MIN_ALIKE", 2)
    scene = scene_of(Scripted(statuses=[status(done=2)], lines=[Line(key, {}) for key in KEYS]))
    await scene.polled(1)
    counters = scene.components.counters
    assert "no answer in a batch of 2 rows can be read" in counters.stops["m"]
    assert not any("are sent again" in note for note in counters.notes)


@pytest.mark.parametrize(
    ("reports", "is_stopped", "epoch"),
    [(("m-1",), True, 1), (("m-1",), True, 2), (("m-1", "a"), False, 1), (None, False, 1)],
)
async def test_a_model_all_of_whose_answers_in_a_batch_another_one_gave_gets_no_further_one(
    scene_of: SceneOf, monkeypatch: pytest.MonkeyPatch, reports: tuple[str, ...] | None, is_stopped: bool, epoch: int
) -> None:
    """It is said if the cause may have been repaired since the batch was sent."""
    monkeypatch.setattr(poll, "MIN_ALIKE", 2)
    answers = [Line(key, completion({"prompt_tokens": 3, "completion_tokens": 1})) for key in KEYS]
    scene = scene_of(Scripted(statuses=[status()], lines=[*answers]), epoch=epoch)
    monkeypatch.setitem(scene.components.models, "m", ENTRY.model_copy(update={"reports": reports}))
    await scene.at(0.0)
    stop = scene.components.counters.stops.get("m", "")
    assert bool(stop) == is_stopped == ("all 2 answers of a batch were answered by a, asked" in stop)
    assert is_stopped == ("`reports`" in stop and "`accept_substitutes: true`" in stop)
    assert ("was sent before this start" in stop) == (is_stopped and epoch == 1)
    assert scene.harvested.replies == 2 and scene.harvested.refusal is None


async def test_an_unknown_state_is_noted_once(scene_of: SceneOf) -> None:
    odd = status("in_progress", known=False)
    scene = scene_of(Scripted(statuses=[odd]))
    await scene.at(0.0)
    await scene.at(20.0)
    assert scene.components.counters.notes == ["batch acme/000001 is in an unknown state: in_progress"]
