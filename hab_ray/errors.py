"""The tree of errors, and what each does to a row, a model, a provider and a run.

| error             | row                   | model           | provider        | run                                  |
|-------------------|-----------------------|-----------------|-----------------|--------------------------------------|
| RowError          | permanent Failure     | goes on         | goes on         | goes on                              |
| BadUsage          | permanent, at its most| goes on         | goes on         | goes on                              |
| TransientError    | tried again, then open| goes on         | goes on         | goes on; exit 5 if rows stay open    |
| RateLimited       | tried again           | slows down      | goes on         | goes on                              |
| Unreachable       | tried again, then open| goes on         | pauses, stops   | others go on; exit 5                 |
| Intercepted       | tried again, then open| goes on         | pauses, stops   | others go on; exit 5                 |
| ModelError        | open                  | stopped         | goes on         | others go on; exit 5                 |
| ProviderError     | open                  | stopped         | stopped         | others go on; exit 5                 |
| DamagedFile       | derived again         | -               | -               | goes on where it can be rebuilt      |
| ConfigError       | -                     | -               | -               | never starts; exit 2                 |
| StoreHeld         | -                     | -               | -               | never starts; exit 6                 |
| Interrupted       | open                  | -               | -               | ends; exit 130                       |
| LeaseLost         | open                  | -               | -               | stops spending at once; exit 6       |

"Open" means: no reply and no permanent failure is stored, so the same command asks again.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Exit(IntEnum):
    """Exit statuses of the command `hab`. 1: a rehearsal ended, and its scores or bills are not what they must be."""

    COMPLETE = 0
    NOT_RECOVERED = 1
    CONFIGURATION = 2
    PENDING = 3
    BUDGET = 4
    UNANSWERED = 5
    HELD = 6
    INTERRUPTED = 130


class FailureKind(StrEnum):
    """Why a call brought no reply."""

    BAD_REQUEST = "bad_request"
    TOO_LONG = "too_long"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    SERVER = "server"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    MALFORMED = "malformed"
    BAD_USAGE = "bad_usage"
    MODEL_UNKNOWN = "model_unknown"
    MODEL_RETIRED = "model_retired"
    BAD_KEY = "bad_key"
    NO_QUOTA = "no_quota"
    STOPPED = "stopped"


class HabError(Exception):
    """Base of every error this project raises on purpose."""

    exit: Exit = Exit.UNANSWERED


class ConfigError(HabError):
    """A sweep file, rubric, catalogue or command line that cannot be run: names file, key and remedy."""

    exit = Exit.CONFIGURATION


class StoreHeld(HabError):
    """Another driver holds the store's lease."""

    exit = Exit.HELD


class LeaseLost(HabError):
    """This driver's lease was taken over: nothing more may be spent."""

    exit = Exit.HELD


class Interrupted(HabError):
    """The user ended the run; what was in flight is kept."""

    exit = Exit.INTERRUPTED


class DamagedFile(HabError):
    """A stored file cannot be read."""


class CallError(HabError):
    """A call failed; `kind` says how, the class says what follows from it."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class RowError(CallError):
    """This request will never succeed as it stands: stored as a permanent Failure."""


class BadUsage(RowError):
    """An answer whose usage cannot be money: stored as a permanent Failure that cost all that was reserved for it."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            FailureKind.BAD_USAGE,
            f"the usage that the vendor reports is impossible: {problem}; the call is booked at the most that it can "
            "have cost, and asked again with --retry-failed",
        )


class TransientError(CallError):
    """The same request may succeed later; `retry_after_s` is the vendor's word in seconds, where it gave one."""

    def __init__(self, kind: FailureKind, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(kind, message)
        self.retry_after_s = retry_after_s


class RateLimited(TransientError):
    """Too fast for this model."""

    def __init__(self, message: str, retry_after_s: float | None) -> None:
        super().__init__(FailureKind.RATE_LIMITED, message, retry_after_s)


class Unreachable(TransientError):
    """No HTTP answer at all: the endpoint or the network is down."""


class Intercepted(TransientError):
    """A web page instead of the vendor's answer: a proxy, firewall or challenge page stands in between."""


class ModelError(CallError):
    """The model cannot be used (retired, unknown, not allowed for this key): no further call to it."""


class ProviderError(CallError):
    """The account cannot be used (bad key, no quota, spend cap): no further call to the provider."""
