"""Requests to one bucket, repeated for as long as the service is away.

A store that cannot be reached for a minute must not end a run that has paid for replies it holds in memory. So a
request that fails for a reason that may pass is sent again, after pauses that grow to `MAX_PAUSE_S`, without end;
the log says so. A signal ends the process all the same: see `hab_ray.stopping`.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from math import inf
from typing import Any, TypeVar

from hab_ray.storage.s3.connection import Connection
from hab_ray.storage.s3.problems import Meaning, S3Problem, problem_of, refusal, unreachable

FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 5.0
SAY_EVERY_S = 20.0
_OUTAGE_S = 2.0

log = logging.getLogger("hab_ray.storage")
T = TypeVar("T")


class Failed(Exception):
    """A request that was answered by something else than success; `repeated`: an earlier try may have worked."""

    def __init__(self, meaning: Meaning, repeated: bool) -> None:
        super().__init__(meaning.name)
        self.meaning, self.repeated = meaning, repeated


class Requests:
    """Sends requests about one bucket."""

    def __init__(self, connection: Connection, bucket: str) -> None:
        self._connection, self._bucket = connection, bucket
        self._outages = _Outages(f"s3://{bucket}")

    @property
    def endpoint(self) -> str:
        """The address of the service."""
        return self._connection.endpoint

    def send(self, operation: str, longest_s: float = inf, **parameters: Any) -> dict[str, Any]:
        """The answer to one of boto3's client methods.

        Raises:
            Failed: there is no such object, or it exists, or nothing is in the range.
            ConfigError: it is refused, or with `longest_s` set there was no answer in that time.
        """

        def request() -> dict[str, Any]:
            answer: dict[str, Any] = getattr(self._connection.client, operation)(Bucket=self._bucket, **parameters)
            return answer

        return self._repeated(operation, request, longest_s)

    def fetch(self, **parameters: Any) -> tuple[bytes, str]:
        """The bytes and the ETag of an object."""

        def request() -> tuple[bytes, str]:
            answer = self._connection.client.get_object(Bucket=self._bucket, **parameters)
            return answer["Body"].read(), answer["ETag"]

        return self._repeated("get_object", request, inf)

    def _repeated(self, operation: str, request: Callable[[], T], longest_s: float) -> T:
        began, pause, repeated = time.monotonic(), FIRST_PAUSE_S, False
        while True:
            try:
                answer = request()
            except Exception as error:  # boto3 raises errors of many kinds; `problem_of` sorts them
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
            if problem.meaning is not Meaning.AGAIN:
                raise Failed(problem.meaning, repeated) from None
            if waited >= longest_s:
                raise unreachable(problem, self._bucket, self.endpoint, waited) from None
            self._outages.note(problem, waited)
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause, repeated = min(2 * pause, MAX_PAUSE_S), True


class _Outages:
    """Says in the log that requests are repeated, at most every `SAY_EVERY_S`, and when an outage is over."""

    def __init__(self, where: str) -> None:
        self._where, self._lock = where, threading.Lock()
        self._said_at, self._since_said, self._said_outage = -inf, 0, False

    def note(self, problem: S3Problem, waited_s: float) -> None:
        """A request failed and is repeated; it has waited so long by now."""
        with self._lock:
            self._since_said += 1
            if time.monotonic() - self._said_at < SAY_EVERY_S:
                return
            times, self._since_said, self._said_at = self._since_said, 0, time.monotonic()
            self._said_outage = True
        log.warning(
            "%s: no proper answer (%s; tries since last told: %d); waits and tries again, for %.0f s by now",
            self._where,
            problem.name,
            times,
            waited_s,
        )

    def end(self, waited_s: float) -> None:
        """A request that was repeated has its answer."""
        with self._lock:
            if not self._said_outage or waited_s < _OUTAGE_S:
                return
            self._said_outage, self._said_at = False, -inf
        log.warning("%s: answers again after %.0f s", self._where, waited_s)
