"""Result lines of a batch: stored outcomes, rows left open, and lost money."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hab_ray.calls import Failure, Finish, Reply
from hab_ray.catalog.prices import Mode, Price
from hab_ray.engine.batch.collect import Collector, Results, ResultsLate, SomeResultsLate
from hab_ray.engine.jobs import Counters, billing_notes
from hab_ray.engine.ledger import Batch
from hab_ray.errors import FailureKind, ModelError, RowError, TransientError
from hab_ray.providers import connect
from hab_ray.providers.base import Endpoint
from hab_ray.providers.batching import BatchApi, BatchStatus, Line
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.replies.store import StoreWriter
from tests.engine.batch.fakes import Vendor, intent, submitted
from tests.engine.bench import completion, stored
from tests.providers.batch_vendor import sent_results, vendor

KEYS = [f"{n:064x}" for n in range(4)]
NOW = datetime(2026, 11, 21, tzinfo=UTC)
COMPLETED = BatchStatus("b", "completed", ended=True)


BUSY = TransientError(FailureKind.MALFORMED, "busy")
ANSWER = completion({"prompt_tokens": 1, "completion_tokens": 1})
ABORTED = {**ANSWER, "choices": [{**ANSWER["choices"][0], "finish_reason": "abort"}]}


async def collected(
    folder: Path,
    vendor: Sequence[Line] | BatchApi,
    price: Price,
    keys: Sequence[str] = KEYS,
    *,
    kind: str = "openai",
    nanousd: int = 4_000,
    most: int | None = None,
    results: Results | None = None,
    status: BatchStatus = COMPLETED,
    counters: Counters | None = None,
    certain: bool = True,
    embeds: bool = False,
) -> Results:
    """Collect a batch of these keys twice, from a vendor or from these lines."""
    api = Vendor(lines=[*vendor]) if isinstance(vendor, Sequence) else vendor
    provider = connect(Endpoint("acme", kind, "http://localhost:1", "a-key", 1.0))
    writer = StoreWriter(LocalFolder(folder), 1, "w", Mode.ONLINE)
    collector = Collector(provider, api, writer, lambda: NOW, (counters or Counters()).traffic)
    of = {"model": "m", "rows": len(keys), "nanousd": nanousd, "bytes": 900, "most_nanousd": most, "embeds": embeds}
    record = Batch("acme", 1, (intent("tag").model_copy(update=of), submitted(certain)))
    results = results or Results()
    for _ in range(2):
        await collector.collect(results, record, price, dict.fromkeys(keys, "0" * 64), status)
    await provider.close()
    return results


async def test_an_answer_that_cannot_be_read_is_booked_and_asked_again_only_on_demand(tmp_path: Path) -> None:
    lines = [
        Line(KEYS[0], ANSWER),
        Line(KEYS[1], {"choices": []}),
        Line(KEYS[2], None, TransientError(FailureKind.SERVER, "overloaded")),
        Line("f" * 64, ANSWER),
    ]
    results = await collected(tmp_path, lines, Price(input=10, cached=10, cache_written=10, output=10))
    assert (results.failures, results.withheld, results.lost_nanousd) == (1, 1, 0)
    assert results.answered == set(KEYS[:2]) and results.event(4, 1, NOW).unanswered == 2
    kept = stored(tmp_path, "m")
    failure = kept[KEYS[1]]
    assert set(kept) == set(KEYS[:2]) and isinstance(failure, Failure) and failure.cost_nanousd == 1_000
    assert "cannot be read" in failure.message and "--retry-failed" in failure.message


async def test_an_answer_that_the_server_aborted_counts_as_lost_and_its_row_is_sent_again(tmp_path: Path) -> None:
    lines = [Line(KEYS[0], ANSWER), Line(KEYS[1], ABORTED), Line(KEYS[2], ABORTED), Line(KEYS[2], ANSWER)]
    results = await collected(tmp_path, lines, Price(1, 1, 1, 1))
    assert (results.failures, results.lost_nanousd, results.unread) == (0, 1_000, {})
    assert results.answered == {KEYS[0], KEYS[2]}


async def test_batches_of_which_no_answer_can_be_used_cost_no_more_than_was_reserved(tmp_path: Path) -> None:
    """A sampled reservation is a fraction of the most, and a hard budget has no room for more."""
    lines = [Line(key, ABORTED) for key in KEYS[:3]] + [Line(KEYS[3], {"text": "Yes."})]
    results = await collected(tmp_path, lines, Price(1, 1, 1, 1), nanousd=4_000, most=100_000)
    assert (results.lost_nanousd, results.nanousd, results.failures) == (3_000, 1_000, 1)


@pytest.mark.parametrize(
    ("done", "failed", "booked"),
    [(0, 0, 2), (1, 2, 0), (2, 1, 1), (3, 0, 2), (4, 0, 2)],
    ids=["no counts", "failed", "one counted", "both counted", "all counted"],
)
async def test_lines_without_an_answer_or_error_are_booked_as_far_as_the_vendor_counts_them(
    tmp_path: Path, done: int, failed: int, booked: int
) -> None:
    """As of a gateway that names the fields of a line otherwise: each run would pay for the batch again."""
    lines = [Line(KEYS[0], ANSWER), Line(KEYS[1], error=BUSY), Line(KEYS[2], error=BUSY)]
    lines.append(Line(KEYS[3], error=TransientError(FailureKind.SERVER, "overloaded")))
    results = await collected(tmp_path, lines, Price(1, 1, 1, 1), status=replace(COMPLETED, done=done, failed=failed))
    assert (results.failures, results.nanousd, results.lost_nanousd) == (booked, booked * 1_000, 0)
    assert KEYS[3] not in results.answered and results.stop is None


async def test_a_model_of_which_no_answer_can_be_read_gets_no_further_batch(tmp_path: Path) -> None:
    keys = [f"{n:064x}" for n in range(10)]
    lines = [Line(key, {"text": "Yes."}) for key in keys]
    results = await collected(tmp_path, lines, Price(1, 1, 1, 1), keys, status=replace(COMPLETED, done=10))
    assert isinstance(results.stop, ModelError) and "no answer in a batch of 10 rows can be read" in str(results.stop)
    assert (results.failures, results.nanousd) == (10, 4_000)


async def test_a_model_whose_answers_are_all_aborted_gets_no_further_batch(tmp_path: Path) -> None:
    """Each round, and each run, would pay for all of them again."""
    keys = [f"{n:064x}" for n in range(10)]
    lines = [Line(key, ABORTED) for key in keys]
    results = await collected(tmp_path, lines, Price(1, 1, 1, 1), keys)
    assert isinstance(results.stop, ModelError) and "finish_reason abort" in str(results.stop)
    assert (results.answered, results.lost_nanousd) == (set(), 4_000)
    mixed = await collected(tmp_path / "mixed", [*lines[1:], Line(keys[0], ANSWER)], Price(1, 1, 1, 1), keys)
    assert mixed.stop is None


async def test_texts_that_are_too_long_stop_no_model(tmp_path: Path) -> None:
    keys = [f"{n:064x}" for n in range(10)]
    lines = [Line(key, error=RowError(FailureKind.TOO_LONG, "too long")) for key in keys]
    results = await collected(tmp_path, lines, Price(1, 1, 1, 1), keys)
    assert (results.stop, results.failures, results.nanousd) == (None, 10, 0)
    assert {one.kind for one in stored(tmp_path, "m").values() if isinstance(one, Failure)} == {FailureKind.TOO_LONG}


async def test_results_of_other_requests_in_place_of_a_batchs_are_named_and_stop_its_model(tmp_path: Path) -> None:
    """As of a gateway that changes the ids: each round would be paid for, and lost."""
    keys = [f"{n:064x}" for n in range(10)]
    lines = [Line(f"req-{key}", ANSWER) for key in keys]
    late = replace(COMPLETED, lacks_results=True, done=10)
    results = await collected(tmp_path, lines, Price(1, 1, 1, 1), keys, status=late)
    assert (results.withheld, results.nanousd) == (10, 4_000)
    assert "the ids of other requests, the first req-000" in str(results.stop)
    assert all("the first req-000" in one.message for one in stored(tmp_path, "m").values() if isinstance(one, Failure))


@pytest.mark.parametrize("done", [0, 4])
async def test_a_page_instead_of_results_is_not_taken_for_a_batch_without_answers(tmp_path: Path, done: int) -> None:
    """Its rows would be paid for again, and its results deleted at the vendor."""
    page = [Line("", error=TransientError(FailureKind.MALFORMED, "<html>"))] * 2
    with pytest.raises(ResultsLate):
        await collected(tmp_path, page, Price(1, 1, 1, 1), status=replace(COMPLETED, done=done))
    late = replace(COMPLETED, lacks_results=True, done=done)
    results = await collected(tmp_path, page, Price(1, 1, 1, 1), status=late)
    assert (results.failures, results.nanousd, results.lost_nanousd) == (4, 4_000, 0)


@pytest.mark.parametrize(("nameless", "lost"), [(1, 1_000), (2, 2_000), (9, 2_000)])
async def test_a_line_that_names_no_row_may_have_cost_what_one_without_a_line_can(
    tmp_path: Path, nameless: int, lost: int
) -> None:
    lines = [Line(KEYS[0], ANSWER), Line(KEYS[1], ANSWER), *[Line("", ANSWER)] * nameless]
    results = await collected(tmp_path, lines, Price(1, 1, 1, 1), status=replace(COMPLETED, done=2))
    assert results.lost_nanousd == lost and results.answered == set(KEYS[:2])


@pytest.mark.parametrize(
    "first",
    [
        Line(KEYS[0], error=BUSY),
        Line(KEYS[0], error=RowError(FailureKind.BAD_REQUEST, "bad")),
        Line(KEYS[0], error=RowError(FailureKind.TOO_LONG, "too long")),
        Line(KEYS[0], {}),
    ],
    ids=["transient", "refused", "too long", "unreadable"],
)
async def test_an_answer_after_an_error_of_the_same_row_is_kept(tmp_path: Path, first: Line) -> None:
    """It is billed; the row would be sent and paid for again, or have failed for good."""
    lines = [first, Line(KEYS[0], ANSWER), Line(KEYS[0], error=BUSY), Line(KEYS[0], completion({}, "No."))]
    results = await collected(tmp_path, lines, Price(1, 1, 1, 1), KEYS[:1])
    (kept,) = stored(tmp_path, "m").values()
    assert isinstance(kept, Reply) and kept.text == "Yes."
    assert (results.answered, results.replies, results.failures) == ({KEYS[0]}, 1, 0)


async def test_answers_that_name_other_rows_are_not_taken_for_those_of_a_batch_that_is_ours(tmp_path: Path) -> None:
    """As of a vendor that changes the ids: each round would pay for all rows again and book nothing."""
    lines = [Line(f"{n:064X}".replace("0", "F"), ANSWER) for n in range(4)]
    counted = replace(COMPLETED, done=4)
    with pytest.raises(ResultsLate):
        await collected(tmp_path, lines, Price(1, 1, 1, 1), status=counted)
    foreign = await collected(tmp_path, lines, Price(1, 1, 1, 1), status=counted, certain=False)
    assert (foreign.unknown_ids, foreign.answered, foreign.lost_nanousd) == (4, set(), 0)


@pytest.mark.parametrize(("done", "lost"), [(1, 0), (2, 1_000), (99, 2_000)])
async def test_answers_that_a_vendor_counts_and_does_not_show_may_have_been_billed(
    tmp_path: Path, done: int, lost: int
) -> None:
    lines = [Line(KEYS[0], ANSWER), Line(KEYS[1], error=BUSY)]
    counted = replace(COMPLETED, done=done, lacks_some=lost > 0)
    results = await collected(tmp_path, lines, Price(1, 1, 1, 1), status=counted)
    assert results.lost_nanousd == lost
    if lost:
        with pytest.raises(SomeResultsLate):
            await collected(tmp_path / "late", lines, Price(1, 1, 1, 1), status=replace(counted, lacks_some=False))


@pytest.mark.parametrize(("done", "failed"), [(3, 1), (0, 0)], ids=["counted", "not counted"])
async def test_a_page_or_half_a_line_instead_of_further_results_is_asked_for_again(
    tmp_path: Path, done: int, failed: int
) -> None:
    """Some gateways do not count. The other rows would be paid for again, and their results deleted at the vendor."""
    lines = [Line("", error=TransientError(FailureKind.MALFORMED, "<html>")), Line(KEYS[3], error=BUSY)]
    with pytest.raises(ResultsLate):
        await collected(tmp_path, lines, Price(1, 1, 1, 1), status=replace(COMPLETED, done=done, failed=failed))


async def test_lines_about_a_batch_that_the_vendor_refused_are_no_results_and_cost_nothing(tmp_path: Path) -> None:
    refused = replace(COMPLETED, word="failed", problem=ModelError(FailureKind.BAD_REQUEST, "no such model"))
    results = await collected(tmp_path, [Line("", error=BUSY)], Price(1, 1, 1, 1), status=refused)
    assert (results.lost_nanousd, results.answered) == (0, set())


async def test_an_answer_that_azure_filtered_is_a_refusal_by_batch_too(tmp_path: Path) -> None:
    """It has no message but is billed: retried, it would be paid for in every run."""
    filters = {"content_filter_results": {"violence": {"filtered": True, "severity": "medium"}}}
    body = {**ANSWER, "choices": [{"index": 0, "finish_reason": "content_filter", "logprobs": None, **filters}]}
    record = {"custom_id": KEYS[0], "response": {"status_code": 200, "request_id": "r", "body": body}, "error": None}
    price = Price(input=10**9, cached=0, cache_written=0, output=10**9)
    async with vendor("openai") as line:
        line.says(line.at.one, line.at.ended)
        line.says(line.at.results, sent_results("openai", record))
        status = await line.poll()
        results = await collected(tmp_path, line.api, price, KEYS[:1], status=status)
    assert (results.replies, results.failures, results.lost_nanousd) == (1, 0, 0) and results.answered == {KEYS[0]}
    (kept,) = stored(tmp_path, "m").values()
    assert isinstance(kept, Reply) and (kept.finish, kept.usage.input) == (Finish.REFUSED, 1)
    assert kept.cost_nanousd == 2_000


async def refused_alike(tmp_path: Path, *others: Line) -> tuple[Results, int]:
    """Collect a batch of twelve requests refused alike, and other lines; return the results and the stored count."""
    keys = [f"{n:064x}" for n in range(12 + len(others))]
    refused = RowError(FailureKind.BAD_REQUEST, "verbosity: unknown level")
    lines = [Line(key, None, refused) for key in keys[:12]] + [
        replace(o, custom_id=k) for o, k in zip(others, keys[12:], strict=True)
    ]
    return await collected(tmp_path, lines, Price(1, 1, 1, 1), keys), len(stored(tmp_path, "m"))


async def test_a_setting_that_every_request_is_refused_for_stops_the_model_and_ends_no_row(tmp_path: Path) -> None:
    results, count = await refused_alike(tmp_path)
    assert isinstance(results.stop, ModelError) and "all 12 requests" in str(results.stop)
    assert "verbosity: unknown level" in str(results.stop) and "catalogue entry" in str(results.stop)
    assert (count, results.failures, results.answered) == (0, 0, set())


async def test_requests_that_are_refused_beside_an_answer_are_at_fault_themselves(tmp_path: Path) -> None:
    results, count = await refused_alike(tmp_path, Line("", ANSWER))
    assert results.stop is None and (count, results.failures, results.replies) == (13, 12, 1)


@pytest.mark.parametrize(
    ("reserved", "most", "booked"),
    [(4_001, None, 4_001), (300, 4_001, 300), (10, 4_001, 4_001)],
    ids=["hard", "sampled", "sampled and exceeded"],
)
async def test_rows_without_results_are_booked_at_all_that_is_left_of_the_reservation(
    tmp_path: Path, reserved: int, most: int | None, booked: int
) -> None:
    """The three may have been the dear ones: a quarter each of the bound could be less than their bill."""
    late = replace(COMPLETED, lacks_results=True, done=4)
    price = Price(10_000_000, 10_000_000, 10_000_000, 10_000_000)
    results = await collected(tmp_path, [Line(KEYS[0], ANSWER)], price, nanousd=reserved, most=most, status=late)
    kept = stored(tmp_path, "m")
    assert (results.replies, results.failures) == (1, 3) and kept[KEYS[0]].cost_nanousd == 20
    assert sum(outcome.cost_nanousd for outcome in kept.values()) == results.nanousd == booked


async def test_an_aborted_answer_beside_rows_without_results_is_booked_once(tmp_path: Path) -> None:
    late = replace(COMPLETED, lacks_results=True, done=4)
    results = await collected(tmp_path, [Line(KEYS[0], ABORTED)], Price(1, 1, 1, 1), status=late)
    assert (results.lost_nanousd, results.nanousd, results.withheld) == (1_000, 3_000, 3)


async def test_the_rest_of_the_reservation_is_booked_once_though_a_process_ended_meanwhile(tmp_path: Path) -> None:
    late = replace(COMPLETED, lacks_results=True, done=4)
    results = Results(answered=set(KEYS[:2]), failures=2, nanousd=2_000)
    assert (await collected(tmp_path, [], Price(1, 1, 1, 1), status=late, results=results)).nanousd == 4_000
    assert {outcome.cost_nanousd for outcome in stored(tmp_path, "m").values()} == {1_000}


async def test_an_impossible_count_in_a_batch_is_one_rows_failure_at_its_share(tmp_path: Path) -> None:
    lines = [
        Line(KEYS[0], completion({"prompt_tokens": 1, "completion_tokens": 1})),
        Line(KEYS[1], completion({"prompt_tokens": 1, "completion_tokens": -(10**9)})),
        Line(KEYS[2], completion({"prompt_tokens": 1, "completion_tokens": 1, "cost_in_usd_ticks": 70})),
        Line(KEYS[3], completion({"prompt_tokens": 1, "completion_tokens": 10**30})),
    ]
    counters = Counters()
    price = Price.usd(input=1.0, output=2.0)
    results = await collected(tmp_path, lines, price, kind="xai", nanousd=4_000_000, counters=counters)
    found = stored(tmp_path, "m")
    assert [found[key].cost_nanousd for key in KEYS] == [3_000, 1_000_000, 7, 1_000_000]
    assert (results.replies, results.failures, results.lost_nanousd) == (2, 2, 0)
    assert results.nanousd == 2_003_007 and results.answered == set(KEYS)
    (note,) = billing_notes([counters])
    assert note.startswith("m: the vendor states $7e-09 for 1 calls, our prices give $3e-06;")


async def test_a_vector_of_no_use_is_booked_at_its_share(tmp_path: Path) -> None:
    """The vendor bills it like any other."""
    data = [{"index": 0, "embedding": [1.0, float("nan")]}]
    lines = [Line(KEYS[0], {"model": "a", "data": data, "usage": {"prompt_tokens": 1}})]
    results = await collected(tmp_path, lines, Price(1, 1, 1, 1), KEYS[:1], embeds=True)
    (kept,) = stored(tmp_path, "m").values()
    assert isinstance(kept, Failure) and kept.kind is FailureKind.MALFORMED
    assert kept.cost_nanousd == results.nanousd == 4_000
