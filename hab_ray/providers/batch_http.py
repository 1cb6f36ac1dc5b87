"""HTTP that batch APIs share: what an error status means for a verb, and reading a vendor's list of batches."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime

from hab_ray.errors import CallError, RowError, TransientError, Unreachable
from hab_ray.providers.base import Endpoint, JsonObject, malformed
from hab_ray.providers.batching import (
    BadRows,
    BatchJob,
    BatchRefused,
    BatchStatus,
    InDoubt,
    NoBatchApi,
    ResultsGone,
    SeenBatch,
)
from hab_ray.providers.http import StatusError, error_object

# 64 MB at a quarter of a megabit a second. The endpoint's own limit bounds each read, the vendor's silence too.
MAX_UPLOAD_S = 2400.0
PAGE = 100

_NOT_SERVED = {404, 405, 501}
_NO_SUCH_VERB = {405, 501}
# xAI: "Model m is not supported for batch processing". OpenAI: "The provided model 'm' is not supported by the Batch
# API" (under the code model_not_found). Gemini: "models/m is not found ..., or is not supported for
# batchGenerateContent".
_NOT_BY_BATCH = re.compile(
    r"not (supported|available|enabled|allowed) (for|by|in|with|on|via)( the| use in)? ?(async)?batch"
    r"|(does not|doesn't|cannot) (support|be used with|be used in)( the)? batch",
    re.I,
)
_ROW = re.compile(r"\brequests?[.\[](\d+)")
_GONE = {404, 410}
_UNCLEAR = {408, 409, 499}
_HAS_ENDED = {400, 409}
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def meant_for_batches(error: CallError) -> CallError:
    """The same error, or BatchRefused where the vendor's words say that only the way by batch is closed.

    Vendors put these words under codes that mean an unknown model or a bad request elsewhere.
    """
    if not isinstance(error, TransientError) and _NOT_BY_BATCH.search(str(error)):
        return BatchRefused(str(error))
    return error


@contextmanager
def asking() -> Iterator[None]:
    """Around a request for no batch in particular: a list, an upload."""
    try:
        yield
    except StatusError as refused:
        if refused.status in _NOT_SERVED:
            raise _no_batch_api(refused) from None
        raise _of_the_batch(refused.error) from None


@contextmanager
def asking_for(name: str) -> Iterator[None]:
    """Around a request for one batch or file."""
    try:
        yield
    except StatusError as refused:
        if refused.status in _GONE:
            raise ResultsGone(f"{name}: the vendor no longer has it ({refused.error})") from None
        raise refused.error from None


@contextmanager
def creating(job: BatchJob) -> Iterator[None]:
    """Around the one request that makes a batch: only a clear refusal or no connection at all means that none is."""
    job.before_create()
    try:
        yield
    except StatusError as refused:
        if refused.status in _NO_SUCH_VERB:
            raise _no_batch_api(refused) from None
        if refused.status >= 500 or refused.status in _UNCLEAR:
            raise InDoubt(refused.error.kind, str(refused.error)) from None
        raise meant_for_batches(refused.error) from None
    except Unreachable:
        raise
    except TransientError as error:
        raise InDoubt(error.kind, str(error)) from None


@contextmanager
def creating_from_file(job: BatchJob) -> Iterator[None]:
    """`creating` where the vendor checks the rows later: a bad request is about the batch, not about its rows."""
    try:
        with creating(job):
            yield
    except RowError as error:
        raise BatchRefused(str(error)) from None


@contextmanager
def creating_with_rows(job: BatchJob) -> Iterator[None]:
    """`creating` where the vendor checks the rows before it answers: a bad request is about some of them."""
    try:
        with creating(job):
            yield
    except RowError as error:
        raise BadRows(str(error), _named_rows(str(error))) from None


def _no_batch_api(refused: StatusError) -> NoBatchApi:
    return NoBatchApi(f"{refused.error}: the endpoint has no batch API at this url")


def _of_the_batch(error: CallError) -> CallError:
    """A refusal of a list or file; one that is about neither account nor model is about batches."""
    error = meant_for_batches(error)
    return BatchRefused(str(error)) if isinstance(error, RowError) else error


def _named_rows(message: str) -> tuple[int, ...]:
    return tuple(sorted({int(number) for number in _ROW.findall(message)}))


@asynccontextmanager
async def made_of(file: str, delete: Callable[[str], Awaitable[None]]) -> AsyncIterator[None]:
    """Around the making of a batch of an uploaded file, which is deleted again where that was clearly refused."""
    try:
        yield
    except InDoubt:
        raise
    except CallError:
        with suppress(CallError):
            await delete(file)
        raise


@asynccontextmanager
async def ending(batch_id: str, poll: Callable[[str], Awaitable[BatchStatus]]) -> AsyncIterator[None]:
    """Around the request to end a batch; where that is refused because it has ended already, all is well."""
    with asking_for(batch_id):
        try:
            yield
        except StatusError as refused:
            if refused.status not in _HAS_ENDED or not (await poll(batch_id)).ended:
                raise


def scrubbed(endpoint: Endpoint, value: object) -> JsonObject:
    """The JSON value in the place of an error body, as an object without the key."""
    return error_object(endpoint.without_key(json.dumps(value, ensure_ascii=False)))


async def token_pages(
    page_at: Callable[[str], Awaitable[JsonObject]], token_field: str
) -> AsyncGenerator[JsonObject, None]:
    """A list whose pages name the token of the next one, page by page; the first has an empty token.

    A server that ignores tokens would send the same page for ever, so a token seen before ends it.
    """
    token = ""
    had = {token}
    while True:
        page = await page_at(token)
        yield page
        token = str(page.get(token_field) or "")
        if token in had:
            return
        had.add(token)


def made_since(listed: Iterable[SeenBatch], newest: str | None) -> list[SeenBatch]:
    """A whole list in no order as one that is newest first, from above `newest` on where it is in the list."""
    found = sorted(listed, key=_made, reverse=True)
    known = next((batch for batch in found if batch.id == newest), None)
    if known is None:
        return found
    return [batch for batch in found if batch is not known and _made(batch) >= _made(known)]


def _made(batch: SeenBatch) -> datetime:
    return batch.created or _LONG_AGO


def same_owner(one: str, other: str) -> bool:
    """Whether two names of an owner may be the same one's: as far as both say, they agree."""
    return all(a == b for a, b in zip(one.split("/"), other.split("/"), strict=False) if a and b)


def text_field(body: JsonObject, name: str) -> str:
    """A field that must be there and hold text.

    Raises:
        TransientError: it is not.
    """
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise malformed(f"no {name}")
    return value
