"""Where a rehearsal is kept, and how its replies stay apart from paid ones.

Two things keep them apart. Every call of a rehearsal has a key of its own kind (its `as_of` is "simulated"), so
that no real run can ever read a simulated reply, nor a rehearsal a real one. And both folders of a rehearsal carry
a marker: a rehearsal takes only folders that are empty or marked, a real run refuses marked ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hab_ray.config.sweep import Sweep
from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.stopping import Stop
from hab_ray.storage.folder import open_folder
from hab_ray.storage.run import MARKER, OF_A_RUN, SWEEP
from hab_ray.sweep.session import Say, Session, spending
from hab_ray.work import Work

_TEXT = "What stands in this folder came from the simulator. The next rehearsal here replaces it.\n"
_OF_A_STORE = ("replies", "embeddings", "failures", "sidecars", "ledger", "closed", "lost", "budget", "runs")


@dataclass(frozen=True)
class RehearsalPlace:
    """A rehearsal's run folder and store."""

    run: Location
    store: Location

    @classmethod
    def of(cls, sweep: Sweep, run: Location | None, store: Location | None) -> RehearsalPlace:
        """Where a sweep is rehearsed: as given, else beside the real run, with a store of its own inside."""
        folder = run or sweep.run_folder.beside(f"rehearsal-{sweep.run_folder.name}")
        return cls(folder, store or folder / "store")


@contextmanager
def rehearsing(work: Work, stop: Stop, say: Say) -> Iterator[Session]:
    """Hold the store for a rehearsal, with what an earlier one left in both folders removed.

    A rehearsal starts from nothing, because a new simulator knows only the truth of what it answers itself.

    Raises:
        ConfigError: a folder holds something else than a rehearsal.
        StoreHeld: another driver has the store.
    """
    folders = {"run": work.run_path, "store": work.sweep.store}
    for option, folder in folders.items():
        _mark(option, folder)
    with spending(work, stop, say) as session:
        _remove(work.run_path, (SWEEP, *OF_A_RUN))
        _remove(work.sweep.store, _OF_A_STORE)
        yield session


def _mark(option: str, location: Location) -> None:
    folder = open_folder(location)
    if folder.exists(MARKER):
        return
    if _holds_something(location):
        raise ConfigError(
            f"--{option} {location}: it is not empty and no rehearsal made it (no {MARKER}); a rehearsal needs a "
            f"folder of its own: leave out --{option}, or name a new one"
        )
    folder.put(MARKER, _TEXT.encode())


def _holds_something(location: Location) -> bool:
    try:
        return bool(open_folder(location).list())
    except NotADirectoryError:
        return True


def _remove(location: Location, names: tuple[str, ...]) -> None:
    """Remove files of these names, and all in folders of these names."""
    folder = open_folder(location)
    for name in names:
        for file in [name] if folder.exists(name) else folder.list(name):
            folder.delete(file)
