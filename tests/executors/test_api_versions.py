"""The API version of a Gemini endpoint: as stated, else asked once for nothing, and remembered."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from hab_ray.catalog.models import Catalog
from hab_ray.executors.api_versions import as_remembered, with_api_versions
from hab_ray.storage.folder import open_folder
from hab_ray.work import Work
from hab_simulator.sending import serving
from tests.doctor.conftest import moved, work_in

UNKNOWN_FIELD = {"error": {"code": 400, "message": 'Invalid JSON payload: Unknown name "systemInstruction"'}}
NO_CONTENTS = {"error": {"code": 400, "message": "* GenerateContentRequest.contents: contents is not specified"}}
BAD_KEY = {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "API key not valid."}}
NOT_FOUND = {"error": {"code": 404, "message": "not found"}}


def version_of(work: Work) -> str | None:
    return work.catalog.providers["google"].api_version


@pytest.mark.parametrize(
    ("answers", "version", "asked"),
    [
        ({"v1beta": (400, NO_CONTENTS)}, None, 1),
        ({"v1beta": (400, UNKNOWN_FIELD), "v1": (400, NO_CONTENTS)}, "v1", 2),
        ({"v1beta": (404, NOT_FOUND), "v1": (400, NO_CONTENTS)}, "v1", 2),
        ({"v1beta": (404, NOT_FOUND), "v1": (404, NOT_FOUND)}, None, 2),
        ({"v1beta": (503, {})}, None, 1),
        ({"v1beta": (400, BAD_KEY)}, None, 1),
    ],
)
async def test_the_version_that_takes_a_request_is_asked_once(
    answers: dict[str, Any], version: str | None, asked: int, tmp_path: Path
) -> None:
    seen: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.path.split("/")[2])
        status, body = answers[seen[-1]]
        return web.json_response(body, status=status)

    async with serving(handle) as url:
        work = moved(work_in(tmp_path), url)
        folder = open_folder(work.sweep.store)
        first = await with_api_versions(work, folder)
        assert (version_of(first), len(seen)) == (version, asked)
        again = await with_api_versions(work, folder)
    is_kept = any(body is NO_CONTENTS for _, body in answers.values())
    assert version_of(again) == version and (len(seen) == asked) == is_kept
    entry = as_remembered(folder, "google", work.catalog.providers["google"])
    assert entry.api_version == ((version or "v1beta") if is_kept else None)


async def test_a_stated_version_is_not_asked_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = moved(work_in(tmp_path), "http://127.0.0.1:9")
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v1")
    assert await with_api_versions(work, open_folder(work.sweep.store)) is work


async def test_an_account_without_a_key_is_not_asked(tmp_path: Path) -> None:
    work = moved(work_in(tmp_path), "http://127.0.0.1:9")
    entry = work.catalog.providers["google"].model_copy(update={"key_env": "UNSET_KEY"})
    work = replace(work, catalog=Catalog(providers={**work.catalog.providers, "google": entry}, models={}))
    assert version_of(await with_api_versions(work, open_folder(work.sweep.store))) is None


async def test_a_version_of_another_address_is_not_believed(tmp_path: Path) -> None:
    work = work_in(tmp_path)
    folder = open_folder(work.sweep.store)
    folder.put("versions/google.json", b'{"url": "http://elsewhere", "version": "v1"}')
    assert as_remembered(folder, "google", work.catalog.providers["google"]).api_version is None
    folder.put("versions/google.json", b"[broken")
    assert as_remembered(folder, "google", work.catalog.providers["google"]).api_version is None
