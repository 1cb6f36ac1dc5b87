"""Gemini's wire protocol: generateContent, embeddings and models."""

from collections.abc import Callable, Mapping
from math import ceil, isinf
from typing import Any

from hab_simulator.accounts import Service, SimulatedAccount
from hab_simulator.asks import Ask, ChatAsk, EmbedAsk, Finish, Refused, Usage, VectorForm, WireAnswer, compact
from hab_simulator.google.bodies import error, read_embed, read_embed_one, read_generate
from hab_simulator.limits import Verdict
from hab_simulator.truth.answers import Mind, bill
from hab_simulator.truth.embedding import embed

_RPC = "type.googleapis.com/google.rpc"
_READERS: dict[str, Callable[[SimulatedAccount, str, Any], Ask]] = {
    "generateContent": read_generate,
    "batchEmbedContents": read_embed,
    "embedContent": read_embed_one,
}
_METHODS = {
    Service.CHAT: ["generateContent", "batchGenerateContent"],
    Service.EMBEDDINGS: ["embedContent", "batchEmbedContents"],
}
_FINISH = {Finish.DONE: "STOP", Finish.LENGTH: "MAX_TOKENS"}
_FAULTS = {
    400: (400, "Request contains an invalid argument."),
    408: (408, "The request timed out."),
    409: (409, "The operation was aborted."),
    429: (429, "Resource has been exhausted (e.g. check quota)."),
    500: (500, "An internal error has occurred. Please retry."),
    502: (502, "Bad gateway."),
    503: (503, "The model is overloaded. Please try again later."),
    504: (504, "Deadline expired before operation could complete."),
    529: (503, "The model is overloaded. Please try again later."),
}


def key(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    """The key sent as a header or in the query, or an empty text."""
    return headers.get("x-goog-api-key") or query.get("key", "")


def bad_key(sent: str) -> WireAnswer:
    """403 for a key that is missing, 400 for one that is not accepted."""
    if not sent:
        return error(403, "Method doesn't allow unregistered callers. Please use an API key.")
    detail = {
        "@type": f"{_RPC}.ErrorInfo",
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com",
        "metadata": {"service": "generativelanguage.googleapis.com"},
    }
    return error(400, "API key not valid. Please pass a valid API key.", details=[detail])


def models(account: SimulatedAccount) -> WireAnswer:
    """`GET /v1/models`: the models that have a plain name and are not retired."""
    listed = [
        {
            "name": f"models/{name}",
            "version": "001",
            "displayName": name,
            "inputTokenLimit": model.context_tokens,
            "outputTokenLimit": model.output_tokens,
            "supportedGenerationMethods": [method for service in sorted(model.serves) for method in _METHODS[service]],
        }
        for name, model in account.listed().items()
        if not model.retired
    ]
    return WireAnswer(200, compact({"models": listed}))


def no_json(path: str) -> Refused:
    """400, for a body that is no JSON."""
    return Refused(error(400, "Invalid JSON payload received."), path.removeprefix("models/").rpartition(":")[0])


def check(path: str, headers: Mapping[str, str], account: SimulatedAccount, body: Any) -> Ask:
    """Check a request's body, sent online or in a batch. Raises Refused with the vendor's answer."""
    name, _, method = path.removeprefix("models/").rpartition(":")
    reader = _READERS.get(method)
    if not path.startswith("models/"):
        raise Refused(error(404, f"Requested entity {path} was not found."))
    if reader is None:
        message = f"models/{name} is not found for API version v1beta, or is not supported for {method}."
        raise Refused(error(404, f"{message} Call ListModels to see the list of available models."), name)
    return reader(account, name, body)


def reply(mind: Mind, ask: Ask) -> WireAnswer:
    """The vendor's answer to a request that passed."""
    return _generate(mind, ask) if isinstance(ask, ChatAsk) else _embed(ask)


def _generate(mind: Mind, ask: ChatAsk) -> WireAnswer:
    said = mind.say(ask)
    usage = said.bill.usage
    visible = usage.output - usage.reasoning
    counts: dict[str, Any] = {
        "promptTokenCount": usage.input,
        "totalTokenCount": usage.input + usage.output,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.input}],
    }
    if visible:
        counts["candidatesTokenCount"] = visible
    if usage.cached:
        counts["cachedContentTokenCount"] = usage.cached
    if usage.reasoning:
        counts["thoughtsTokenCount"] = usage.reasoning
    body: dict[str, Any] = {
        "usageMetadata": counts,
        "modelVersion": mind.reported_name(ask),
        "responseId": ask.identity.hex(),
    }
    if said.finish is Finish.REFUSED:
        body["promptFeedback"] = {"blockReason": "PROHIBITED_CONTENT"}
    else:
        content: dict[str, Any] = {"parts": [{"text": said.text}]} if said.text else {}
        body["candidates"] = [
            {"content": {**content, "role": "model"}, "finishReason": _FINISH[said.finish], "index": 0}
        ]
    return WireAnswer(200, compact(body), bill=said.bill, exchange=said.exchange)


def _embed(ask: EmbedAsk) -> WireAnswer:
    vectors = [{"values": embed(text, ask.model.vector, ask.dimensions).tolist()} for text in ask.texts]
    body: dict[str, Any] = {"usageMetadata": {"promptTokenCount": ask.input_tokens}}
    body |= {"embedding": vectors[0]} if ask.form is VectorForm.SINGLE else {"embeddings": vectors}
    return WireAnswer(200, compact(body), bill=bill(ask.model, Usage(input=ask.input_tokens)))


def limit_headers(verdict: Verdict) -> dict[str, str]:
    """None: the vendor tells nothing in headers."""
    return {}


def too_fast(name: str, verdict: Verdict, says_retry_after: bool) -> WireAnswer:
    """429 for a request over a limit a minute; the wait stands in RetryInfo."""
    level = verdict.requests if verdict.short == "requests" else verdict.tokens
    limit = 0 if level is None or isinf(verdict.wait_s) else level.limit
    quota = {
        "requests": "GenerateRequestsPerMinutePerProjectPerModel",
        "tokens": "GenerateContentInputTokensPerModelPerMinute",
    }[verdict.short]
    details = [_quota_failure(quota, name, limit)]
    message = f"You exceeded your current quota. Quota exceeded for {quota}, limit: {limit}, model: {name}."
    if says_retry_after and not isinf(verdict.wait_s):
        wait = f"{ceil(verdict.wait_s * 1000) / 1000:g}s"
        message = f"{message} Please retry in {wait}."
        details.append(_retry_info(wait))
    return error(429, message, details=details)


def no_quota(name: str) -> WireAnswer:
    """429 that only the next day heals; it names a RetryInfo all the same, as the vendor does."""
    quota = "GenerateRequestsPerDayPerProjectPerModel"
    details = [_quota_failure(quota, name, 0), _retry_info("17s")]
    return error(429, f"You exceeded your current quota. Quota exceeded for {quota}.", details=details)


def fault(status: int, retry_after_s: float | None) -> WireAnswer:
    """The vendor's words for a status that the fault plan asks for; 529 is this vendor's 503."""
    code, message = _FAULTS[status]
    details = [] if retry_after_s is None else [_retry_info(f"{retry_after_s:g}s")]
    return error(code, message, details=details)


def _retry_info(delay: str) -> dict[str, Any]:
    return {"@type": f"{_RPC}.RetryInfo", "retryDelay": delay}


def _quota_failure(quota: str, name: str, limit: int) -> dict[str, Any]:
    violation = {
        "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
        "quotaId": quota,
        "quotaDimensions": {"model": name, "location": "global"},
        "quotaValue": str(limit),
    }
    return {"@type": f"{_RPC}.QuotaFailure", "violations": [violation]}
