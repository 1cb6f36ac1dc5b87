"""HTTP code that batch APIs share: the meaning of an error status per request, and reading a list of batches."""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from hab_ray.errors import CallError, FailureKind, ModelError, ProviderError, RowError, TransientError, Unreachable
from hab_ray.providers.base import Endpoint, JsonObject, malformed
from hab_ray.providers.batching import (
    BadRows,
    BatchJob,
    BatchRefused,
    BatchStatus,
    InDoubt,
    NoBatchApi,
    PageNotFound,
    ResultsGone,
    SeenBatch,
)
from hab_ray.providers.error_rules import CHECK_MODEL
from hab_ray.providers.http import StatusError, error_object

# Enough for 64 MB at a quarter of a megabit per second. The endpoint's own limit bounds each read, so silence too.
MAX_UPLOAD_S = 2400.0
PAGE = 100

_NOT_FOUND = 404
_NOT_SERVED = {_NOT_FOUND, 405, 501}
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
_GONE = {_NOT_FOUND, 410}
_UNCLEAR = {408, 409, 424, 425, 498, 499}
_HAS_ENDED = {400, 409}
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def as_batch_refusal(error: CallError) -> CallError:
    """Return BatchRefused if the message says that only batches are refused, else the error itself.

    Vendors send such messages with codes that otherwise mean an unknown model or a bad request.
    """
    if not isinstance(error, TransientError) and _NOT_BY_BATCH.search(str(error)):
        return BatchRefused(str(error))
    return error


@contextmanager
def request_errors() -> Iterator[None]:
    """Translate the errors of a request that names neither batch nor model: a list, an upload."""
    try:
        yield
    except StatusError as refused:
        _refuse_page(refused)
        if refused.status in _NOT_SERVED or isinstance(refused.error, ModelError):
            raise _no_batch_api(refused) from None
        error = as_batch_refusal(refused.error)
        raise BatchRefused(str(error)) if isinstance(error, RowError) else error from None


@contextmanager
def item_errors(name: str) -> Iterator[None]:
    """Translate the errors of a request for one batch or file."""
    try:
        yield
    except StatusError as refused:
        _refuse_page(refused)
        if refused.status in _GONE:
            raise ResultsGone(f"{name}: the vendor does not know it ({refused.error})") from None
        raise refused.error from None


@contextmanager
def download_errors(name: str) -> Iterator[None]:
    """Translate the errors of a request for the results of a batch; a redirect does not mean that the url is wrong."""
    with item_errors(name):
        try:
            yield
        except StatusError as refused:
            if not 300 <= refused.status < 400:
                raise
            raise ProviderError(
                FailureKind.BAD_REQUEST,
                f"{name}: the endpoint has the results at another address (HTTP {refused.status}), and redirects are "
                "not followed, because the key would be sent there: have whoever runs the endpoint send files of "
                "results itself. They are paid for and not lost: once it does, the same command collects them",
            ) from None


@contextmanager
def creating(job: BatchJob) -> Iterator[None]:
    """Translate the errors of the request that creates a batch.

    Only a clear refusal, or no connection at all, means that no batch exists; anything else is InDoubt.
    """
    job.before_create()
    try:
        yield
    except StatusError as refused:
        _refuse_page(refused)
        if refused.status in _NO_SUCH_VERB:
            raise _no_batch_api(refused) from None
        if refused.status >= 500 or refused.status in _UNCLEAR:
            raise InDoubt(refused.error.kind, str(refused.error)) from None
        raise as_batch_refusal(refused.error) from None
    except Unreachable:
        raise
    except TransientError as error:
        raise InDoubt(error.kind, str(error)) from None


@contextmanager
def creating_from_file(job: BatchJob) -> Iterator[None]:
    """Like `creating`, for a request that names a file only: a refusal is about batches, not about rows or model."""
    try:
        with creating(job):
            yield
    except (RowError, ModelError) as error:
        raise BatchRefused(_without_model(error)) from None


@contextmanager
def creating_with_rows(job: BatchJob) -> Iterator[None]:
    """Like `creating`, for a vendor that checks the rows before it answers: a bad request is about some of them."""
    try:
        with creating(job):
            yield
    except RowError as error:
        rows = {int(number) for number in _ROW.findall(str(error))}
        raise BadRows(str(error), tuple(sorted(rows))) from None


def _refuse_page(refused: StatusError) -> None:
    if refused.error.page is not None:
        raise PageNotFound(refused.error.page) from None


def _no_batch_api(refused: StatusError) -> NoBatchApi:
    return NoBatchApi(f"{_without_model(refused.error)}: the endpoint has no batch API at this url or for this key")


def _without_model(error: CallError) -> str:
    return str(error).removesuffix(f"; {CHECK_MODEL}")


@asynccontextmanager
async def deleting_if_refused(file: str, delete: Callable[[str], Awaitable[None]]) -> AsyncIterator[None]:
    """Delete the uploaded file if the request that creates a batch from it is clearly refused."""
    try:
        yield
    except InDoubt:
        raise
    except CallError:
        with suppress(CallError):
            await delete(file)
        raise


@asynccontextmanager
async def cancelling(batch_id: str, poll: Callable[[str], Awaitable[BatchStatus]]) -> AsyncIterator[None]:
    """Translate the errors of a request to cancel a batch; a refusal because the batch has ended is no error."""
    with item_errors(batch_id):
        try:
            yield
        except StatusError as refused:
            if refused.status not in _HAS_ENDED or not (await poll(batch_id)).ended:
                raise


def masked_error(endpoint: Endpoint, value: object) -> JsonObject:
    """Return an error in a batch's results as the JSON object of an error body, with the key masked."""
    return error_object(endpoint.without_key(json.dumps(value, ensure_ascii=False)))


async def token_pages(
    page_at: Callable[[str], Awaitable[JsonObject]], token_field: str
) -> AsyncGenerator[JsonObject, None]:
    """Yield the pages of a list in which each page holds the token of the next; the first page's token is empty.

    A repeated token or page ends the list: a server that ignores tokens sends the same page for ever, maybe with new
    tokens.
    """
    token = ""
    seen: set[str] = set()
    before: JsonObject = {}
    while token not in seen:
        seen.add(token)
        page = await page_at(token)
        content = {**page, token_field: ""}
        if content == before and any(content.values()):
            return
        yield page
        token, before = str(page.get(token_field) or ""), content


def listed(page: JsonObject, name: str, token_field: str) -> list[Any]:
    """Return the batches on a page of a list; vendors leave the field out of an empty one.

    Raises:
        TransientError: the page is something else, such as a gateway's error. Taken for an empty list, it would show
            that a batch in doubt does not exist, and the batch would be created and paid for again.
    """
    if page and name not in page and token_field not in page:
        raise malformed(f"a list of batches without {name!r}")
    return page.get(name) or []


def newer_than(seen: Iterable[SeenBatch], newest: str | None) -> list[SeenBatch]:
    """Sort a complete, unordered list of batches newest first and, if `newest` is in it, keep those made since.

    Batches of unknown times come last, and are kept.
    """

    def created(batch: SeenBatch) -> datetime:
        return batch.created or _LONG_AGO

    batches = sorted(seen, key=created, reverse=True)
    known = next((batch for batch in batches if batch.id == newest), None)
    if known is None:
        return batches
    since = created(known)
    return [batch for batch in batches if batch is not known and (batch.created is None or batch.created >= since)]


def same_owner(one: str, other: str) -> bool:
    """Whether two names of owners, such as `organisation/project`, agree in the parts that both have."""
    return all(a == b for a, b in zip(one.split("/"), other.split("/"), strict=False) if a and b)


def text_field(body: JsonObject, name: str) -> str:
    """Return a required text field; raise TransientError if the field is missing, empty or not text."""
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise malformed(f"no {name}")
    return value
