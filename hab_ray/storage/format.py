"""The format of a store's files, as its format.json says. A store without one is of format 0.

0   records do not say whether a batch brought them; runs are known by their folder; nothing is marked
1   records have a `mode`, runs an id (see `registry`), budgets a mark (see `spending`)

Sidecars need no format of their own: a version that does not know them reads and writes the same records, and the next
holder of the lease makes those that are missing.
"""

from __future__ import annotations

import json

from hab_ray.errors import ConfigError
from hab_ray.storage.folder import Folder

FORMAT = 1
_NAME = "format.json"


def refuse_newer(folder: Folder, where: str) -> None:
    """Check that this version can read a store; `where` names it.

    Raises:
        ConfigError: a newer version has written it, or its format.json is damaged.
    """
    found = _format(folder, where)
    if found > FORMAT:
        raise ConfigError(
            f"{where}: is of format {found}, and this version of hab_ray reads up to {FORMAT}; install a newer "
            "hab_ray, or give the sweep another `store:`"
        )


def adopt(folder: Folder, where: str) -> None:
    """Take a new store or one of an older format, whose files stay as they are; for the lease's holder.

    Raises:
        ConfigError: a newer version has written it, or its format.json is damaged.
    """
    refuse_newer(folder, where)
    if _format(folder, where) < FORMAT:
        folder.put(_NAME, json.dumps({"format": FORMAT}).encode())


def _format(folder: Folder, where: str) -> int:
    try:
        found = json.loads(folder.get(_NAME))["format"]
    except FileNotFoundError:
        return 0
    except (ValueError, KeyError, TypeError, RecursionError):
        found = None
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ConfigError(
            f'{where}: {_NAME} is damaged; write {{"format": {FORMAT}}} into it if this version has written the store '
            "before, else restore it"
        )
    return found
