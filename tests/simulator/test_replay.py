"""A recording is served again: the same answers to the same requests."""

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hab_simulator import Recorded, RecordingUnusable, load_recording, replaying

HEAD = '{"format": "hab-doctor-1"}\n'
OLD_TAG, NEW_TAG = "hab-" + "a" * 24, "hab-" + "b" * 24
OLD_KEY, NEW_KEY = "1" * 64, "2" * 64


def recorded(method: str, path: str, request: object, body: object, **more: Any) -> Recorded:
    given = {"account": "x/lab", "status": 200, "headers": {"content-type": "application/json"}, **more}
    return Recorded(method=method, path=path, request=json.dumps(request), body=json.dumps(body), **given)


async def asked(url: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.request(method, url + path, json=body) as response:
        return response.status, await response.json()


async def test_a_large_request_has_its_answer() -> None:
    body = {"text": "x" * (2 << 20)}
    async with replaying([recorded("POST", "chat", body, {"said": "one"})]) as url:
        assert await asked(url, "POST", "/x/lab/chat", body) == (200, {"said": "one"})


async def test_the_answer_is_that_of_the_same_body() -> None:
    calls = [recorded("POST", "chat", {"a": 1, "b": text}, {"said": text}) for text in ("one", "two", "three")]
    async with replaying(calls) as url:
        assert await asked(url, "POST", "/x/lab/v1/chat", {"b": "two", "a": 1}) == (200, {"said": "two"})
        assert await asked(url, "POST", "/x/lab/v1/chat", {"b": "one", "a": 1}) == (200, {"said": "one"})
        assert await asked(url, "POST", "/x/lab/chat", {"b": "three", "a": 1}) == (200, {"said": "three"})
        assert await asked(url, "POST", "/x/lab/chat", {"b": "three", "a": 1}) == (200, {"said": "three"})
        for path in ("/x/other/chat", "/x/lab/chat"):
            status, said = await asked(url, "POST", path, {"b": "four"})
            assert status == 404 and "nothing was recorded" in said["error"]["message"]


async def test_names_made_anew_are_those_of_the_present_request() -> None:
    calls = [
        recorded("POST", "batches", {"tag": OLD_TAG, "rows": [OLD_KEY]}, {"id": "batch_1", "tag": OLD_TAG}),
        recorded("GET", "batches/batch_1?limit=5", None, {"state": "open"}),
        recorded("GET", "batches/batch_1?limit=5", None, {"state": "done", "rows": [OLD_KEY]}),
    ]
    async with replaying(calls) as url:
        made = await asked(url, "POST", "/x/lab/v1/batches", {"tag": NEW_TAG, "rows": [NEW_KEY]})
        assert made == (200, {"id": "batch_1", "tag": NEW_TAG})
        assert await asked(url, "GET", "/x/lab/v1/batches/batch_1?limit=5") == (200, {"state": "open"})
        for _ in range(2):
            seen = await asked(url, "GET", "/x/lab/v1/batches/batch_1?limit=5")
            assert seen == (200, {"state": "done", "rows": [NEW_KEY]})


async def test_a_request_without_an_answer_has_none_again() -> None:
    async with replaying([recorded("POST", "chat", {}, "", status=None)]) as url:
        with pytest.raises(aiohttp.ClientError):
            await asked(url, "POST", "/x/lab/chat", {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "its first line"),
        ("not json\n", "its first line"),
        ('{"format": "another"}\n', "its first line"),
        ("[" * 100_000, "its first line"),
        (HEAD + '{"account": 7}\n', "line 2: account"),
        (HEAD + "{\n", "line 2"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "doctor.jsonl"
    file.write_text(text)
    with pytest.raises(RecordingUnusable, match=said):
        load_recording(file)
