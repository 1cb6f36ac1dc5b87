"""Requests to one bucket, retried for as long as the service is unavailable.

A short outage of the store must not end a run that holds paid replies in memory. So a request that fails for a
temporary reason is retried without limit, with backoff up to `MAX_PAUSE_S`, and the log says so. A signal still ends
the process: see `hab_ray.stopping`.
"""

import logging
import random
import threading
import time
from collections.abc import Mapping
from math import inf
from typing import Any

from hab_ray.storage.s3.connection import Connection
from hab_ray.storage.s3.problems import Meaning, S3Problem, problem_of, refusal, unreachable

FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 5.0
SAY_EVERY_S = 20.0
_OUTAGE_S = 2.0
_ALWAYS_GIVEN = {
    "list_objects_v2": "IsTruncated",
    "copy_object": "CopyObjectResult",
    **dict.fromkeys(("put_object", "get_object", "head_object"), "ETag"),
}

log = logging.getLogger("hab_ray.storage")


class Failed(Exception):
    """A request with a final answer other than success; if `repeated`, an earlier attempt may have succeeded."""

    def __init__(self, meaning: Meaning, repeated: bool) -> None:
        super().__init__(meaning.name)
        self.meaning, self.repeated = meaning, repeated


class NotFromS3(OSError):
    """An answer with status 200 that S3 does not give, such as a proxy's login page: boto3 reads it as an empty one."""


class Requests:
    """A sender of requests to one bucket."""

    def __init__(self, connection: Connection, bucket: str) -> None:
        self._connection, self._bucket = connection, bucket
        self._outages = _Outages(f"s3://{bucket} at {connection.endpoint}")

    @property
    def endpoint(self) -> str:
        """The address of the service."""
        return self._connection.endpoint

    def send(self, operation: str, longest_s: float = inf, **parameters: Any) -> dict[str, Any]:
        """Call a method of the boto3 client and return its answer, whose `Body` has been read.

        Raises:
            Failed: the object is missing or already exists, or the range is empty.
            ConfigError: the service refused the request, or did not answer within `longest_s`.
        """
        began, pause, repeated = time.monotonic(), FIRST_PAUSE_S, False
        while True:
            try:
                answer = self._answer(operation, parameters)
            except Exception as error:  # boto3 raises errors of many kinds; `problem_of` classifies them
                problem = problem_of(error)
                if problem is None:
                    raise
            else:
                if repeated:
                    self._outages.end(time.monotonic() - began)
                return answer
            waited = time.monotonic() - began
            if problem.meaning is Meaning.REFUSED:
                raise refusal(problem, self._bucket, self.endpoint, operation) from None
            if problem.meaning is not Meaning.RETRY:
                raise Failed(problem.meaning, repeated) from None
            if waited >= longest_s:
                raise unreachable(problem, self._bucket, self.endpoint, waited) from None
            self._outages.note(problem, waited)
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause, repeated = min(2 * pause, MAX_PAUSE_S), True

    def _answer(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = getattr(self._connection.client, operation)(Bucket=self._bucket, **parameters)
        if operation in _ALWAYS_GIVEN and _ALWAYS_GIVEN[operation] not in answer:
            raise NotFromS3
        if "Body" in answer:
            answer["Body"] = answer["Body"].read()
        return answer


class _Outages:
    """A log of outages: that requests are being retried, at most every `SAY_EVERY_S`, and the end of an outage."""

    def __init__(self, where: str) -> None:
        self._where, self._lock = where, threading.Lock()
        self._logged_at, self._failures, self._is_reported = -inf, 0, False

    def note(self, problem: S3Problem, waited_s: float) -> None:
        """Report an attempt that failed and will be retried, `waited_s` after the first one."""
        with self._lock:
            self._failures += 1
            if time.monotonic() - self._logged_at < SAY_EVERY_S:
                return
            failures, self._failures, self._logged_at = self._failures, 0, time.monotonic()
            self._is_reported = True
        log.warning(
            "%s: no usable answer for %.0f s (%s; attempts failed since the last message: %d); retrying",
            self._where,
            waited_s,
            problem.name,
            failures,
        )

    def end(self, waited_s: float) -> None:
        with self._lock:
            if not self._is_reported or waited_s < _OUTAGE_S:
                return
            self._is_reported, self._logged_at = False, -inf
        log.warning("%s: answers again after %.0f s", self._where, waited_s)
