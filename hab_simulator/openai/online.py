"""OpenAI's wire protocol, spoken by OpenAI and by every compatible endpoint: chat, embeddings, models."""

from base64 import b64encode
from collections.abc import Mapping
from math import ceil, isinf
from typing import Any

from hab_simulator.accounts import SimulatedAccount
from hab_simulator.asks import Ask, Bill, ChatAsk, EmbedAsk, Finish, Refused, Usage, VectorForm, WireAnswer, compact
from hab_simulator.limits import Verdict
from hab_simulator.openai.bodies import error, read_chat, read_embeddings
from hab_simulator.truth.answers import Mind, bill
from hab_simulator.truth.embedding import embed

CREATED = 1_795_000_000
_FINISH = {Finish.DONE: "stop", Finish.LENGTH: "length", Finish.REFUSED: "content_filter"}
_FAULTS = {
    400: ("Invalid request.", "invalid_request_error", "invalid_value"),
    408: ("Request timed out.", "timeout", None),
    409: ("The resource is locked; try again.", "conflict", None),
    429: ("Rate limit reached; please slow down.", "requests", "rate_limit_exceeded"),
    500: ("The server had an error while processing your request.", "server_error", None),
    502: ("Bad gateway.", "server_error", None),
    503: ("The engine is currently overloaded, please try again later.", "server_error", None),
    504: ("The gateway timed out.", "server_error", None),
    529: ("Overloaded.", "server_error", None),
}


class OpenAiOnline:
    """The protocol; a compatible vendor's inherits from it and changes what differs. All methods are pure."""

    def key(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
        return headers.get("Authorization", "").removeprefix("Bearer ").strip()

    def bad_key(self, sent: str) -> WireAnswer:
        """401, for a key that is missing or not accepted."""
        if not sent:
            return error(401, "You didn't provide an API key in an Authorization header.")
        return error(401, f"Incorrect API key provided: {sent[:3]}***.", code="invalid_api_key")

    def models(self, account: SimulatedAccount) -> WireAnswer:
        """`GET /v1/models`: the models that have a plain name and are not retired."""
        names = [name for name, model in account.listed().items() if not model.retired]
        data = [{"id": name, "object": "model", "created": CREATED, "owned_by": "simulator"} for name in names]
        return WireAnswer(200, compact({"object": "list", "data": data}))

    def no_json(self, path: str) -> Refused:
        return Refused(error(400, "We could not parse the JSON body of your request."))

    def check(self, path: str, headers: Mapping[str, str], account: SimulatedAccount, body: Any) -> Ask:
        """Check a request's body, sent online or in a batch. Raises Refused with the vendor's answer."""
        if path == "chat/completions":
            return read_chat(account, body)
        if path == "embeddings":
            return read_embeddings(account, body)
        raise Refused(error(404, f"Invalid URL (POST /v1/{path})"))

    def reply(self, mind: Mind, ask: Ask) -> WireAnswer:
        return self._chat(mind, ask) if isinstance(ask, ChatAsk) else _embeddings(mind, ask)

    def usage(self, bill: Bill) -> dict[str, Any]:
        """How a reply tells what is billed."""
        used = bill.usage
        return {
            "prompt_tokens": used.input,
            "completion_tokens": used.output,
            "total_tokens": used.input + used.output,
            "prompt_tokens_details": {"cached_tokens": used.cached, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": used.reasoning,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        }

    def limit_headers(self, verdict: Verdict) -> dict[str, str]:
        """`x-ratelimit-*`, with resets as Go durations."""
        headers: dict[str, str] = {}
        for name, level in (("requests", verdict.requests), ("tokens", verdict.tokens)):
            if level is not None:
                headers[f"x-ratelimit-limit-{name}"] = str(level.limit)
                headers[f"x-ratelimit-remaining-{name}"] = str(level.remaining)
                headers[f"x-ratelimit-reset-{name}"] = _duration(level.reset_s)
        return headers

    def too_fast(self, name: str, verdict: Verdict, says_retry_after: bool) -> WireAnswer:
        level = verdict.requests if verdict.short == "requests" else verdict.tokens
        limit = 0 if level is None else level.limit
        unit = "requests per min (RPM)" if verdict.short == "requests" else "tokens per min (TPM)"
        headers = self.limit_headers(verdict)
        if isinf(verdict.wait_s):
            message = f"Request too large for {name} on {unit}: Limit {limit}."
        else:
            wait = _duration(verdict.wait_s)
            message = f"Rate limit reached for {name} on {unit}: Limit {limit}. Please try again in {wait}."
            if says_retry_after:
                headers["retry-after"] = str(ceil(verdict.wait_s))
                headers["retry-after-ms"] = str(ceil(verdict.wait_s * 1000))
        return error(429, message, kind=verdict.short, code="rate_limit_exceeded", headers=headers)

    def no_quota(self, name: str) -> WireAnswer:
        """429 that no waiting heals."""
        message = "You exceeded your current quota, please check your plan and billing details."
        return error(429, message, kind="insufficient_quota", code="insufficient_quota")

    def fault(self, status: int, retry_after_s: float | None) -> WireAnswer:
        message, kind, code = _FAULTS[status]
        headers = {} if retry_after_s is None else {"retry-after": f"{retry_after_s:g}"}
        return error(status, message, kind=kind, code=code, headers=headers)

    def _chat(self, mind: Mind, ask: ChatAsk) -> WireAnswer:
        said = mind.say(ask)
        blocked = said.finish is Finish.REFUSED
        refused = blocked and ask.schema is not None
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if refused else "" if blocked else said.text,
            "refusal": said.text if refused else None,
            "annotations": [],
        }
        finish = "stop" if refused else _FINISH[said.finish]
        body = {
            "id": f"chatcmpl-{ask.identity.hex()}",
            "object": "chat.completion",
            "created": CREATED,
            "model": mind.reported_name(ask),
            "choices": [
                {"index": 0, "message": message, "logprobs": None, "finish_reason": finish},
            ],
            "usage": self.usage(said.bill),
            "service_tier": "default",
            "system_fingerprint": None,
        }
        headers = {"x-request-id": f"req_{ask.identity.hex()}"}
        return WireAnswer(200, compact(body), headers, said.bill, said.exchange)


def _embeddings(mind: Mind, ask: EmbedAsk) -> WireAnswer:
    vectors = (embed(text, ask.model.vector, ask.dimensions) for text in ask.texts)
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": b64encode(vector.tobytes()).decode() if ask.form is VectorForm.BASE64 else vector.tolist(),
        }
        for index, vector in enumerate(vectors)
    ]
    tokens = ask.input_tokens
    body = {
        "object": "list",
        "data": data,
        "model": mind.reported_name(ask),
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
    return WireAnswer(200, compact(body), bill=bill(ask.model, Usage(input=ask.input_tokens)))


def _duration(seconds: float) -> str:
    """A Go duration such as 12ms, 1.5s or 6m0s."""
    if seconds < 1:
        return f"{ceil(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds, 3), 60)
    return f"{int(minutes)}m{rest:g}s" if minutes else f"{rest:g}s"
