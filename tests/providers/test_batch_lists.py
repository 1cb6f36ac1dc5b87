"""Finding batches again in a vendor's list, and whose list it is."""

from datetime import UTC, datetime
from typing import Any

import pytest

from hab_ray.errors import CallError, FailureKind, Intercepted, RateLimited, TransientError
from hab_ray.providers.base import Endpoint
from hab_ray.providers.batching import NoBatchApi, PageNotFound, SeenBatch
from hab_ray.providers.openai.batch import OpenAIBatches
from tests.providers.batch_vendor import HANG, KINDS, RESET, ROUTES, TAG, FakeVendor, Scripted, patience_s, vendor

UNORDERED = ("google", "xai")
STAMPS = [f"2026-11-21T12:00:0{n}Z" for n in range(6)]
MOMENTS = [datetime(2026, 11, 21, 12, 0, n, tzinfo=UTC) for n in range(6)]


def listed(kind: str, n: int) -> dict[str, Any]:
    """A vendor's batch number `n`, made at second `n`; the first is somebody else's and still being looked at."""
    ours = n > 0
    match kind:
        case "openai":
            counts = {"total": 7, "completed": 0, "failed": 0} if ours else {"total": 0}
            more = {"metadata": {"hab_tag": TAG} if ours else {"team": "x"}, "request_counts": counts}
            return {"id": f"b{n}", "status": "validating", "created_at": int(MOMENTS[n].timestamp()), **more}
        case "anthropic":
            counts = {"processing": 4, "succeeded": 3, "errored": 0, "canceled": 0, "expired": 0}
            return {"id": f"b{n}", "processing_status": "ended", "created_at": STAMPS[n], "request_counts": counts}
        case "google":
            mine = {"displayName": TAG, "batchStats": {"requestCount": "7"}} if ours else {}
            return {"name": f"b{n}", "metadata": {"createTime": STAMPS[n], **mine}}
        case _:
            state = {"num_requests": 7 if ours else 0, "num_pending": 0}
            return {"batch_id": f"b{n}", "name": TAG if ours else None, "create_time": STAMPS[n], "state": state}


def seen(kind: str, n: int) -> SeenBatch:
    if kind == "anthropic":
        return SeenBatch(f"b{n}", None, 7, MOMENTS[n])
    return SeenBatch(f"b{n}", TAG if n else "", 7 if n else None, MOMENTS[n])


@pytest.mark.parametrize("kept", [{}, {"metadata": None}, {"metadata": {}}], ids=["missing", "null", "empty"])
async def test_a_server_without_metadata_may_keep_no_tags(kept: dict[str, Any]) -> None:
    async with vendor("openai") as line:
        bare = {"id": "b1", "status": "validating", "request_counts": {"total": 7}, **kept}
        line.says(line.at.list, Scripted({"data": [bare], "has_more": False}))
        assert await line.api.since(None) == [SeenBatch("b1", None, 7, None)]


@pytest.mark.parametrize("total", [7, "7", 7.0])
@pytest.mark.parametrize(("created", "read"), [(1764000000, True), ("1764000000", True), (1764e9, False), ({}, False)])
async def test_counts_and_times_may_be_texts_and_times_of_no_use(total: object, created: object, read: bool) -> None:
    """Without its number of rows, an untagged batch would not be found and its rows sent again."""
    async with vendor("openai") as line:
        bare = {"id": "b1", "status": "validating", "request_counts": {"total": total}, "created_at": created}
        line.says(line.at.list, Scripted({"data": [bare], "has_more": False}))
        (found,) = await line.api.since(None)
    moment = datetime(2025, 11, 24, 16, tzinfo=UTC) if read else None
    assert found == SeenBatch("b1", None, 7, moment) and type(found.rows) is int


@pytest.mark.parametrize("kind", ["anthropic", "google", "xai"])
async def test_a_time_that_is_no_text_does_not_hide_its_batch(kind: str) -> None:
    field = {"anthropic": "created_at", "google": "createTime", "xai": "create_time"}[kind]
    batch = listed(kind, 1)
    (batch["metadata"] if kind == "google" else batch)[field] = 1764000000
    name = {"google": "operations", "xai": "batches"}.get(kind, "data")
    async with vendor(kind) as line:
        line.says(line.at.list, Scripted({name: [batch, listed(kind, 0)]}))
        assert [(found.id, found.created) for found in await line.api.since("b0")] == [("b1", None)]


@pytest.mark.parametrize("url", ["https://api.openai.com/v1/", "https://eu.api.openai.com/v1"])
@pytest.mark.parametrize("kept", [{"metadata": None}, {"metadata": {}}], ids=["null", "empty"])
async def test_a_batch_without_metadata_at_openai_itself_is_somebody_elses(kept: dict[str, Any], url: str) -> None:
    """Taken for one whose create request got no answer, it would keep the rows waiting for a day."""
    account = OpenAIBatches(Endpoint("p", "openai", url, "a-key", 1.0))
    found = account.seen({"id": "b1", "status": "validating", "request_counts": {"total": 7}, **kept})
    await account.close()
    assert found == SeenBatch("b1", "", 7, None)


def page(kind: str, numbers: list[int], more: bool) -> Scripted:
    batches = [listed(kind, n) for n in numbers]
    if kind == "google":
        return Scripted({"operations": batches} | ({"nextPageToken": f"t/{numbers[-1]}+"} if more else {}))
    if kind == "xai":
        last = numbers[-1] if numbers else ""
        return Scripted({"batches": batches, "pagination_token": f"t/{last}+" if more else None})
    return Scripted({"data": batches, "has_more": more, "first_id": "?", "last_id": "?"})


def continued(line: FakeVendor, kind: str) -> list[str]:
    names = {"openai": "after", "anthropic": "after_id", "google": "pageToken"}
    return [got.query.get(names.get(kind, "pagination_token"), "") for got in line.sent(ROUTES[kind].list)]


@pytest.mark.parametrize("kind", KINDS)
async def test_all_pages_are_read(kind: str) -> None:
    async with vendor(kind) as line:
        line.says(line.at.list, page(kind, [5, 4], True), page(kind, [3, 2], True), page(kind, [1, 0], False))
        assert await line.api.since(None) == [seen(kind, n) for n in (5, 4, 3, 2, 1, 0)]
    assert continued(line, kind) == (["", "t/4+", "t/2+"] if kind in UNORDERED else ["", "b4", "b2"])


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_reading_ends_at_the_newest_one_known(kind: str) -> None:
    async with vendor(kind) as line:
        line.says(line.at.list, page(kind, [5, 4], True), page(kind, [3, 2], True), page(kind, [1, 0], False))
        assert await line.api.since("b2") == [seen(kind, n) for n in (5, 4, 3)]
    assert len(line.got) == 2


@pytest.mark.parametrize("kind", UNORDERED)
async def test_a_list_may_be_in_any_order(kind: str) -> None:
    async with vendor(kind) as line:
        line.says(line.at.list, page(kind, [1, 5, 2], True), page(kind, [0, 4, 3], False))
        assert await line.api.since("b2") == [seen(kind, n) for n in (5, 4, 3)]


@pytest.mark.parametrize("kind", KINDS)
async def test_an_id_that_is_not_listed_any_more_ends_nothing(kind: str) -> None:
    async with vendor(kind) as line:
        line.says(line.at.list, page(kind, [3, 2], True), page(kind, [1], False))
        assert [batch.id for batch in await line.api.since("gone")] == ["b3", "b2", "b1"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("token", ["t/2+", "t/3+"], ids=["the same token", "another token"])
async def test_a_server_that_sends_the_same_page_for_ever_is_left(kind: str, token: str) -> None:
    """As a gateway does that drops the query: Gemini's tokens differ each time."""
    again = page(kind, [3, 2], True)
    again.body.update({name: token for name in ("nextPageToken", "pagination_token") if name in again.body})
    async with vendor(kind) as line:
        line.says(line.at.list, page(kind, [3, 2], True), again, page(kind, [1], False))
        assert {batch.id for batch in await line.api.since(None)} == {"b3", "b2"}
    assert len(line.got) == 2


@pytest.mark.parametrize("kind", KINDS)
async def test_the_newest_of_some_and_of_none(kind: str) -> None:
    async with vendor(kind) as line:
        line.says(line.at.list, page(kind, [5], True))
        assert await line.api.newest() == "b5"
        line.says(line.at.list, {"operations": []} if kind == "google" else page(kind, [], False))
        assert await line.api.newest() is None
        assert await line.api.since("b5") == []
        line.says(line.at.list, {} if kind == "google" else page(kind, [], True))
        assert await line.api.since(None) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "answer", [RESET, HANG, Scripted({}, 503), Scripted("<html>"), Scripted({"data": 1, "operations": 1, "batches": 1})]
)
async def test_a_list_that_cannot_be_read_is_an_error(kind: str, answer: Scripted) -> None:
    async with vendor(kind, patience_s(answer)) as line:
        line.says(line.at.list, page(kind, [3], True), answer)
        with pytest.raises(TransientError):
            await line.api.since(None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"error": {"message": "slow", "code": 429, "status": "RESOURCE_EXHAUSTED"}}, RateLimited),
        ({"message": "Internal server error"}, TransientError),
        ({"result": None, "success": False}, TransientError),
    ],
)
async def test_an_error_with_200_is_no_empty_list(kind: str, told: dict[str, Any], expected: type[CallError]) -> None:
    """A batch in doubt that is not in the list is created, and paid for, again."""
    async with vendor(kind) as line:
        line.says(line.at.list, Scripted(told))
        with pytest.raises(expected):
            await line.api.newest()
        with pytest.raises(expected):
            await line.api.since(None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["<html><h1>Not Found</h1>", "default backend - 404", "404 page\nnot found", ""])
async def test_a_list_that_is_not_found_in_plain_text_says_nothing_of_the_vendor(kind: str, text: str) -> None:
    """An ingress whose servers restart sends it too; FastAPI, which serves most compatible APIs, sends JSON."""
    async with vendor(kind) as line:
        line.says(line.at.list, Scripted(text, 404))
        with pytest.raises(PageNotFound, match="proxy or gateway") as caught:
            await line.api.newest()
        assert isinstance(caught.value, Intercepted) and " ".join(text.split()) in str(caught.value)
        line.says(line.at.list, Scripted({"detail": "Not Found"}, 404))
        with pytest.raises(NoBatchApi):
            await line.api.newest()


async def test_a_key_that_may_not_list_batches_has_none() -> None:
    """Its model may be asked online all the same."""
    async with vendor("openai") as line:
        line.says(line.at.list, Scripted({"error": {"message": "Batches are not enabled"}}, 403))
        with pytest.raises(NoBatchApi, match="Batches are not enabled: the endpoint has no batch API"):
            await line.api.newest()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_refused_list_is_classified(kind: str) -> None:
    async with vendor(kind) as line:
        line.says(line.at.list, Scripted({"error": {"message": "slow"}}, 429))
        with pytest.raises(RateLimited):
            await line.api.newest()
        line.says(line.at.list, Scripted({"error": {"message": "who?"}}, 401))
        with pytest.raises(CallError) as caught:
            await line.api.newest()
        assert caught.value.kind is FailureKind.BAD_KEY


@pytest.mark.parametrize(
    ("kind", "headers", "owner", "asked"),
    [
        ("openai", {"openai-organization": "org", "openai-project": "proj_1"}, "org/proj_1", 1),
        ("openai", {"openai-organization": "org"}, "org", 1),
        ("openai", {}, "", 1),
        ("anthropic", {"anthropic-organization-id": "org-7"}, "org-7", 1),
        ("anthropic", {"anthropic-organization-id": "org-7", "anthropic-workspace-id": "wrk-1"}, "org-7/wrk-1", 1),
        ("anthropic", {}, "", 1),
        ("google", {}, "", 0),
        ("xai", {}, "", 0),
    ],
)
async def test_the_owner_is_asked_for_once(kind: str, headers: dict[str, str], owner: str, asked: int) -> None:
    async with vendor(kind) as line:
        line.says(line.at.list, Scripted({"data": [], "has_more": False}, headers=headers))
        assert [await line.api.owner() for _ in range(3)] == [owner] * 3
    assert len(line.got) == asked
