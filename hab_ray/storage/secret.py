"""The store's secret, from which fence codes and the fingerprints of keys are derived."""

import secrets
from contextlib import suppress

from hab_ray.errors import ConfigError
from hab_ray.storage.folder import Folder

SECRET = "fence-secret"
SECRET_BYTES = 32


def fence_secret(folder: Folder) -> bytes:
    """Return the secret of the store in this folder, creating it on first use; safe to call from several processes.

    Raises:
        ConfigError: the file is damaged.
    """
    try:
        secret = folder.get(SECRET)
    except FileNotFoundError:
        with suppress(FileExistsError):
            folder.put_new(SECRET, secrets.token_bytes(SECRET_BYTES))
        secret = folder.get(SECRET)
    if len(secret) != SECRET_BYTES:
        raise ConfigError(
            f"{SECRET}: the file in the store's folder holds {len(secret)} bytes and not {SECRET_BYTES}; delete it and "
            "a new one is made: no call is paid for again"
        )
    return secret
