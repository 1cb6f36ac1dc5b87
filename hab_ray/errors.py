"""The tree of errors, and what each does to a row, a model, a provider and a run.

| error             | row                   | model           | provider        | run                                  |
|-------------------|-----------------------|-----------------|-----------------|--------------------------------------|
| RowError          | permanent Failure     | goes on         | goes on         | goes on                              |
| BadUsage          | permanent, at its most| goes on         | goes on         | goes on                              |
| ... ten alike     | then open             | stopped         | goes on         | others go on; exit 5                 |
| TransientError    | tried again, then open| goes on         | goes on         | goes on; exit 5 if rows stay open    |
| RateLimited       | tried again           | slows down      | goes on         | goes on                              |
| Overloaded        | tried again, then open| slows down,stops| goes on         | others go on; exit 5                 |
| Unreachable       | tried again, then open| goes on         | pauses, stops   | others go on; exit 5                 |
| Intercepted       | tried again, then open| goes on         | pauses, stops   | others go on; exit 5                 |
| ModelError        | open                  | stopped         | goes on         | others go on; exit 5                 |
| ProviderError     | open                  | stopped         | stopped         | others go on; exit 5                 |
| DamagedFile       | derived again         | -               | -               | goes on where it can be rebuilt, else|
|                   |                       |                 |                 | ends; exit 7                         |
| EngineBroke       | open                  | -               | -               | what is in flight is kept; exit 7    |
| ConfigError       | -                     | -               | -               | never starts; exit 2                 |
| StoreHeld         | -                     | -               | -               | never starts; exit 6                 |
| AccountBusy       | open                  | -               | -               | ends; exit 6                         |
| Interrupted       | open                  | -               | -               | ends; exit 130                       |
| LeaseLost         | open                  | -               | -               | stops spending at once; exit 6       |
| LeaseStale        | waits                 | waits           | waits           | spends nothing until it is renewed   |

"Ten alike" means: in a row, without an answer between them, refused in the same words or answered malformed.

"Open" means: no reply and no permanent failure is stored, so the same command asks again.

Exit status 7 means: this run could not go on, nothing that was paid for is lost, and the same command goes on, at
once (a process of the engine died) or after the message's remedy (disk full, damaged file). An exception that is
not a HabError is a bug: one line, exit 7.
"""

from __future__ import annotations

import errno
from enum import IntEnum, StrEnum

from hab_ray.visible import one_line


class Exit(IntEnum):
    """Exit statuses of the command `hab`.

    1: a rehearsal ended, and its scores or bills are not what they must be. 8: the doctor found that vendors answer
    so that a sweep will not work, costs more or may lose rows.
    """

    COMPLETE = 0
    NOT_RECOVERED = 1
    CONFIGURATION = 2
    PENDING = 3
    BUDGET = 4
    UNANSWERED = 5
    HELD = 6
    ENGINE = 7
    DIFFERENT = 8
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """What it means, with the remedy, in a line for the user."""
        return _MEANINGS[self]


_MEANINGS = {
    Exit.COMPLETE: "complete",
    Exit.NOT_RECOVERED: "what came out of the rehearsal is not what was planted",
    Exit.CONFIGURATION: "the configuration is wrong, and nothing was sent; the message says what to change",
    Exit.PENDING: "batches are still at the vendors; the same command collects them",
    Exit.BUDGET: "budget reached; raise `budget_usd` (or `usd` of `budget`) and give the same command again",
    Exit.UNANSWERED: "rows have no usable answer because of failures; the same command asks again",
    Exit.HELD: "another process drives the store or calls the same account; wait for its end",
    Exit.ENGINE: "the run could not go on; what was paid for is kept, and the same command goes on",
    Exit.DIFFERENT: "vendors answer so that the sweep will not work, costs more or may lose rows, as named above",
    Exit.INTERRUPTED: "interrupted; the same command goes on where this ended",
}


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
    WITHHELD = "withheld"


class HabError(Exception):
    """Base of every error this project raises on purpose."""

    exit: Exit = Exit.UNANSWERED


class ConfigError(HabError):
    """A sweep file, rubric, catalogue or command line that cannot be run: names file, key and remedy."""

    exit = Exit.CONFIGURATION


class StoreHeld(HabError):
    """Another driver holds the store's lease."""

    exit = Exit.HELD


class AccountBusy(HabError):
    """Another process on this machine calls a provider account whose limits it does not share."""

    exit = Exit.HELD


class LeaseLost(HabError):
    """This driver's lease was taken over: nothing more may be spent."""

    exit = Exit.HELD


class LeaseStale(LeaseLost):
    """This driver's lease could not be renewed in time: nothing may be spent until it is. Who can wait, waits."""


class Interrupted(HabError):
    """The user ended the run; what was in flight is kept."""

    exit = Exit.INTERRUPTED


class DamagedFile(HabError):
    """A stored file cannot be read: names the file and what to do with it."""

    exit = Exit.ENGINE


class EngineBroke(HabError):
    """Something the run stands on broke (a process of Ray, the disk); the same command goes on."""

    exit = Exit.ENGINE


_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_WRITABLE = {errno.EROFS, errno.EACCES, errno.EPERM}
_NOT_A_FOLDER = {errno.ENOTDIR, errno.EEXIST}
_FOLDER_IN_THE_WAY = {errno.EISDIR}
_NO_FILE = {errno.ENXIO, errno.EOVERFLOW}
_KERNEL = ("/proc/", "/sys/")
_NO_PATH = {errno.ENAMETOOLONG, errno.ELOOP}


def file_problem(error: OSError) -> HabError | None:
    """What an error of the file system means for a run, with its remedy; None where it is no such error."""
    place = error.filename2 or error.filename or "a file that this command writes"
    if error.errno in _NO_SPACE:
        return EngineBroke(
            f"{place}: cannot be written: {error.strerror}. Free space on that disk and give the same command again; "
            "what a run has stored by now is kept and not paid for again"
        )
    if error.errno in _NOT_WRITABLE:
        return ConfigError(
            f"{place}: {error.strerror}. Make the folder writable for this user, or name another `run:` or `store:`"
        )
    if error.errno in _NOT_A_FOLDER:
        return ConfigError(
            f"{place}: a file is where a folder is needed. Move it away, or name another `run:` or `store:`"
        )
    if error.errno in _FOLDER_IN_THE_WAY:
        return ConfigError(
            f"{place}: a folder is where a file is needed. Move it away, or name another `run:` or `store:`"
        )
    if error.errno in _NO_FILE:
        return ConfigError(
            f"{place}: a pipe, a device or a file that nothing here has written is where a file of the run or store is "
            "needed. Move it away, put the file back from a backup, or name another `run:` or `store:`"
        )
    if error.errno in _NO_PATH:
        return ConfigError(f"{place}: {error.strerror}. Name another path for `run:` or `store:`")
    if error.errno == errno.ENOENT and str(place).startswith(_KERNEL):
        return ConfigError(f"{place}: nothing can be written there: it is no disk. Name a path on a disk")
    if error.errno == errno.EIO:
        return EngineBroke(f"{place}: the disk reports: {error.strerror}. Check it, then give the same command again")
    return None


def exit_of(error: Exception) -> Exit:
    """The exit status that an exception leads to; one that is neither ours nor the file system's is a bug."""
    ours = file_problem(error) if isinstance(error, OSError) else error
    return ours.exit if isinstance(ours, HabError) else Exit.ENGINE


class CallError(HabError):
    """A call failed; `kind` says how, the class says what follows from it.

    The message holds a vendor's words and goes to terminals, logs and stored failures: it is one line that hides
    nothing.
    """

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(one_line(message))
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


class Overloaded(TransientError):
    """The vendor has no capacity for this model at the moment (503, 529)."""

    def __init__(self, message: str, retry_after_s: float | None) -> None:
        super().__init__(FailureKind.OVERLOADED, message, retry_after_s)


class Unreachable(TransientError):
    """No HTTP answer at all: the endpoint or the network is down."""


class Intercepted(TransientError):
    """A web page instead of the vendor's answer: a proxy, firewall or challenge page stands in between."""


class ModelError(CallError):
    """The model cannot be used (retired, unknown, not allowed for this key): no further call to it."""


class ProviderError(CallError):
    """The account cannot be used (bad key, no quota, spend cap): no further call to the provider."""
