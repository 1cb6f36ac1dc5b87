"""Markers for folders whose replies came from a simulator: rehearsals, and real runs with a simulated provider."""

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit

from hab_ray.catalog.addresses import LOOPBACK
from hab_ray.config.sweep import Sweep
from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder, reach
from hab_ray.storage.run import BY_SIMULATOR, MARKER

NOTICE = "Simulated answers: these scores test the pipeline and measure nothing."
PARTLY = "Simulated answers ({}): these scores test the pipeline and measure nothing."
_TIMEOUT_S = 5.0
_COUNTED_BY_A_METER = b'"billed_more_than_once"'


def refuse_simulated(sweep: Sweep) -> None:
    """Check before a real run that neither its folder nor its store belongs to a rehearsal.

    Raises:
        ConfigError: one of them does.
    """
    for key, folder in (("run", sweep.run_folder), ("store", sweep.store)):
        if reach(folder).exists(MARKER):
            raise ConfigError(
                f"{key}: {folder} holds a rehearsal's simulated replies ({MARKER}), which `hab rehearse` makes again; "
                f"name another `{key}:` for replies that are paid for"
            )


def note_simulators(sweep: Sweep) -> None:
    """Record in a real run's folder which of the sweep's own providers are simulators."""
    if found := simulators_of(sweep):
        open_folder(sweep.run_folder).put(BY_SIMULATOR, f"{', '.join(found)}\n".encode())


def simulators_of(sweep: Sweep) -> list[str]:
    """Return which of the sweep's own providers are simulators on this machine."""
    return sorted(name for name, entry in sweep.providers.items() if entry.url and is_simulator(entry.url))


def is_simulator(url: str) -> bool:
    """Return whether a loopback server has a simulator's meter. Other addresses get no request.

    The simulator's own client is not used: every run at a local server would load the simulator for it.
    """
    parts = urlsplit(url)
    if parts.hostname not in LOOPBACK:
        return False
    try:
        return _COUNTED_BY_A_METER in asyncio.run(_answer(f"{parts.scheme}://{parts.netloc}/_meter"))
    except OSError:
        return False


async def _answer(url: str) -> bytes:
    """Return what this very server answers within `_TIMEOUT_S`: no proxy is asked, and no redirect followed.

    Raises:
        OSError: it gave no whole answer.
    """
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, allow_redirects=False) as answer:
            return await answer.read()
    except aiohttp.ClientError as error:
        raise OSError(str(error)) from None


def simulated_notice(run: Location) -> str | None:
    """Return the warning to show above a run's results if a simulator answered any of its calls."""
    folder = open_folder(run)
    if folder.exists(MARKER):
        return NOTICE
    return PARTLY.format(folder.get(BY_SIMULATOR).decode().strip()) if folder.exists(BY_SIMULATOR) else None


def command_of(run: Location) -> str:
    """Return the command that made a run's folder."""
    return "hab rehearse" if open_folder(run).exists(MARKER) else "hab run"


def without_markers(run: Location) -> Callable[[str], str]:
    """Return a function that removes from a run's texts the markers with which a simulator plants issues."""
    if simulated_notice(run) is None:
        return str
    from hab_simulator import without_markers

    return without_markers
