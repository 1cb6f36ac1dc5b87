"""The limit of a vendor's queue: as configured, lower after a refusal, slowly rising again."""

from hab_ray.catalog.models import Limits, ModelEntry
from hab_ray.engine.batch.enqueued import MIN_TOKENS, EnqueuedTokenLimits
from hab_ray.errors import RateLimited
from hab_ray.providers.batching import QueueFull
from tests.storage.conftest import Clock

FULL = RateLimited("token_limit_exceeded", None)


def queues(enqueued_tokens: int | None = None) -> tuple[EnqueuedTokenLimits, Clock]:
    clock = Clock(0.0)
    entry = ModelEntry(provider="p", wire="m", limits=Limits(enqueued_tokens=enqueued_tokens))
    return EnqueuedTokenLimits({"m": entry}, 300.0, clock), clock


def test_what_the_account_is_told_to_have_is_kept_to_but_one_batch_alone_may_always_be_tried() -> None:
    q, _ = queues(1000)
    assert q.limit("m") == 1000 and q.has_room("m", 400, 600)
    assert not q.has_room("m", 400, 601) and q.has_room("m", 0, 5000)


def test_a_refused_batch_waits_for_those_that_were_taken_and_then_goes_as_small() -> None:
    q, clock = queues()
    q.note_overflow("m", 3000, 4000, FULL)
    assert q.limit("m") == 3000 and not q.has_room("m", 0, 100)
    clock.now = 300.0
    assert q.has_room("m", 0, 100)


def test_the_end_of_a_batch_lets_the_next_go_at_once() -> None:
    q, _ = queues()
    q.pause("m", RateLimited("too many", 60))
    assert not q.has_room("m", 0, 1)
    q.note_end("m")
    assert q.has_room("m", 0, 1)


def test_a_batch_too_large_for_an_empty_queue_is_halved_at_once_until_there_is_little_left() -> None:
    q, _ = queues()
    q.note_overflow("m", 0, 1600, FULL)
    assert q.limit("m") == 800 and q.has_room("m", 0, 800)
    q.note_overflow("m", 0, 400, FULL)
    assert q.limit("m") == MIN_TOKENS and not q.has_room("m", 0, 400)


def test_what_the_vendor_states_is_learnt_at_once_and_below_half_of_it_others_fill_the_queue() -> None:
    q, clock = queues()
    full = QueueFull("token_limit_exceeded", 90_000)
    assert q.note_overflow("m", 0, 2_000_000, full) is None and q.limit("m") == 90_000
    assert q.note_overflow("m", 0, 90_000, full) is None and q.limit("m") == 45_000
    assert q.has_room("m", 0, 45_000)
    for clock.now, refusal in ((60.0, (True, False)), (420.0, (False, False)), (780.0, (False, True))):
        assert q.note_overflow("m", 0, 45_000, full) == refusal
        assert q.limit("m") == 45_000 and not q.has_room("m", 0, 45_000)


def test_a_size_that_was_processed_before_is_not_halved_but_waited_for() -> None:
    q, clock = queues()
    q.note_success("m", 1000)
    assert q.note_overflow("m", 0, 1600, FULL) is None and q.limit("m") == 1000
    assert q.note_overflow("m", 0, 1000, FULL) == (True, False)
    clock.now = 800.0
    q.note_success("m", 300)
    assert q.note_overflow("m", 0, 1000, FULL) == (True, False) and q.limit("m") == 1000


def test_a_row_that_alone_is_too_much_is_not_sent_again_without_a_pause() -> None:
    q, _ = queues()
    assert q.note_overflow("m", 0, 4000, FULL) is None and q.limit("m") == 2000
    assert q.note_overflow("m", 0, 3000, FULL) == (True, False) and not q.has_room("m", 0, 3000)


def test_what_was_learnt_grows_slowly_with_every_batch_and_never_above_what_was_told() -> None:
    q, _ = queues(1100)
    q.note_overflow("m", 0, 2000, FULL)
    q.note_success("m", 400)
    assert q.limit("m") == 1100
    q.note_success("m", 400)
    assert q.limit("m") == 1100


def test_a_wait_that_is_over_already_is_none() -> None:
    """Else a full queue would be sent the same batch again, with its file, as fast as it refuses."""
    q, _ = queues()
    q.pause("m", RateLimited("too many", 0.0))
    assert not q.has_room("m", 0, 1)
