"""The error classes, and their effect on a row, a model, a provider and a run.

| error             | row                   | model           | provider        | run                                  |
|-------------------|-----------------------|-----------------|-----------------|--------------------------------------|
| RowError          | permanent Failure     | continues       | continues       | continues                            |
| BadUsage          | permanent, at max cost| continues       | continues       | continues                            |
| ... ten alike     | then open             | stopped         | continues       | others continue; exit 5              |
| TransientError    | retried, then open    | continues       | continues       | continues; exit 5 if rows stay open  |
| RateLimited       | retried               | slows down      | continues       | continues                            |
| Overloaded        | retried, then open    | slows down,stops| continues       | others continue; exit 5              |
| Unreachable       | retried, then open    | continues       | pauses, stops   | others continue; exit 5              |
| Intercepted       | retried, then open    | continues       | pauses, stops   | others continue; exit 5              |
| ModelError        | open                  | stopped         | continues       | others continue; exit 5              |
| ProviderError     | open                  | stopped         | stopped         | others continue; exit 5              |
| DamagedFile       | derived again         | -               | -               | continues if the file can be rebuilt,|
|                   |                       |                 |                 | else ends; exit 7                    |
| EngineBroke       | open                  | -               | -               | keeps calls in flight; exit 7        |
| ConfigError       | -                     | -               | -               | never starts, or ends; exit 2        |
| StoreHeld         | -                     | -               | -               | never starts; exit 6                 |
| AccountBusy       | open                  | -               | -               | ends; exit 6                         |
| Interrupted       | open                  | -               | -               | ends; exit 130                       |
| LeaseLost         | open                  | -               | -               | stops spending at once; exit 6       |
| LeaseStale        | waits                 | waits           | waits           | spends nothing until renewal         |

"Ten alike": ten calls in a row, without a valid answer between them, refused in the same words, answered malformed or
by another model, or ended without an answer, by a timeout or a broken connection, after ten seconds. A call that ends
so twice, or whose answer the server breaks off twice, stays open, whatever its model answers to others.

"Open": the store has no reply and no permanent failure, so the same command sends the call again.

Exit status 7: the run could not continue, no paid reply is lost, and the same command resumes it, either at once (a
process of the engine died) or after the remedy in the message (disk full, damaged file). An exception that is not a
HabError is a bug: one line, exit 7.
"""

import errno
import os
import pickle
import re
from enum import IntEnum, StrEnum
from typing import Any

from hab_ray.visible import one_line


def installing(extra: str) -> str:
    """Return the remedy for a missing optional package, which comes with an extra of this one. No index has either."""
    return f"in your clone: pip install '.[{extra}]'"


class Exit(IntEnum):
    """Exit statuses of the command `hab`.

    1: a rehearsal's scores or bills are wrong. 8: the doctor found vendors with whose answers a sweep will not work,
    costs more or may lose rows.
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
        """The meaning and the remedy, in one line for the user."""
        return _MEANINGS[self]


_MEANINGS = {
    Exit.COMPLETE: "complete",
    Exit.NOT_RECOVERED: "the rehearsal did not recover what was planted",
    Exit.CONFIGURATION: "the configuration or a file is not usable; the message says what to change",
    Exit.PENDING: "batches are still at the vendors; the same command collects them",
    Exit.BUDGET: "budget reached; raise `budget_usd` (or `usd` of `budget`) and run the same command again",
    Exit.UNANSWERED: (
        "rows have no usable answer, or a dimension has no tests; the same command sends unanswered calls again, with "
        "--retry-failed also failed ones"
    ),
    Exit.HELD: "another process drives the store or calls the same account; wait for its end",
    Exit.ENGINE: "the run could not continue; what was paid for is kept; run the same command again to resume",
    Exit.DIFFERENT: "with the vendors' answers the sweep will not work, costs more or may lose rows, as listed above",
    Exit.INTERRUPTED: "interrupted; run the same command again to resume",
}


class FailureKind(StrEnum):
    """The reason why a call has no reply."""

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
    """Base class of all errors that this project raises on purpose. All can be sent to another process."""

    exit: Exit = Exit.UNANSWERED

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[HabError], args: tuple[Any, ...], state: dict[str, Any]) -> HabError:
    """Return an error as it was sent, without calling its constructor, whose parameters are not its `args`."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class ConfigError(HabError):
    """An invalid sweep file, rubric, catalogue or command line, or an unusable file; the message has the remedy."""

    exit = Exit.CONFIGURATION


class StoreHeld(HabError):
    """Another driver holds the store's lease."""

    exit = Exit.HELD


class AccountBusy(HabError):
    """Another process on this machine calls the same provider account, without shared rate limits."""

    exit = Exit.HELD


class LeaseLost(HabError):
    """This driver's lease was taken over, so it must not spend any more."""

    exit = Exit.HELD


class LeaseStale(LeaseLost):
    """This driver's lease was not renewed in time. Spenders should wait until it is renewed."""


class Interrupted(HabError):
    """The user ended the run; calls in flight are kept."""

    exit = Exit.INTERRUPTED


class DamagedFile(HabError):
    """A stored file that cannot be read; the message names the file and the remedy."""

    exit = Exit.ENGINE


class EngineBroke(HabError):
    """A failure of the run's infrastructure (a process of Ray, the disk); the same command resumes the run."""

    exit = Exit.ENGINE


_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE}
_NO_PATH = {errno.ENAMETOOLONG, errno.ELOOP}
# The linker says the second of a library on a disk without execution, too.
_NO_MEMORY = re.compile("can't start new thread|failed to map segment from shared object(?!: Operation not permitted)")
_KERNEL = ("/proc/", "/sys/")
_WRONG_FILES = (
    ({errno.EROFS, errno.EACCES, errno.EPERM}, "{reason}. Make the folder writable for this user"),
    ({errno.ENOTDIR, errno.EEXIST}, "a file is where a folder is needed. Move it away"),
    ({errno.EISDIR}, "a folder is where a file is needed. Move it away"),
    (
        {errno.ENXIO, errno.EOVERFLOW},
        "a pipe, a device or a file that nothing here has written is where a file of the run or store is needed. "
        "Move it away, put the file back from a backup",
    ),
)


def file_problem(error: OSError) -> HabError | None:
    """Convert an error of the file system into one with its remedy; None if it is another kind of OSError."""
    place = error.filename2 or error.filename or "a file or standard output"
    if error.errno in _NO_SPACE:
        return EngineBroke(
            f"{place}: cannot be written: {error.strerror}. Free space (or inodes: `df -i`) on that disk and run the "
            "same command again; what a run has stored by now is kept and not paid for again"
        )
    if error.errno in NO_DESCRIPTOR:
        return EngineBroke(
            f"{place}: cannot be opened: {error.strerror}. Raise the limit of open files (`ulimit -n`) or lower "
            "`limits: {concurrent: ...}` of the providers, and run the same command again"
        )
    if error.errno in {errno.EACCES, errno.EPERM} and _is_closed(place):
        return ConfigError(
            f"{place}: this user may not read it ({error.strerror}). Ask its owner, or name another run, store or file"
        )
    for numbers, problem in _WRONG_FILES:
        if error.errno in numbers:
            cause = problem.format(reason=error.strerror)
            return ConfigError(
                f"{place}: {cause}, or name another place: in a sweep `run:` or `store:`, on the command line --out or "
                "the FILE to write"
            )
    if error.errno in _NO_PATH:
        return ConfigError(f"{place}: {error.strerror}. Name another path for `run:`, `store:` or --out")
    if error.errno == errno.ENOENT and str(place).startswith(_KERNEL):
        return ConfigError(f"{place}: nothing can be written there: it is no disk. Name a path on a disk")
    if error.errno == errno.ENOENT and _is_current_folder_gone():
        return ConfigError("the current folder no longer exists: go to one that does (`cd`) and repeat the command")
    if error.errno == errno.EIO:
        return EngineBroke(f"{place}: the disk reports: {error.strerror}. Check it, then run the same command again")
    return None


def _is_closed(place: str | bytes | int) -> bool:
    """Whether a file or folder exists that this user may not read, or may be in a folder that this user may not."""
    try:
        return not os.access(place, os.R_OK) and bool(os.stat(place))
    except PermissionError:
        return True
    except OSError:
        return False


def _is_current_folder_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def problem_of(error: Exception) -> HabError | None:
    """Return an exception as an error of ours with its remedy; None for a bug."""
    match error:
        case HabError():
            return error
        case OSError():
            return file_problem(error)
        case _ if _lacks_memory(error):
            return EngineBroke(
                "there is no more memory, or no more threads, for this process: end other programs or raise the limit "
                "(`ulimit -v`, `ulimit -u`, or that of your container or job), and run the same command again; what a "
                "run has stored by now is kept"
            )
        case _:
            return None


def _lacks_memory(error: Exception) -> bool:
    """Whether the system refused memory, or a thread, which takes memory too."""
    is_told = isinstance(error, RuntimeError | ImportError) and _NO_MEMORY.search(str(error)) is not None
    return isinstance(error, MemoryError) or is_told


def exit_of(error: Exception) -> Exit:
    """Return the exit status for an exception; `Exit.ENGINE` for a bug."""
    known = problem_of(error)
    return known.exit if known else Exit.ENGINE


def sendable(error: Exception) -> Exception:
    """Return the error if another process can read it, else one of ours that quotes it."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its class raises
        ours = file_problem(error) if isinstance(error, OSError) else None
        return ours or EngineBroke(
            one_line(f"{type(error).__name__}: {error}") + "; what was paid for is kept; the same command resumes"
        )
    return error


class CallError(HabError):
    """A failed call. `kind` is the reason, and the class determines the reaction.

    `page` is the text of a response with HTTP 404 that is not JSON: the address or model is wrong, or a router between
    here and the vendor did not reach it. `is_answer`: the vendor answered, but broke the answer off, or it cannot be
    read; it may be billed.

    The message may quote a vendor and goes to terminals, logs and stored failures, so it is reduced to one line of
    visible characters.
    """

    page: str | None = None
    is_answer = False

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(one_line(message))
        self.kind = kind


class RowError(CallError):
    """A request that can never succeed; stored as a permanent Failure."""


class BadUsage(RowError):
    """An answer with an impossible usage; stored as a permanent Failure that cost all that was reserved for it."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            FailureKind.BAD_USAGE,
            f"the usage that the vendor reports is impossible: {problem}; the call is booked at the most that it can "
            "have cost, and sent again with --retry-failed",
        )


class TransientError(CallError):
    """A request that may succeed later; `retry_after_s` is the delay in seconds that the vendor asks for, if any."""

    def __init__(self, kind: FailureKind, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(kind, message)
        self.retry_after_s = retry_after_s


class RateLimited(TransientError):
    """The vendor's rate limit for this model is exceeded."""

    def __init__(self, message: str, retry_after_s: float | None) -> None:
        super().__init__(FailureKind.RATE_LIMITED, message, retry_after_s)


class Overloaded(TransientError):
    """The vendor currently lacks capacity for this model (503, 529)."""

    def __init__(self, message: str, retry_after_s: float | None) -> None:
        super().__init__(FailureKind.OVERLOADED, message, retry_after_s)


class Unreachable(TransientError):
    """There is no HTTP answer: the endpoint or the network is down."""


class Intercepted(TransientError):
    """The answer is a page or text of a proxy, firewall or challenge, not of the vendor's API."""


class ModelError(CallError):
    """The model cannot be used (retired, unknown, not allowed for this key), so it gets no further calls."""


class ProviderError(CallError):
    """The account cannot be used (bad key, no quota, spend cap), so the provider gets no further calls."""


class Untrusted(ProviderError):
    """The endpoint's certificate cannot be verified, so nothing was sent."""
