"""The store's secret, from which the codes of fences are made."""

from __future__ import annotations

import secrets
from contextlib import suppress

from hab_ray.errors import ConfigError
from hab_ray.storage.folder import Folder

SECRET = "fence-secret"
SECRET_BYTES = 32


def fence_secret(folder: Folder) -> bytes:
    """The secret of the store in this folder, made at the first use; two processes get the same.

    Raises:
        ConfigError: the file was damaged.
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
