"""Checks before a command begins: is the storage reachable, and does it support conditional writes?"""

from __future__ import annotations

import secrets

from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.storage.folder import Folder, open_folder

FIRST_ANSWER_S = 15.0
CHECKED = "conditional-writes.txt"


def reach(location: Location) -> Folder:
    """Open the folder at a location after checking that its bucket, if any, exists and may be used.

    Only this first request has a time limit. Later ones are retried until the bucket answers, because by then a run
    may hold replies that it has paid for.

    Raises:
        ConfigError: the bucket cannot be used, or did not answer within `FIRST_ANSWER_S`.
    """
    if location.is_s3:
        from hab_ray.storage.s3.folder import s3_folder

        s3_folder(location.bucket, location.prefix).objects.reach(FIRST_ANSWER_S)
    return open_folder(location)


def refuse_without_put_new(folder: Folder, where: str) -> None:
    """Check, once per store, that only one of two writers can create a name; `where` names the store in the message.

    Raises:
        ConfigError: both writers succeeded.
    """
    if not folder.is_remote or folder.exists(CHECKED):
        return
    name = f"check-{secrets.token_hex(8)}"
    folder.put_new(name, b"first")
    try:
        folder.put_new(name, b"second")
    except FileExistsError:
        is_safe = folder.get(name) == b"first"
    else:
        is_safe = False
    finally:
        folder.delete(name)
    if not is_safe:
        raise ConfigError(
            f"{where}: this S3 service ignores `If-None-Match: *`, so two drivers could hold one store and pay twice; "
            "use one with conditional writes, such as AWS, Ceph, SeaweedFS or a recent MinIO"
        )
    folder.put(CHECKED, b"Of two writers of one new name only one succeeds here; hab_ray has looked.\n")
