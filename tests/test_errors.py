"""Errors reach the user from whichever process raises them."""

import errno
import pickle
from collections.abc import Iterator

import pytest

from hab_ray.errors import (
    BadUsage,
    DamagedFile,
    EngineBroke,
    Exit,
    FailureKind,
    HabError,
    ProviderError,
    RateLimited,
    TransientError,
    exit_of,
    file_problem,
    sendable,
)
from tests.odd_errors import OddError


class OddFileError(OSError):
    def __init__(self, name: str) -> None:
        super().__init__(errno.ENOSPC, "No space left on device", name)


def ours() -> Iterator[HabError]:
    yield DamagedFile("a.parquet: damaged")
    yield BadUsage("output -1")
    yield RateLimited("slow down", 3.0)
    yield TransientError(FailureKind.SERVER, "later", 2.0)
    yield ProviderError(FailureKind.BAD_KEY, "no such key")


@pytest.mark.parametrize("error", list(ours()), ids=lambda error: type(error).__name__)
def test_our_errors_are_the_same_in_another_process(error: HabError) -> None:
    received = pickle.loads(pickle.dumps(error))
    assert type(received) is type(error)
    assert (str(received), vars(received), received.exit) == (str(error), vars(error), error.exit)
    assert sendable(error) is error


def test_an_error_that_cannot_be_sent_is_quoted() -> None:
    sent = sendable(OddError("the index", 7))
    assert isinstance(sent, EngineBroke) and exit_of(sent) is Exit.ENGINE
    assert "OddError: the index failed with 7" in str(pickle.loads(pickle.dumps(sent)))


def test_an_error_of_the_disk_that_cannot_be_sent_keeps_its_remedy() -> None:
    sent = sendable(OddFileError("/runs/demo/a.parquet"))
    assert "/runs/demo/a.parquet: cannot be written" in str(sent) and "Free space" in str(sent)


def test_too_many_open_files_is_told_with_its_remedy() -> None:
    error = OSError(errno.EMFILE, "Too many open files", "/store/lease")
    assert exit_of(error) is Exit.ENGINE and "`ulimit -n`" in str(file_problem(error))


def test_of_a_folder_that_cannot_be_written_every_commands_other_place_is_named() -> None:
    """`hab figures` and `hab init` have no `run:` to change."""
    told = str(file_problem(OSError(errno.EROFS, "Read-only file system", "/runs/demo/figures")))
    assert all(place in told for place in ("/runs/demo/figures", "writable", "`run:`", "`store:`", "--out", "FILE"))


def test_status_5_promises_only_that_unanswered_calls_are_sent_again() -> None:
    """A run also ends with it once every call is answered, if a model, subject or judge has no usable row."""
    assert "sends unanswered calls again, with --retry-failed also failed ones" in Exit.UNANSWERED.meaning
