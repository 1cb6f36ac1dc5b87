"""The meaning of S3 errors: retry, no such object, name taken, or a setting that has to change."""

from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import Any

from hab_ray.errors import ConfigError

_RETRYABLE = {
    *("SlowDown", "Throttling", "ThrottlingException", "RequestTimeout", "RequestTimeTooLarge", "InternalError"),
    *("ServiceUnavailable", "OperationAborted", "ConditionalRequestConflict", "RequestLimitExceeded", "BadDigest"),
    *("IncompleteBody", "XAmzContentSHA256Mismatch", "TooManyRequests", "RequestThrottled"),
}
_BAD_KEY = {
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "TokenRefreshRequired", "ExpiredToken"),
    *("UnrecognizedClientException", "AuthFailure", "InvalidSecurity"),
}
_OTHER_REGION = {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
_NO_CREDENTIALS = {
    *("NoCredentialsError", "PartialCredentialsError", "SSOTokenLoadError", "UnauthorizedSSOTokenError"),
    *("TokenRetrievalError", "InvalidConfigError", "LoginRefreshRequired"),
}
_SETTINGS = {"InvalidEndpointConfigurationError", "ParamValidationError", "NoRegionError", "EndpointProviderError"}


class Meaning(Enum):
    """How to react to an error."""

    RETRY = auto()
    MISSING = auto()
    TAKEN = auto()
    EMPTY_RANGE = auto()
    REFUSED = auto()


_MEANINGS: dict[int, Meaning] = {
    HTTPStatus.TOO_MANY_REQUESTS: Meaning.RETRY,
    HTTPStatus.REQUEST_TIMEOUT: Meaning.RETRY,
    HTTPStatus.CONFLICT: Meaning.RETRY,
    HTTPStatus.PRECONDITION_FAILED: Meaning.TAKEN,
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: Meaning.EMPTY_RANGE,
    HTTPStatus.NOT_FOUND: Meaning.MISSING,
}


@dataclass(frozen=True)
class S3Problem:
    """An error of a request: its meaning, and its name as the service or boto3 gives it."""

    meaning: Meaning
    name: str


def problem_of(error: Exception) -> S3Problem | None:
    """Classify an error of a request; None if neither boto3 nor the network raised it.

    Errors of boto3 that are not known to be final are retried.
    """
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    if isinstance(error, ClientError):
        return _problem_in(error.response)
    if not isinstance(error, BotoCoreError | ResponseParserError | OSError):
        return None
    name = type(error).__name__
    if name in _NO_CREDENTIALS | _SETTINGS:
        return S3Problem(Meaning.REFUSED, name)
    return S3Problem(Meaning.RETRY, name)


def _problem_in(response: dict[str, Any]) -> S3Problem:
    code = str(response.get("Error", {}).get("Code", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    name = f"{code} ({status})" if not code.isdigit() else code
    is_server_error = status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED
    if code in _RETRYABLE or is_server_error:
        return S3Problem(Meaning.RETRY, name)
    if code == "NoSuchBucket":
        return S3Problem(Meaning.REFUSED, name)
    return S3Problem(_MEANINGS.get(status, Meaning.REFUSED), name)


def refusal(problem: S3Problem, bucket: str, endpoint: str, operation: str) -> ConfigError:
    """Return the error for a request that fails until a setting changes."""
    code = problem.name.partition(" ")[0]
    return ConfigError(f"s3://{bucket}: {_remedy(code, bucket, endpoint, operation)} [{problem.name}, {endpoint}]")


def _remedy(code: str, bucket: str, endpoint: str, operation: str) -> str:
    if code == "NoSuchBucket":
        return f"there is no bucket {bucket} there; create it, or name another in `run:` and `store:`"
    if code in _NO_CREDENTIALS:
        return (
            "boto3 finds no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give "
            "this machine a role"
        )
    if code in _BAD_KEY:
        return (
            "the service does not accept these credentials, or they have expired; sign in again or correct "
            "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN or AWS_PROFILE, then give the command again"
        )
    if code == "RequestTimeTooSkewed":
        return "this machine's clock is wrong; set it"
    if code in _OTHER_REGION or code == "301":
        return "the bucket is in another region; set AWS_DEFAULT_REGION to it"
    if code == "NotImplemented":
        return f"the service cannot do {operation} as it is needed here; use one with conditional writes"
    if code in _SETTINGS:
        return "boto3 cannot use these settings; check the bucket's name, AWS_ENDPOINT_URL_S3 and AWS_DEFAULT_REGION"
    return (
        f"{operation} is refused; allow these credentials s3:ListBucket on the bucket, and s3:GetObject, "
        "s3:PutObject and s3:DeleteObject on what is in it"
    )


def unreachable(problem: S3Problem, bucket: str, endpoint: str, seconds: float) -> ConfigError:
    """Return the error for a service that did not answer when a command began."""
    return ConfigError(
        f"s3://{bucket}: no answer from {endpoint} in {seconds:.0f} s ({problem.name}); check AWS_ENDPOINT_URL_S3, "
        "AWS_DEFAULT_REGION and the network, or try again later"
    )
