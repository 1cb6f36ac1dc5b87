"""`--log-format json`: all output of a command as one JSON object per line.

Each object has `at`, `level` and `message`; once the sweep file is read, also `run`. Reports of the run have `shard` or
`batch` if they concern one (see `sweep.monitoring.log`). One object has all scores, as `scores`. Other output, such as
the plan, is one object per line of text.
"""

import io
import logging
from datetime import UTC, datetime
from typing import IO, TextIO, cast

from rich.console import Console

from hab_ray.cli.views.terminal import write_nowhere
from hab_ray.visible import log_json

_of_all_lines: dict[str, str] = {}


class _Lines(io.TextIOBase):
    """A text stream that writes each line to `target` as a JSON message."""

    def __init__(self, target: IO[str], level: str) -> None:
        self._target, self._level, self._rest = target, level, ""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._target.fileno()

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if line.strip():
                self._target.write(_line(datetime.now(UTC), self._level, line.rstrip()))
        return len(text)

    def flush(self) -> None:
        if not self.closed:
            self._target.flush()


class _Handler(logging.Handler):
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
    return log_json(head | _of_all_lines | fields) + "\n"


def name_run(run: str) -> None:
    """Add the run to all further lines."""
    _of_all_lines["run"] = run


def log_as_json(console: Console, errors: Console) -> None:
    """Write all further output of both consoles and of the logger `hab_ray` as JSON lines."""
    logger = logging.getLogger("hab_ray")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(_Handler(console.file))
    console.file = cast(TextIO, _Lines(console.file, "info"))
    errors.file = cast(TextIO, _Lines(errors.file, "error"))
