"""The URLs of providers: from the catalogue or sweep, or of a local model server started for this run."""

from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

import platformdirs

from hab_ray.catalog.models import Purpose, folder_name
from hab_ray.errors import ConfigError
from hab_ray.local import LocalError, LocalServer
from hab_ray.location import Location, expanded
from hab_ray.resolve import weights_of
from hab_ray.work import Work


class Endpoints:
    """The URLs of a run's providers. A local server starts at the first use of its URL and ends with `stack`."""

    def __init__(self, work: Work, stack: ExitStack) -> None:
        self._work, self._stack = work, stack

    def url(self, provider: str) -> str:
        """Return the base URL of a provider.

        Raises:
            ConfigError: the provider has no URL, or the local server does not start.
        """
        entry = self._work.catalog.providers[provider]
        if entry.serve:
            return self._local.url
        if entry.url is None:
            raise ConfigError(f"providers.{provider}: no `url`; give the address of its API")
        return entry.url

    @cached_property
    def _local(self) -> LocalServer:
        providers = self._work.catalog.providers
        served = [m for m in self._work.models.values() if providers[m.entry.provider].serve]
        chat = {m.entry.wire: weights_of(m.name, m.entry) for m in served if m.entry.purpose is Purpose.CHAT}
        embeddings = [m.entry.wire for m in served if m.entry.purpose is Purpose.EMBEDDING]
        log = _log_folder(self._work.run_path) / "local-server.log"
        slots = max(m.entry.limits.concurrent for m in served if m.entry.limits)
        try:
            server = LocalServer.start(chat, embeddings, log=log, slots=slots)
        except LocalError as error:
            raise ConfigError(str(error)) from None
        return self._stack.enter_context(server)


def _log_folder(run: Location) -> Path:
    """Return the folder for a local server's log: the run's log folder if it is on this machine, else the user's."""
    if run.is_local:
        return (run / "log").path
    return expanded(platformdirs.user_log_dir("hab_ray")) / folder_name(str(run))
