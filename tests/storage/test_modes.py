"""docs/files.md lists what hab writes; everything is there, its user's alone, and closed to everybody else."""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hab_ray.errors import file_problem
from hab_ray.location import Location
from hab_ray.storage.local import LocalFolder
from hab_ray.storage.run import runs_below
from tests.conftest import Desk, Vendor

NOBODY = 65534
LIST = Path(__file__).parents[2] / "docs/files.md"


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user of the machine may enter, as a home or a scratch disk is: pytest's own are closed."""
    folder = Path(tempfile.mkdtemp(prefix="hab-files-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def written(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def open_to(uid: int, paths: list[Path]) -> list[str]:
    """The paths that a process of another user can list, read, write or put something into."""
    return told_to(uid, lambda: (path for path in paths if os.access(path, os.R_OK) or os.access(path, os.W_OK)))


def told_to(uid: int, lines: Callable[[], Iterable[object]]) -> list[str]:
    """Some lines as a process of another user makes them."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.write(writing, "\n".join(map(str, lines())).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as told:
        found = told.read().decode().splitlines()
    assert os.waitpid(child, 0)[1] == 0
    return found


def test_every_path_is_listed_and_its_users_alone(desk: Desk, vendor: Callable[..., Vendor], reachable: Path) -> None:
    """Under the widest umask, below a folder that everybody may enter."""
    places = {"<run>": "runs", "<store>": "store", "<temporary>": "tmp", "<cache>": "cache", "<out>": "out"}
    for name in ("tmp", "cache"):
        (reachable / name).mkdir(mode=0o700)
    (reachable / "tmp").chmod(0o1777)
    environment = {"TMPDIR": str(reachable / "tmp"), "HAB_CACHE": str(reachable / "cache")}
    there = replace(desk, folder=reachable, environment=environment)
    sim = vendor()
    sweep = there.sweep("files", sim.url, dimensions=["encourage_learning"])
    (reachable / "rows.csv").write_text("dimension,prompt\nencourage_learning,Why?\n")
    theirs = {sweep, *(reachable / name for name in ("tmp", "cache", "rows.csv"))}
    before = os.umask(0)
    try:
        for command in (
            ("run", sweep, "--executor", "local"),
            ("export", "runs/files", "--format", "csv", "--out", "out/export"),
            ("import", "tests", "rows.csv", "--out", "out/tests.jsonl"),
            ("rubric", "new", "admit_mistakes", "--folder", "out/rubrics"),
            ("doctor", sweep, "--live", "--yes", "--at", sim.url, "--out", "out/exchanges.jsonl"),
        ):
            there.says(*command)
    finally:
        os.umask(before)
    shown = LIST.read_text()
    assert all(f"`{place}" in shown for place in places)
    paths = [path for path in written(reachable) if path not in theirs]
    kinds = {path.relative_to(reachable).parts[0] for path in paths}
    assert kinds == {"runs", "store", "tmp", "out"} <= set(places.values())
    for path in paths:
        found = path.lstat()
        wanted = 0o700 if path.is_dir() else 0o600
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (os.getuid(), wanted), path
    assert {path.name for path in (reachable / "tmp").iterdir()} == {f"hab_ray-{os.getuid()}"}
    if os.getuid() == 0:
        assert open_to(NOBODY, [reachable, *paths]) == [str(reachable)]


def test_a_folder_that_a_group_may_write_is_the_groups_and_nobody_elses(reachable: Path) -> None:
    """The way to share a run or store, whatever the umask."""
    root = reachable / "store"
    root.mkdir()
    root.chmod(0o2770)
    folder = LocalFolder(root)
    folder.put("a/b/c", b"1")
    folder.put_new("a/d", b"1")
    folder.move("a/d", "e/f")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in written(root)}
    assert modes == {"a": 0o2770, "b": 0o2770, "c": 0o660, "e": 0o2770, "f": 0o660}
    root.chmod(0o755)
    folder.put("g", b"1")
    assert stat.S_IMODE((root / "g").stat().st_mode) == 0o600


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_is_shut_out_by_the_modes_alone(reachable: Path) -> None:
    """The test above would find an open file."""
    (reachable / "open").write_bytes(b"")
    (reachable / "open").chmod(0o644)
    LocalFolder(reachable / "closed").put("a", b"1")
    paths = [reachable / name for name in ("open", "closed", "closed/a")]
    assert open_to(NOBODY, paths) == [str(paths[0])]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_run_that_is_closed_to_this_user_is_said_to_be_unreadable_and_counts_as_a_run(reachable: Path) -> None:
    """Left out, it would be taken for deleted by `hab store gc`; what cannot be written has another remedy."""
    LocalFolder(reachable / "closed").put("sweep.yaml", b"1")

    def refused(file: str, mode: str) -> object:
        try:
            return open(reachable / file, mode)
        except OSError as error:
            return file_problem(error)

    def told() -> Iterator[object]:
        yield from runs_below(Location(str(reachable)))
        yield refused("closed/sweep.yaml", "r")
        yield refused("new", "w")

    run, unreadable, unwritable = told_to(NOBODY, told)
    assert run == str(reachable / "closed")
    assert f"{run}/sweep.yaml: this user may not read it (Permission denied). Ask its owner" in unreadable
    assert "Make the folder writable for this user" in unwritable
