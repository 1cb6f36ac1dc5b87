"""The list of a run's result files at its last end, by which lost ones are noticed without reading any."""

from collections.abc import Iterator

from hab_ray.storage.folder import Folder
from hab_ray.visible import counted, one_line

MANIFEST = "log/files.txt"
_LISTED = ("tests", "responses", "verdicts")


def write_manifest(run: Folder) -> None:
    """Write the names of the run's tests, responses and verdicts as they are now."""
    run.put(MANIFEST, "".join(f"{name}\n" for name in _present(run)).encode())


def lost_notice(run: Folder) -> str | None:
    """Return which of the listed files the run's folder lacks; None if it has all, or nothing was listed yet."""
    try:
        listed = run.get(MANIFEST).decode(errors="replace").splitlines()
    except FileNotFoundError:
        return None
    lost = sorted(set(listed) - set(_present(run)))
    if not lost:
        return None
    return one_line(
        f"the run's folder lacks {counted(len(lost), 'file')} that it had at its end, such as {lost[0]}: their rows "
        "are missing. The same `hab run` writes them again without paying again; if the folder is a copy, copy it again"
    )


def _present(run: Folder) -> Iterator[str]:
    """Yield the names of the files of results; those that hab cannot have given are of other programs."""
    names = (name for folder in _LISTED for name in run.list(folder) if name.endswith(".parquet"))
    return (name for name in names if name.isascii() and name.isprintable())
