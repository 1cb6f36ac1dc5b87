"""File modes: no other user of the machine may read or change what is written.

To share a run or store with a group, create its folder beforehand and make it writable by the group (`chmod 2770`).
Everything written below it is then accessible to the group, and still to nobody else.
"""

import errno
import os
import stat
from pathlib import Path

from hab_ray.errors import ConfigError

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_KERNEL_FOLDERS = ("/proc", "/sys")


def make_folder(folder: Path, root: Path) -> None:
    """Create a folder at or below `root` and its missing parents, shared with a group if `root` is.

    Raises:
        OSError: the folder cannot be created.
    """
    if folder.is_dir():
        return
    if folder != folder.parent:
        make_folder(folder.parent, root)
    folder.mkdir(mode=0o700, exist_ok=True)
    if _is_shared(root):
        folder.chmod(0o2770)


def open_new(path: Path, root: Path, flags: int) -> int:
    """Open or create a file at or below `root`, shared with a group if `root` is; return its descriptor.

    Raises:
        OSError: the file cannot be opened.
    """
    handle = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if _is_shared(root) and os.fstat(handle).st_uid == os.getuid():
        os.fchmod(handle, 0o660)
    return handle


def _is_shared(root: Path) -> bool:
    return root.is_dir() and bool(root.stat().st_mode & stat.S_IWGRP)


def refuse_unwritable(folder: Path) -> None:
    """Check, without writing, that a folder can be created or written to; raise OSError if it cannot."""
    places = (folder.absolute(), *folder.absolute().parents)
    existing = next(place for place in places if os.path.lexists(place)).resolve()
    if not existing.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "a file is where a folder is needed", str(folder))
    if any(existing.is_relative_to(kernel) for kernel in _KERNEL_FOLDERS):
        raise FileNotFoundError(errno.ENOENT, "it is no disk", str(folder))
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def refuse_others(folder: Path, variable: str) -> None:
    """Check that no other user can have written to a folder, which the environment variable `variable` names.

    Raises:
        ConfigError: another user owns the folder, or others may write to it or to one of its parents.
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
