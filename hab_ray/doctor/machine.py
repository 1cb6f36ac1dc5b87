"""Checks what a run needs on this machine: Python, Ray, disk space, a correct clock, local weights."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from hab_ray.catalog.models import ModelEntry, Purpose
from hab_ray.doctor.findings import Finding, ok, warn, wrong
from hab_ray.errors import ConfigError, installing
from hab_ray.local import SERVER_PACKAGE, LocalError, default_cache, embedding_weights, locate
from hab_ray.location import Location
from hab_ray.storage.folder import reach
from hab_ray.storage.lease.takeover import held_notice

MIN_PYTHON = (3, 11)
MIN_RAY = (2, 60)
LOW_SPACE, MIN_SPACE = 2 << 30, 64 << 20
# S3 refuses signatures that are 15 minutes off; certificates may fail at less.
CLOCK_OFF, CLOCK_WRONG = timedelta(minutes=1), timedelta(minutes=15)
_BUILT = datetime(2026, 11, 1, tzinfo=UTC)


def python(running: tuple[int, ...] = tuple(sys.version_info[:3])) -> Finding:
    """Check the interpreter's version."""
    seen = ".".join(map(str, running))
    if running < MIN_PYTHON:
        return wrong("Python", seen, "install Python 3.11 or newer")
    return ok("Python", seen)


def ray() -> Finding:
    """Check the installed version of Ray without importing it."""
    try:
        seen = version("ray")
    except PackageNotFoundError:
        return wrong("Ray", "not installed", "install hab_ray with its dependencies; `executor: local` works without")
    numbers = tuple(int(part) for part in seen.split(".")[:2] if part.isdecimal())
    if numbers < MIN_RAY:
        return warn("Ray", seen, "install ray 2.60 or newer")
    return ok("Ray", seen)


def room(key: str, place: Location) -> Finding:
    """Check that the folder of a run or store is writable and that its disk has space."""
    if not place.is_local:
        return _bucket(key, place)
    path = place.absolute().path
    folder = next((each for each in (path, *path.parents) if os.path.isdir(each)), Path("/"))  # what this user can see
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"hab doctor")
            file.flush()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        remedy = f"make {folder} writable for this user, or name another `{key}:`"
        return wrong(key, f"{place}: cannot be written: {error.strerror}", remedy)
    seen = f"{place}: writable, {free / (1 << 30):,.1f} GB free"
    if free < MIN_SPACE:
        return wrong(key, seen, f"free space on that disk, or name another `{key}:`")
    if free < LOW_SPACE:
        return warn(key, seen, "large sweeps need a few gigabytes; free space on that disk")
    return ok(key, seen)


def free_store(store: Location, run: Location) -> Iterator[Finding]:
    """Yield a warning if a process on this machine holds the store now, so that no other can run with it."""
    try:
        held = held_notice(store, run)
    except OSError as error:
        seen = f"{error.filename}: cannot be read: {error.strerror}"
        yield wrong("store in use", seen, "make it readable for this user")
        return
    if held:
        cause, _, remedy = held.partition(": ")
        yield warn("store in use", cause, remedy)


def _bucket(key: str, place: Location) -> Finding:
    try:
        reach(place)
    except ConfigError as error:
        return wrong(key, str(error), f"correct `{key}:` or the credentials of the bucket")
    return ok(key, f"{place}: the bucket answers")


def clock(now: datetime, vendors: Sequence[tuple[str, datetime]]) -> Finding:
    """Compare this machine's clock with the nearest of the vendors' that have just answered."""
    seen = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    remedy = "set the clock, e.g. by NTP: batches, leases and signed requests depend on it"
    if not vendors:
        if now < _BUILT:
            return wrong("clock", f"{seen}, before this version was released", remedy)
        return ok("clock", f"{seen}; no vendor answered to compare it with")
    name, theirs = min(vendors, key=lambda vendor: abs(vendor[1] - now))
    off = abs(theirs - now)
    compared = f"{seen}, {off.total_seconds():.0f} s from {name}'s"
    if off > CLOCK_WRONG:
        return wrong("clock", compared, remedy)
    return warn("clock", compared, remedy) if off > CLOCK_OFF else ok("clock", compared)


def weights(models: Sequence[tuple[str, ModelEntry]]) -> Iterator[Finding]:
    """Check whether the weights of models to serve on this machine are present; download nothing."""
    for name, entry in models:
        subject = f"weights of {name}"
        if entry.purpose is Purpose.EMBEDDING:
            yield _embedding_weights(subject, entry.wire)
        else:
            yield _chat_weights(subject, entry.weights or entry.wire)


def _embedding_weights(subject: str, name: str) -> Finding:
    try:
        return _present(subject, embedding_weights(name))
    except LocalError as error:
        return wrong(subject, str(error).partition(". ")[0], f"{installing('local')}, and use its model wordllama")


def _chat_weights(subject: str, name_or_path: str) -> Finding:
    if find_spec(SERVER_PACKAGE) is None:
        return wrong(subject, f"the package {SERVER_PACKAGE} is not installed", installing("local"))
    try:
        wanted = locate(name_or_path, default_cache())
    except LocalError as error:
        cause, _, remedy = str(error).partition(". ")
        return wrong(subject, cause, remedy or "correct the name")
    if wanted.path.is_file():
        return _present(subject, wanted.path)
    if wanted.source is None:
        return wrong(subject, f"{wanted.path}: there is no such file", "correct the path of the .gguf file")
    remedy = f"`hab run` downloads them, and so does `hab local pull {name_or_path}`"
    return warn(subject, f"no weights at {wanted.path}", remedy)


def _present(subject: str, path: Path) -> Finding:
    return ok(subject, f"{path} ({path.stat().st_size / (1 << 20):,.0f} MB)")
