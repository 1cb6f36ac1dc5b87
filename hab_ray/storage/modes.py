"""Who else on a machine may read or change what is written: nobody.

A run or store is shared with a group by making its folder beforehand, writable by that group (`chmod 2770`): what is
written below it is then the group's, too, and still nobody else's.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from hab_ray.errors import ConfigError

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_OF_THE_KERNEL = ("/proc", "/sys")


def make_folder(folder: Path, root: Path) -> None:
    """Make a folder at or below `root`, and what it is in, for whom `root` is.

    Raises:
        OSError: it cannot be made.
    """
    if folder.is_dir():
        return
    if folder != folder.parent:
        make_folder(folder.parent, root)
    folder.mkdir(mode=0o700, exist_ok=True)
    if _is_of_group(root):
        folder.chmod(0o2770)


def open_new(path: Path, root: Path, flags: int) -> int:
    """The descriptor of a file at or below `root` that is there or is made, for whom `root` is.

    Raises:
        OSError: it cannot be opened.
    """
    handle = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if _is_of_group(root) and os.fstat(handle).st_uid == os.getuid():
        os.fchmod(handle, 0o660)
    return handle


def _is_of_group(root: Path) -> bool:
    return root.is_dir() and bool(root.stat().st_mode & stat.S_IWGRP)


def refuse_unwritable(folder: Path) -> None:
    """Check, writing nothing, that a folder can be made or written where it is named.

    Raises:
        OSError: it cannot.
    """
    places = (folder.absolute(), *folder.absolute().parents)
    within = next(place for place in places if os.path.lexists(place)).resolve()
    if not within.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "a file is where a folder is needed", str(folder))
    if any(within.is_relative_to(kernel) for kernel in _OF_THE_KERNEL):
        raise FileNotFoundError(errno.ENOENT, "it is no disk", str(folder))
    if not os.access(within, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def refuse_others(folder: Path, variable: str) -> None:
    """Check that nobody else can have put something into a folder, which `variable` of the environment names.

    Raises:
        ConfigError: it is somebody else's or a link, or others may write it or a folder that it is in.
    """
    for place in (folder, *folder.absolute().parents):
        try:
            found = os.stat(place)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigError(f"{place}: {error.strerror}; name another folder with {variable}") from None
        if place == folder and found.st_uid != os.getuid():
            raise _refusal(place, f"belongs to another user (id {found.st_uid}), who can write it", variable)
        is_open = found.st_mode & (_OTHERS if place == folder else stat.S_IWOTH)
        if is_open and (place == folder or not found.st_mode & stat.S_ISVTX):
            raise _refusal(place, "can be written by other users", variable)


def _refusal(place: Path, why: str, variable: str) -> ConfigError:
    return ConfigError(
        f"{place}: {why}, who could change what is read from it; name a folder of your own with {variable}"
    )
