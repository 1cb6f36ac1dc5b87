"""OpenAI's batch lines: {"custom_id", "method", "url", "body"} in, {"id", "custom_id", "response", "error"} out."""

import json
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

from hab_simulator.asks import WireAnswer, compact
from hab_simulator.batch.dialect import BadInput, LineAsk
from hab_simulator.batch.jobs import BatchState, Order
from hab_simulator.vendor import Vendor

_MAX_TASKS = 50_000
_NEEDED = ("custom_id", "method", "url", "body")
_UNDONE = {
    BatchState.EXPIRED: ("batch_expired", "This request could not be executed before the completion window expired."),
    BatchState.CANCELLED: ("batch_cancelled", "This request was not executed because the batch was cancelled."),
}


def _parse(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line.decode())
    except ValueError:
        raise BadInput("invalid_json_line", "This line is not parseable as valid JSON.") from None
    if not isinstance(value, dict):
        raise BadInput("invalid_json_line", "This line is not a JSON object.")
    return value


def _checked(line: bytes, endpoint: str) -> tuple[str, dict[str, Any]]:
    """The custom id and the body of a line that is in order by itself."""
    value = _parse(line)
    for name in _NEEDED:
        if name not in value:
            raise BadInput("missing_required_parameter", f"Missing required parameter: '{name}'.", param=name)
    unknown = value.keys() - set(_NEEDED)
    name, body = value["custom_id"], value["body"]
    if unknown or not isinstance(name, str) or not isinstance(body, dict):
        param = min(unknown, default="body" if isinstance(name, str) else "custom_id")
        raise BadInput("invalid_request", f"Invalid value for '{param}'.", param=param)
    if value["method"] != "POST" or value["url"] != endpoint:
        message = f"The URL provided for this request does not match the batch endpoint {endpoint}."
        raise BadInput("invalid_url", message, param="url")
    return name, body


class OpenAiLines:
    """OpenAI's lines: requests and results in files, errors in a file of their own."""

    keeps_partial = True
    error_file = True
    fails_whole = True

    def __init__(self, vendor: Vendor) -> None:
        self.vendor = vendor

    def checked(self, order: Order, lines: Iterable[bytes]) -> Iterator[str]:
        """Everything that makes a whole file fail, by the vendor's codes."""
        ids: set[str] = set()
        first, tasks = "", 0
        for line in lines:
            name, body = _checked(line, order.details["endpoint"])
            if name in ids:
                raise BadInput("duplicate_custom_id", f"The custom_id '{name}' stands in two lines.", param="custom_id")
            model = str(body.get("model"))
            if ids and model != first:
                message = f"The model '{model}' does not match that of the first line, '{first}'."
                raise BadInput("mismatched_model", message, param="body.model")
            ids.add(name)
            first = model
            inputs = body.get("input")
            tasks += len(inputs) if isinstance(inputs, list) else 1
            yield model
        if not ids:
            raise BadInput("empty_file", "The input file is empty.")
        if tasks > _MAX_TASKS:
            raise BadInput("too_many_tasks", f"At most {_MAX_TASKS} tasks are allowed, the file has {tasks}.")

    def read(self, order: Order, line: bytes) -> LineAsk:
        value = _parse(line)
        return LineAsk(compact(value["custom_id"]), order.path, value["body"])

    def result(self, handle: bytes, answer: WireAnswer) -> bytes:
        name = _name(handle)
        response = b'{"status_code":%d,"request_id":"%b","body":%b}' % (answer.status, name, answer.body)
        return b'{"id":"batch_req_%b","custom_id":%b,"response":%b,"error":null}' % (name, handle, response)

    def undone(self, handle: bytes, state: BatchState) -> bytes:
        code, message = _UNDONE[state]
        return b'{"id":"batch_req_%b","custom_id":%b,"response":null,"error":%b}' % (
            _name(handle),
            handle,
            compact({"code": code, "message": message}),
        )

    def stranger(self, order: Order, number: int) -> bytes:
        return b'"stranger-%d"' % number


def _name(handle: bytes) -> bytes:
    return blake2b(handle, digest_size=12).hexdigest().encode()
