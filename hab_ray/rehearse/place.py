"""The folders of a rehearsal, and how simulated replies are kept separate from paid ones.

Two things separate them. Keys of rehearsed calls differ from real ones (their `as_of` is "simulated"), so that neither
kind of run can read the other's replies. And both folders of a rehearsal carry a marker: a rehearsal accepts only empty
or marked folders, and a real run refuses marked ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.stopping import Stop
from hab_ray.storage.folder import open_folder
from hab_ray.storage.run import FIGURES, MARKER, OF_A_RUN, SHEETS, SWEEP
from hab_ray.sweep.session import Say, Session, spending
from hab_ray.work import Work

_MARKER_TEXT = "The files in this folder came from the simulator. The next rehearsal here replaces them.\n"
_KEPT = (SHEETS, FIGURES)
_OF_A_STORE = ("replies", "embeddings", "failures", "sidecars", "ledger", "closed", "lost", "budget", "runs")


@contextmanager
def rehearsing(work: Work, stop: Stop, say: Say) -> Iterator[Session]:
    """Hold the store for a rehearsal, and remove an earlier rehearsal's files from both folders.

    A rehearsal starts from nothing, because a new simulator knows only the truth of its own answers. The keys of
    raters' sheets and the figures stay: with the same seed the answers are the same.

    Raises:
        ConfigError: a folder holds something other than a rehearsal.
        StoreHeld: another driver holds the store.
    """
    folders = {"run": work.run_path, "store": work.sweep.store}
    for option, folder in folders.items():
        _mark(option, folder)
    with spending(work, stop, say) as session:
        _remove(work.run_path, (SWEEP, *(name for name in OF_A_RUN if name not in _KEPT)))
        _remove(work.sweep.store, _OF_A_STORE)
        yield session


def _mark(option: str, location: Location) -> None:
    folder = open_folder(location)
    if folder.exists(MARKER):
        return
    if not _is_empty(location):
        raise ConfigError(
            f"--{option} {location}: is not empty and does not come from a rehearsal (no {MARKER}); a rehearsal needs "
            f"a separate folder: omit --{option}, or name a new one"
        )
    folder.put(MARKER, _MARKER_TEXT.encode())


def _is_empty(location: Location) -> bool:
    try:
        return not open_folder(location).list()
    except NotADirectoryError:
        return False


def _remove(location: Location, names: tuple[str, ...]) -> None:
    folder = open_folder(location)
    for name in names:
        for file in [name] if folder.exists(name) else folder.list(name):
            folder.delete(file)
