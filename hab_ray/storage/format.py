"""The format version of a store, kept in its format.json. A store without that file has format 0.

0   records do not say whether they came from a batch; runs are identified by their folder; budgets have no marks
1   records have a `mode`, runs an id (see `registry`), budgets a mark (see `spending`)
2   a batch's intent may have a fingerprint of its key and its price, which older versions would call damaged

Sidecars do not change the format: a version that does not know them reads and writes the same records, and the next
holder of the lease creates those that are missing.
"""

import json

from hab_ray.errors import ConfigError
from hab_ray.storage.folder import Folder

FORMAT = 2
_NAME = "format.json"


def refuse_newer(folder: Folder, where: str) -> None:
    """Check that this version can read a store; `where` names the store in the message.

    Raises:
        ConfigError: a newer version wrote the store, or its format.json is damaged.
    """
    found = _format(folder, where)
    if found > FORMAT:
        raise ConfigError(
            f"{where}: has format {found}, and this version of hab_ray reads up to {FORMAT}; install a newer "
            "hab_ray, or give the sweep another `store:`"
        )


def adopt(folder: Folder, where: str) -> None:
    """Mark a new or older store as one of this format, leaving its records unchanged. Requires the lease.

    Raises:
        ConfigError: a newer version wrote the store, or its format.json is damaged.
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
            f'{where}: {_NAME} is damaged; write {{"format": {FORMAT}}} into it if this version has used the store '
            "before, otherwise restore it from a backup"
        )
    return found
