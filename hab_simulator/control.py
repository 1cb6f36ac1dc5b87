"""The simulator's own URLs: reading the meter and the truth, and changing faults while it runs.

GET /_meter, /_calls?after=N, /_requests?after=N (each HTTP request of whatever kind, polls and uploads too, with the
wall time at which it began to arrive), /_truth (means), /_truth/answers, /_truth/verdicts, /_truth/missing (what judges
were not shown), /_truth/checks and /_truth/queries (of validators and authors of queries), /_truth/manners (what
requests shared beside their messages), /_batches; POST /_faults (a list of faults), /_batch_faults, /_prompts and
/_contexts ({sha256 of a prompt: dimension, or context}, added to what is known).
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from hab_simulator.batch.faults import BATCH_FAULTS
from hab_simulator.faults import FAULTS
from hab_simulator.sending import json_response
from hab_simulator.state import SimulatorState

_CALLS_SHOWN = 10_000
_NUMBER = TypeAdapter(int)
_TEXTS = TypeAdapter(dict[str, str])


async def handle(state: SimulatorState, request: web.BaseRequest) -> web.Response:
    """Answer a request to one of the simulator's own URLs."""
    try:
        match request.method:
            case "GET":
                return _get(state, request)
            case "POST":
                return _post(state, request.path, await request.content.read())
            case _:
                return _unknown(request.path)
    except ValidationError as failure:
        return json_response({"error": str(failure)}, 400)


_SHOWN: Mapping[str, Callable[[SimulatorState], Any]] = {
    "/_meter": lambda state: state.meter.reading(state.batches.counts()),
    "/_truth": lambda state: state.mind.truth.heard.means(),
    "/_truth/answers": lambda state: state.mind.truth.heard.answers(),
    "/_truth/verdicts": lambda state: state.mind.truth.heard.verdicts(),
    "/_truth/manners": lambda state: state.mind.truth.heard.manners(),
    "/_truth/checks": lambda state: state.mind.truth.heard.checks(),
    "/_truth/queries": lambda state: list(state.mind.truth.heard.written()),
    "/_truth/missing": lambda state: state.mind.truth.judging.missed(),
    "/_batches": lambda state: state.batches.reading(),
}


def _get(state: SimulatorState, request: web.BaseRequest) -> web.Response:
    if request.path in _SHOWN:
        return json_response(_SHOWN[request.path](state))
    if request.path not in ("/_calls", "/_requests"):
        return _unknown(request.path)
    after = _NUMBER.validate_python(request.query.get("after", 0))
    some = slice(after, after + _CALLS_SHOWN)
    if request.path == "/_calls":
        return json_response([call.reading() for call in state.meter.calls[some]])
    return json_response([asdict(one) for one in state.meter.requests[some]])


def _post(state: SimulatorState, path: str, raw: bytes) -> web.Response:
    match path:
        case "/_faults":
            state.plan.rules = FAULTS.validate_json(raw)
        case "/_batch_faults":
            state.batches.rules = BATCH_FAULTS.validate_json(raw)
        case "/_prompts":
            prompts = _TEXTS.validate_json(raw)
            unknown = sorted(set(prompts.values()) - set(state.profile.planted.dimensions))
            if unknown:
                return json_response({"error": f"no such dimension: {', '.join(unknown)}"}, 400)
            state.mind.truth.prompts.update(prompts)
        case "/_contexts":
            state.mind.truth.judging.contexts.update(_TEXTS.validate_json(raw))
        case _:
            return _unknown(path)
    return json_response({})


def _unknown(path: str) -> web.Response:
    return json_response({"error": f"no such control: {path}"}, 404)
