"""`--log-format json`: all that a command says as one JSON object per line.

Each has `at`, `level` and `message`; what the run reports has `run` as well, and `shard` or `batch` where it is about
one (see `sweep.telling.log`). The scores come in one, as `scores`; what else is meant for people, such as the plan,
comes line by line.
"""

from __future__ import annotations

import io
import logging
from datetime import UTC, datetime
from typing import IO, TextIO, cast

from rich.console import Console

from hab_ray.cli.views.terminal import write_nowhere
from hab_ray.visible import log_json


class _Lines(io.TextIOBase):
    """A text stream that writes each line as a message."""

    def __init__(self, target: IO[str], level: str) -> None:
        self._target, self._level, self._begun = target, level, ""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._target.fileno()

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            if line.strip():
                self._target.write(_line(datetime.now(UTC), self._level, line.rstrip()))
        return len(text)

    def flush(self) -> None:
        if not self.closed:
            self._target.flush()


class _Handler(logging.Handler):
    """Writes the run's own records."""

    def __init__(self, target: IO[str]) -> None:
        super().__init__(logging.INFO)
        self._target = target

    def emit(self, record: logging.LogRecord) -> None:
        try:
            at = datetime.fromtimestamp(record.created, UTC)
            fields = getattr(record, "fields", {})
            self._target.write(_line(at, record.levelname.lower(), record.getMessage(), **fields))
            self._target.flush()
        except BrokenPipeError:
            write_nowhere(self._target)
        except (OSError, ValueError):
            self.handleError(record)


def _line(at: datetime, level: str, message: str, **fields: object) -> str:
    head = {"at": at.isoformat(timespec="milliseconds"), "level": level, "message": message}
    return log_json(head | fields) + "\n"


def log_as_json(console: Console, errors: Console) -> None:
    """From now on write everything that is said here as JSON."""
    logger = logging.getLogger("hab_ray")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(_Handler(console.file))
    console.file = cast(TextIO, _Lines(console.file, "info"))
    errors.file = cast(TextIO, _Lines(errors.file, "error"))
