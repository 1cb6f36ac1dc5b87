"""What an error of an S3 request means: try again, no such object, taken, or a setting that has to change."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import Any

from hab_ray.errors import ConfigError

_AGAIN = {
    *("SlowDown", "Throttling", "ThrottlingException", "RequestTimeout", "RequestTimeTooLarge", "InternalError"),
    *("ServiceUnavailable", "OperationAborted", "ConditionalRequestConflict", "RequestLimitExceeded", "BadDigest"),
    *("IncompleteBody", "XAmzContentSHA256Mismatch", "TooManyRequests", "RequestThrottled"),
}
_BAD_KEY = {
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "TokenRefreshRequired", "ExpiredToken"),
    *("UnrecognizedClientException", "AuthFailure", "InvalidSecurity"),
}
_ELSEWHERE = {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
_NO_CREDENTIALS = {
    *("NoCredentialsError", "PartialCredentialsError", "SSOTokenLoadError", "UnauthorizedSSOTokenError"),
    *("TokenRetrievalError", "InvalidConfigError", "LoginRefreshRequired"),
}
_SETTINGS = {"InvalidEndpointConfigurationError", "ParamValidationError", "NoRegionError", "EndpointProviderError"}


class Meaning(Enum):
    """What follows from an error."""

    AGAIN = auto()
    MISSING = auto()
    TAKEN = auto()
    NOTHING_THERE = auto()
    REFUSED = auto()


@dataclass(frozen=True)
class S3Problem:
    """An error of a request: what follows from it, and its name as the service or boto3 gives it."""

    meaning: Meaning
    name: str


def problem_of(error: Exception) -> S3Problem | None:
    """What an error of a request means; None where it is no error of boto3's or of the network.

    What boto3 reports and is not known to be final is tried again.
    """
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    if isinstance(error, ClientError):
        return _answered(error.response)
    if not isinstance(error, BotoCoreError | ResponseParserError | OSError):
        return None
    name = type(error).__name__
    if name in _NO_CREDENTIALS | _SETTINGS:
        return S3Problem(Meaning.REFUSED, name)
    return S3Problem(Meaning.AGAIN, name)


def _answered(response: dict[str, Any]) -> S3Problem:
    code = str(response.get("Error", {}).get("Code", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    named = f"{code} ({status})" if not code.isdigit() else code
    if code in _AGAIN or status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT):
        return S3Problem(Meaning.AGAIN, named)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED:
        return S3Problem(Meaning.AGAIN, named)
    if status == HTTPStatus.PRECONDITION_FAILED:
        return S3Problem(Meaning.TAKEN, named)
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        return S3Problem(Meaning.NOTHING_THERE, named)
    if status == HTTPStatus.NOT_FOUND and code != "NoSuchBucket":
        return S3Problem(Meaning.MISSING, named)
    return S3Problem(Meaning.REFUSED, named)


def refusal(problem: S3Problem, bucket: str, endpoint: str, operation: str) -> ConfigError:
    """The message for a request that will fail for as long as the settings stay as they are."""
    code = problem.name.partition(" ")[0]
    return ConfigError(f"s3://{bucket}: {_remedy(code, bucket, endpoint, operation)} [{problem.name}, {endpoint}]")


def _remedy(code: str, bucket: str, endpoint: str, operation: str) -> str:
    if code == "NoSuchBucket":
        return f"there is no bucket {bucket} there; make it, or name another in `run:` and `store:`"
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
    if code in _ELSEWHERE or code == "301":
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
    """The message for a service that did not answer when a command began."""
    return ConfigError(
        f"s3://{bucket}: no answer from {endpoint} in {seconds:.0f} s ({problem.name}); check AWS_ENDPOINT_URL_S3, "
        "AWS_DEFAULT_REGION and the network, or try again later"
    )
