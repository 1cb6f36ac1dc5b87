"""OpenAI's files: POST /v1/files, GET /v1/files/{id}/content, DELETE /v1/files/{id}."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from aiohttp import BodyPartReader, web

from hab_simulator.asks import WireAnswer
from hab_simulator.batch.files import StoredFile
from hab_simulator.batch.replies import download
from hab_simulator.batch.service import BatchService
from hab_simulator.openai.bodies import error
from hab_simulator.sending import json_response, response
from hab_simulator.vendor import Route

PREFIX = "file-"
MAX_BYTES = 200 * 1024**2
_KEPT_S = 30 * 86_400
_PIECE = 262_144
_JSONL = "application/jsonl"


async def handle(
    service: BatchService, place: Route, request: web.BaseRequest, rest: list[str], purposes: Collection[str]
) -> web.StreamResponse:
    """Answer a request about files; `rest` is the path below /files, `purposes` are those of files it takes."""
    match request.method, rest:
        case "POST", []:
            return await _upload(service, place, request, purposes)
        case "GET", [name, "content"] if file := service.files.find(place.account, name.removeprefix(PREFIX)):
            job = service.find(place.account, file.made_by) if file.made_by else None
            return await download(request, file.path, job, _JSONL)
        case "DELETE", [name] if service.files.delete(place.account, name.removeprefix(PREFIX)):
            return json_response({"id": name, "object": "file", "deleted": True})
        case "GET" | "DELETE", [name, *_]:
            return response(error(404, f"No such File object: {name}", param="id"))
        case _:
            return response(error(404, f"Invalid URL ({request.method} /v1/{place.path})"))


async def _upload(
    service: BatchService, place: Route, request: web.BaseRequest, purposes: Collection[str]
) -> web.StreamResponse:
    if request.content_type != "multipart/form-data":
        return response(error(400, "The request is not multipart/form-data."))
    name, path = service.files.fresh()
    fields: dict[str, str] = {}
    filename: str | None = None
    try:
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader):
                continue
            if part.name == "file":
                filename = part.filename or ""
                await _store(part, path)
            else:
                fields[part.name or ""] = await part.text()
    except ValueError:
        return response(error(400, "The form of the request cannot be read."))
    purpose = fields.get("purpose", "")
    refusal = _upload_refusal(purpose, purposes, filename, path)
    if refusal is not None:
        path.unlink(missing_ok=True)
        return response(refusal)
    file = StoredFile(name, place.account, filename or "", purpose, service.clock.now(), path)
    service.files.add(file)
    return json_response(_view(file))


async def _store(part: BodyPartReader, path: Path) -> None:
    """Write a part to disk; what is beyond the limit is read and dropped."""
    left = MAX_BYTES + 1
    with path.open("wb") as file:
        while piece := await part.read_chunk(_PIECE):
            file.write(piece[:left])
            left -= min(left, len(piece))


def _upload_refusal(purpose: str, purposes: Collection[str], filename: str | None, path: Path) -> WireAnswer | None:
    if purpose not in purposes:
        return error(400, f"'{purpose}' is not one of {sorted(purposes)} - 'purpose'", param="purpose")
    if filename is None:
        return error(400, "Missing required parameter: 'file'.", param="file")
    if not _is_taken(filename):
        return error(400, "Invalid file format for Batch API. Must be .jsonl")
    if path.stat().st_size > MAX_BYTES:
        return error(400, "File is too large. The limit is 200 MB.", param="file")
    return None


def _is_taken(filename: str) -> bool:
    """Whether a file of this name may hold a batch's lines.

    A name without an ending is taken: the SDK sends bytes as "upload", and bespokelabs-curator, which uploads bytes,
    works with the vendor. Another ending is refused (a live answer to notes.txt: BerriAI/litellm#37527).
    """
    return filename.endswith(".jsonl") or "." not in filename


def _view(file: StoredFile) -> dict[str, Any]:
    return {
        "id": PREFIX + file.id,
        "object": "file",
        "bytes": file.size,
        "created_at": int(file.created),
        "expires_at": int(file.created) + _KEPT_S,
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }
