"""Gemini's files: resumable upload, download, delete."""

import json
from typing import Any

from aiohttp import web

from hab_simulator.asks import WireAnswer, compact
from hab_simulator.batch.clock import rfc3339
from hab_simulator.batch.files import StoredFile
from hab_simulator.batch.replies import download
from hab_simulator.batch.service import BatchService
from hab_simulator.google.bodies import error
from hab_simulator.sending import json_response, response
from hab_simulator.vendor import Route

PREFIX = "files/"
_KEPT_S = 48 * 3600
_MAX_BYTES = 2 * 1024**3
_CONTENT = "application/octet-stream"
_STATUS = "X-Goog-Upload-Status"


async def upload(service: BatchService, place: Route, request: web.BaseRequest) -> web.StreamResponse:
    """Answer a request of the resumable upload: `start` names the file, the others bring its bytes."""
    commands = {one.strip() for one in request.headers.get("X-Goog-Upload-Command", "").split(",")}
    if request.headers.get("X-Goog-Upload-Protocol") == "resumable" and commands == {"start"}:
        return await _start(service, place, request)
    file = service.files.find(place.account, request.query.get("upload_id", ""))
    if file is None or not commands <= {"upload", "finalize", "query"}:
        return response(error(400, "There is no such upload, or the X-Goog-Upload-Command is not known."))
    offset = request.headers.get("X-Goog-Upload-Offset", "0")
    if "upload" in commands:
        if not offset.isdecimal() or int(offset) != file.size:
            return response(error(400, f"The upload is at {file.size}, not at X-Goog-Upload-Offset {offset}."))
        with file.path.open("ab") as target:
            async for piece in request.content.iter_any():
                target.write(piece)
    if "finalize" not in commands:
        return response(WireAnswer(200, b"", {_STATUS: "active", "X-Goog-Upload-Size-Received": str(file.size)}))
    if file.size > _MAX_BYTES:
        service.files.delete(place.account, file.id)
        return response(error(400, "The file is larger than 2 GB."))
    return response(WireAnswer(200, compact({"file": _view(file, request)}), {_STATUS: "final"}))


async def _start(service: BatchService, place: Route, request: web.BaseRequest) -> web.StreamResponse:
    raw = await request.content.read()
    try:
        told = json.loads(raw or b"{}").get("file", {})
    except (ValueError, AttributeError):
        return response(error(400, "Invalid JSON payload received."))
    fresh, path = service.files.fresh()
    name = str(told.get("name") or fresh).removeprefix(PREFIX)
    if service.files.find(place.account, name) is not None:
        return response(error(409, f"Resource {PREFIX}{name} already exists."))
    path.touch()
    shown = str(told.get("displayName") or told.get("display_name") or "")
    service.files.add(StoredFile(name, place.account, shown, "batch", service.clock.now(), path))
    url = f"http://{request.host}{request.path}?upload_id={name}&upload_protocol=resumable"
    return response(WireAnswer(200, b"", {_STATUS: "active", "X-Goog-Upload-URL": url}))


async def handle(service: BatchService, place: Route, request: web.BaseRequest, call: str) -> web.StreamResponse:
    """Answer a request about uploaded files and files of results."""
    name, _, verb = call.partition(":")
    file = service.files.find(place.account, name)
    if file is None:
        message = f"You do not have permission to access the File {name} or it may not exist."
        return response(error(403, message))
    match request.method, verb:
        case "GET", "download" if request.query.get("alt") == "media":
            job = service.find(place.account, file.made_by) if file.made_by else None
            return await download(request, file.path, job, _CONTENT)
        case "DELETE", "":
            service.files.delete(place.account, name)
            return json_response({})
        case _:
            return response(error(404, f"Requested entity {request.path} was not found."))


def _view(file: StoredFile, request: web.BaseRequest) -> dict[str, Any]:
    uri = f"http://{request.host}/google/v1beta/{PREFIX}{file.id}"
    shown: dict[str, Any] = {
        "name": f"{PREFIX}{file.id}",
        "mimeType": "application/jsonl",
        "sizeBytes": str(file.size),
        "createTime": rfc3339(file.created),
        "updateTime": rfc3339(file.created),
        "expirationTime": rfc3339(file.created + _KEPT_S),
        "uri": uri,
        "state": "ACTIVE",
        "source": "GENERATED" if file.made_by else "UPLOADED",
    }
    if file.name:
        shown["displayName"] = file.name
    if file.made_by:
        shown["downloadUri"] = f"{uri}:download?alt=media"
    return shown
