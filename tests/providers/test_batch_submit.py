"""Making a batch: what is sent, that the create request is sent once, and what each answer to it means."""

import json
import socket
from contextlib import suppress

import pytest

from hab_ray.errors import CallError, FailureKind, ModelError, ProviderError, RateLimited, TransientError, Unreachable
from hab_ray.providers import connect_batch
from hab_ray.providers.base import Endpoint
from hab_ray.providers.batching import BadRows, BatchRefused, BatchStatus, InDoubt, NoBatchApi, PageNotFound
from tests.providers.batch_vendor import HANG, KINDS, RESET, ROUTES, TAG, Scripted, job, patience_s, vendor
from tests.providers.conftest import KEY

LINES = '{"a":"x\u2028y"}\n{"b":2}\n'.encode()
UPLOADING = ("openai", "google", "xai")
MADE = {"id": "batch_1", "name": "batches/1", "new_field": 1}


async def test_openai_is_sent_a_file_and_a_batch_of_it() -> None:
    async with vendor("openai") as line:
        line.takes_uploads()
        line.says("POST /batches", MADE)
        assert await line.api.submit(job("openai", LINES)) == "batch_1"
    upload, create = line.got
    assert upload.headers["content-type"].startswith("multipart/form-data; boundary=")
    assert b'name="purpose"\r\n\r\nbatch\r\n' in upload.body
    assert f'filename="{TAG}.jsonl"'.encode() in upload.body and LINES in upload.body
    assert json.loads(create.body) == {
        "input_file_id": "in",
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
        "metadata": {"hab_tag": TAG},
    }


@pytest.mark.parametrize(("version", "sent"), [(None, "2026-10-21"), ("2023-06-01", "2023-06-01")])
async def test_anthropic_is_sent_all_requests_at_once(version: str | None, sent: str) -> None:
    async with vendor("anthropic") as line:
        line.says(line.at.create, MADE)
        assert await line.api.submit(job("anthropic", LINES, version)) == "batch_1"
    (create,) = line.got
    assert json.loads(create.body) == {"requests": [{"a": "x\u2028y"}, {"b": 2}]}
    assert create.headers["content-length"] == str(len(create.body)) and "transfer-encoding" not in create.headers
    assert create.headers["content-type"] == "application/json"
    assert create.headers["anthropic-version"] == sent


async def test_anthropics_lines_are_joined_wherever_they_are_cut() -> None:
    lines = b"".join(b'{"custom_id":"%d","params":"%s"}\n' % (n, b"y" * (n % 977)) for n in range(6000))
    async with vendor("anthropic") as line:
        line.says(line.at.create, MADE)
        await line.api.submit(job("anthropic", lines))
    requests = json.loads(line.got[0].body)["requests"]
    assert requests == [json.loads(raw) for raw in lines.splitlines()]


@pytest.mark.parametrize(("version", "sent"), [(None, "v1beta"), ("v1alpha", "v1alpha")])
async def test_gemini_is_sent_a_file_in_two_steps_and_a_batch_of_it(version: str | None, sent: str) -> None:
    async with vendor("google") as line:
        line.takes_uploads()
        line.says(f"POST /upload/{sent}/files", *line.answers[line.at.upload])
        line.says(f"POST /{sent}/models/m:batchGenerateContent", MADE)
        assert await line.api.submit(job("google", LINES, version)) == "batches/1"
    begin, upload, create = line.got
    assert begin.headers["x-goog-upload-command"] == "start"
    assert begin.headers["x-goog-upload-header-content-type"] == "application/jsonl"
    assert begin.headers["x-goog-upload-header-content-length"] == str(len(LINES))
    assert upload.headers["x-goog-upload-command"] == "upload, finalize"
    assert upload.body == LINES and "x-goog-api-key" not in upload.headers
    assert json.loads(create.body) == {"batch": {"displayName": TAG, "inputConfig": {"fileName": "files/in"}}}


@pytest.mark.parametrize(
    ("kind", "path", "route"),
    [
        ("openai", "/embeddings", "POST /batches"),
        ("google", "/models/e:batchEmbedContents", "POST /v1beta/models/e:asyncBatchEmbedContent"),
    ],
)
async def test_embeddings_have_their_own_batches(kind: str, path: str, route: str) -> None:
    async with vendor(kind) as line:
        line.takes_uploads()
        line.says(route, MADE)
        plain = job(kind)
        await line.api.submit(type(plain)(plain.tag, "e", path, None, plain.lines, plain.rows))
    if kind == "openai":
        assert json.loads(line.got[-1].body)["endpoint"] == "/v1/embeddings"


UNCLEAR = {
    "reset": (RESET, FailureKind.CONNECTION),
    "cut": (Scripted(MADE, missing_bytes=5), FailureKind.CONNECTION),
    "hang": (HANG, FailureKind.TIMEOUT),
    "500": (Scripted("<html>", 500), FailureKind.SERVER),
    "502 with a code": (Scripted({"error": {"code": "invalid_api_key", "message": "?"}}, 502), None),
    "503": (Scripted({}, 503), FailureKind.OVERLOADED),
    "529": (Scripted({}, 529), FailureKind.OVERLOADED),
    "408": (Scripted({}, 408), FailureKind.TIMEOUT),
    "409": (Scripted({}, 409), FailureKind.SERVER),
    "424": (Scripted({}, 424), FailureKind.SERVER),
    "498": (Scripted({}, 498), FailureKind.OVERLOADED),
    "no JSON": (Scripted("fine"), FailureKind.MALFORMED),
    "a page": (Scripted("<html>fine</html>"), FailureKind.SERVER),
    "no id": (Scripted({"id": "", "name": None}), FailureKind.MALFORMED),
    "an error with an id": (Scripted({"id": "req_1", "batch_id": "1", "error": {"message": "?"}}), FailureKind.SERVER),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", UNCLEAR)
async def test_an_unclear_answer_leaves_it_in_doubt_and_is_not_asked_again(kind: str, how: str) -> None:
    answer, expected = UNCLEAR[how]
    async with vendor(kind, max(1.0, patience_s(answer))) as line:
        line.takes_uploads()
        line.says(line.at.create, answer)
        with pytest.raises(InDoubt) as caught:
            await line.api.submit(job(kind))
        assert len(line.sent(line.at.create)) == 1
        assert not any(got.route.startswith("DELETE") for got in line.got)
    assert expected is None or caught.value.kind is expected


def said(code: str, message: str = "No.") -> dict[str, object]:
    """An error body in which each vendor's reader finds its code."""
    return {"type": "error", "error": {"code": code, "type": code, "status": code, "message": message}}


CLEAR: list[tuple[str, int, object, type[CallError]]] = [
    ("openai", 429, said("rate_limit_exceeded"), RateLimited),
    ("openai", 429, said("insufficient_quota"), ProviderError),
    ("openai", 400, said("billing_hard_limit_reached"), ProviderError),
    ("openai", 401, said("invalid_api_key"), ProviderError),
    ("anthropic", 429, said("rate_limit_error", "too many requests in the queue"), RateLimited),
    ("anthropic", 429, {"error": {"details": {"error_code": "enforced_spend_limit_reached"}}}, ProviderError),
    ("anthropic", 413, said("request_too_large"), BadRows),
    ("anthropic", 401, said("authentication_error"), ProviderError),
    ("google", 429, said("RESOURCE_EXHAUSTED"), RateLimited),
    ("google", 429, said("RESOURCE_EXHAUSTED", "limit: 0"), ProviderError),
    ("google", 404, said("NOT_FOUND"), ModelError),
    ("google", 403, said("PERMISSION_DENIED"), ProviderError),
    *((kind, status, {"error": {"message": "no"}}, NoBatchApi) for kind in KINDS for status in (405, 501)),
    ("xai", 400, {"code": "Bad", "error": "Model m is not supported for batch processing."}, BatchRefused),
    ("openai", 400, said("model_not_found", "The model 'm' is not supported by the Batch API."), BatchRefused),
    ("openai", 400, said("invalid_request", "The file is too odd."), BatchRefused),
    *((kind, 404, "<h1>Not Found</h1>", PageNotFound) for kind in KINDS),
    *((kind, code, {"detail": "No batches here"}, BatchRefused) for kind in ("openai", "xai") for code in (403, 404)),
    ("google", 404, said("NOT_FOUND", "m is not found, or is not supported for batchGenerateContent."), BatchRefused),
]


@pytest.mark.parametrize(("kind", "status", "body", "error"), CLEAR)
async def test_a_clear_refusal_leaves_no_file(kind: str, status: int, body: object, error: type[CallError]) -> None:
    async with vendor(kind) as line:
        line.takes_uploads()
        line.says(line.at.create, Scripted(body, status, {"retry-after": "7"}))
        with pytest.raises(CallError) as caught:
            await line.api.submit(job(kind))
        assert type(caught.value) is error
        assert len(line.sent(line.at.create)) == 1
        deleted = [got.route for got in line.got if got.route.startswith("DELETE")]
    assert deleted == {"anthropic": [], "google": ["DELETE /v1beta/files/in"]}.get(kind, ["DELETE /files/in"])
    if isinstance(caught.value, RateLimited):
        assert caught.value.retry_after_s == 7


@pytest.mark.parametrize("kind", UPLOADING)
@pytest.mark.parametrize(
    "answer", [RESET, HANG, Scripted("", 500), Scripted({}, 409), Scripted("<html>"), Scripted({"id": ""})]
)
async def test_a_failed_upload_makes_no_batch_and_leaves_no_doubt(kind: str, answer: Scripted) -> None:
    async with vendor(kind, patience_s(answer)) as line:
        line.says(line.at.upload, answer)
        with pytest.raises(TransientError) as caught:
            await line.api.submit(job(kind))
        assert not isinstance(caught.value, InDoubt)
        assert [got.route for got in line.got] == [line.at.upload]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (RESET, None),
        (Scripted("", 500, {"X-Goog-Upload-Status": "cancelled"}), None),
        (Scripted({}), "the upload's status"),
        (Scripted({}, headers={"X-Goog-Upload-Status": "active"}), "the upload's status"),
    ],
)
async def test_a_failed_second_step_is_sent_once_and_leaves_no_doubt_either(answer: Scripted, why: str | None) -> None:
    """An upload whose end the vendor does not confirm is no file, and only the engine sends again."""
    async with vendor("google") as line:
        line.takes_uploads()
        line.says("POST /to-here", answer)
        with pytest.raises(TransientError, match=why) as caught:
            await line.api.submit(job("google"))
        assert not isinstance(caught.value, InDoubt)
        assert len(line.sent("POST /to-here")) == 1 and not line.sent(line.at.create)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("route", [ROUTES["google"].upload, "POST /to-here"])
async def test_geminis_upload_follows_no_redirect(route: str, status: int) -> None:
    """Prompts would go where nobody chose, in either step."""
    async with vendor("google") as line, vendor("google") as elsewhere:
        elsewhere.takes_uploads()
        line.takes_uploads()
        line.says(route, Scripted("<html>moved</html>", status, {"location": f"{elsewhere.url}/to-here"}))
        with pytest.raises(ProviderError, match="redirects are not followed"):
            await line.api.submit(job("google"))
        assert len(line.sent(route)) == 1 and not line.sent(line.at.create)
        assert elsewhere.got == []


async def test_gemini_is_sent_long_files_in_pieces() -> None:
    lines = b'{"a":"' + b"y" * (9 << 20) + b'"}\n'
    async with vendor("google") as line:
        line.takes_uploads()
        (last,) = line.answers["POST /to-here"]
        line.says("POST /to-here", Scripted({}, headers={"X-Goog-Upload-Status": "active"}), last)
        line.says(line.at.create, MADE)
        await line.api.submit(job("google", lines))
    first, second = line.sent("POST /to-here")
    assert first.body + second.body == lines
    assert (first.headers["x-goog-upload-command"], first.headers["x-goog-upload-offset"]) == ("upload", "0")
    assert second.headers["x-goog-upload-command"] == "upload, finalize"
    assert second.headers["x-goog-upload-offset"] == str(len(first.body)) == str(8 << 20)


async def test_an_endpoint_without_batches_says_so() -> None:
    async with vendor("openai") as line:
        with pytest.raises(NoBatchApi, match="no batch API"):
            await line.api.submit(job("openai"))
        with pytest.raises(NoBatchApi, match="no batch API"):
            await line.api.newest()


@pytest.mark.parametrize("refused", ["upload", "create"])
async def test_a_gateway_that_gives_this_key_no_batches_is_not_said_to_lack_the_model(refused: str) -> None:
    body = {"error": {"message": "Batch API is not enabled for this key", "code": "403"}}
    async with vendor("openai") as line:
        line.takes_uploads()
        line.says(getattr(line.at, refused), Scripted(body, 403))
        with pytest.raises(BatchRefused, match="not enabled for this key") as caught:
            await line.api.submit(job("openai"))
    assert "wire name" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "message", "rows"),
    [
        ("google", "Request contains an invalid argument.", ()),
        ("google", "Invalid value at 'requests[7].contents'", (7,)),
        ("anthropic", "requests.1.custom_id: String should have at most 64 characters", (1,)),
    ],
)
async def test_malformed_rows_are_no_refusal_of_the_model(kind: str, message: str, rows: tuple[int, ...]) -> None:
    async with vendor(kind) as line:
        line.takes_uploads()
        line.says(line.at.create, Scripted(said("INVALID_ARGUMENT", message), 400))
        with pytest.raises(BadRows) as caught:
            await line.api.submit(job(kind))
        assert caught.value.rows == rows


async def test_every_verb_of_geminis_batches_asks_under_the_same_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v1alpha")
    async with vendor("google") as line:
        api = line.api
        asked = [
            api.newest(),
            api.since(None),
            api.submit(job("google")),
            api.poll("batches/1"),
            api.cancel("batches/1"),
            api.clean_up(BatchStatus("batches/1", "BATCH_STATE_SUCCEEDED", ended=True)),
        ]
        for one in asked:
            with suppress(CallError):
                await one
        with suppress(CallError):
            await line.lines(BatchStatus("batches/1", "", True, results=("files/out",)))
        assert len(line.got) >= 7
        assert all("/v1alpha/" in got.route for got in line.got)


@pytest.mark.parametrize("kind", KINDS)
async def test_no_connection_at_all_is_no_doubt(kind: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        api = connect_batch(Endpoint("p", kind, f"http://127.0.0.1:{free.getsockname()[1]}", KEY, 5.0))
        try:
            with pytest.raises(Unreachable):
                await api.submit(job(kind))
        finally:
            await api.close()
