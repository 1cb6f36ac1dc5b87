"""Locations: what the user wrote, the same place for everybody, and nothing around them."""

import ast
import os
import pickle
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from hab_ray.errors import ConfigError
from hab_ray.location import Location

THROUGH_FOLDERS = (
    *("storage/format", "storage/registry", "storage/run", "storage/secret", "storage/spending", "storage/ballast"),
    *("storage/lease/lease", "storage/replies/parts", "storage/replies/records", "storage/replies/sidecars"),
    *("storage/replies/store", "engine/books", "rehearse/perform", "report/build", "progress"),
    *(
        "cli/commands/running/status",
        "cli/commands/running/batches",
        "cli/commands/running/budget",
        "cli/commands/running/runs",
    ),
    *("sweep/monitoring/reporting", "sweep/session", "sweep/reread"),
)


def test_a_location_is_shown_as_it_was_written() -> None:
    assert str(Location.of("runs/x/")) == str(Location.of(Path("runs/x"))) == "runs/x"
    assert str(Location.of("s3://bucket/hab")) == "s3://bucket/hab"
    assert str(Location("runs/x") / "log/progress.json") == "runs/x/log/progress.json"
    assert Location("/a/b").sibling("c") == Location("/a/c") and Location("/a/b").name == "b"
    with pytest.raises(ValueError, match="not a path"):
        Location.of(7)


def test_an_empty_path_is_not_the_current_folder() -> None:
    """A shell makes one of a variable that is not set, as in `--run "$RUN"` or `hab rm "$RUN"`."""
    with pytest.raises(ValueError, match=r"is empty; write a path, or \. for the current folder"):
        Location.of("")
    assert str(Location.of(".")) == "."


def test_a_tilde_is_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Location.of("~/hab/store").path == tmp_path / "hab/store"
    assert str(Location.of("s3://bucket/~/hab")) == "s3://bucket/~/hab"
    assert str(Location.of("runs/~old")) == "runs/~old"


def test_a_tilde_without_a_home_is_no_folder_of_that_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setitem(sys.modules, "pwd", None)  # as on a machine without an entry for the user
    for path in ("~", "~/hab/store"):
        with pytest.raises(ConfigError, match=rf"^{path}: this user has no home folder for `~`; set HOME, or write"):
            Location.of(path)


def test_a_location_means_the_same_wherever_it_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    absolute = Location("store").absolute()
    monkeypatch.chdir("/")
    assert absolute.path == tmp_path / "store" and Location("store").path == Path("/store")
    assert {pickle.loads(pickle.dumps(absolute))} == {absolute}


def test_a_run_is_called_the_same_wherever_it_and_its_store_are_mounted() -> None:
    places = ("/here", "/mnt/there", "x")
    ways = {(Location(place) / "runs/first").relative_to(Location(place) / "store") for place in places}
    assert ways == {"../runs/first"}
    assert Location("/mnt/there/store").resolve(*ways) == Location("/mnt/there/runs/first")
    assert Location("x/store").resolve(*ways) == Location("x/runs/first").absolute()


def test_links_lead_to_the_same_location(tmp_path: Path) -> None:
    here, there = Location.of(tmp_path / "run"), Location.of(tmp_path / "link")
    assert not here.is_same(here)
    here.path.mkdir()
    there.path.symlink_to(here.path)
    assert here.is_same(there) and not here.is_same(Location.of(tmp_path))


def test_a_store_that_two_projects_link_to_finds_the_runs_of_both(tmp_path: Path) -> None:
    shared = tmp_path / "data/store"
    shared.mkdir(parents=True)
    runs, stores = {}, {}
    for name in ("one", "two"):
        runs[name], stores[name] = Location.of(tmp_path / name / "runs/first"), Location.of(tmp_path / name / "store")
        runs[name].path.mkdir(parents=True)
        stores[name].path.symlink_to(shared)
    for name, other in (("one", "two"), ("two", "one")):
        way = runs[name].relative_to(stores[name])
        for store in (stores[name], stores[other], Location.of(shared)):
            assert store.resolve(way).is_same(runs[name])
    (tmp_path / "link").symlink_to(runs["one"].path)
    assert Location.of(tmp_path / "link").resolve(stores["one"].relative_to(runs["one"])).is_same(stores["one"])
    assert stores["one"].resolve("../runs/first") == runs["one"], "as versions before this one wrote it"


def test_an_address_has_no_path_on_this_machine() -> None:
    with pytest.raises(ConfigError, match=r"s3://bucket/hab: a folder on this machine is needed here; name one"):
        _ = Location.of("s3://bucket/hab").path


def test_a_folder_whose_name_is_not_utf_8_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    monkeypatch.chdir(folder)
    with pytest.raises(ConfigError, match=r"/runs: a folder's name is not in UTF-8; rename it, or work in another"):
        _ = Location.of("runs").path
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "ascii")
    with pytest.raises(ConfigError, match=r"/runs: the locale has Python read names as ascii, .* set PYTHONUTF8=1"):
        _ = Location.of("runs").path


def test_an_address_in_a_bucket_is_tidied_and_one_without_a_bucket_refused() -> None:
    assert (
        str(Location.of("s3://bucket/a/c/")) == "s3://bucket/a/c" and str(Location.of("s3://bucket/")) == "s3://bucket"
    )
    for given, meant in (("bucket//a/c", "bucket/a/c"), ("bucket/a/./c", "bucket/a/c"), ("bucket/../up", "bucket/up")):
        with pytest.raises(ValueError, match=f"write s3://{meant} if"):
            Location.of(f"s3://{given}")
    here = Location.of("s3://bucket/hab/store")
    assert (here.bucket, here.prefix, here.name, here.is_local, here.is_s3) == (
        "bucket",
        "hab/store",
        "store",
        False,
        True,
    )
    assert here.absolute() == here and here.parent == Location("s3://bucket/hab")
    assert here.sibling("other") == Location("s3://bucket/hab/other") and here.parent.parent.parent.name == "bucket"
    for given in ("s3://", "s3:///a", "s3://a b/c", "s3://bucket/\x1b[2J"):
        with pytest.raises(ValueError, match="s3://bucket/prefix"):
            Location.of(given)
    with pytest.raises(ConfigError, match="is a whole bucket; name a prefix"):
        Location.of("s3://bucket").sibling("x")


def test_runs_and_stores_find_each_other_from_disk_to_bucket_and_between_buckets() -> None:
    store, run = Location.of("s3://bucket/hab/store"), Location.of("s3://bucket/runs/first")
    assert run.relative_to(store) == "../../runs/first" and store.resolve("../../runs/first") == run
    elsewhere, local = Location.of("s3://other/first"), Location.of("/home/me/runs/first")
    for one, other in [(elsewhere, store), (local, store), (run, local), (run, elsewhere)]:
        way = one.relative_to(other)
        assert way == str(one) and other.resolve(way) == one
    assert run.is_same(Location.of("s3://bucket/runs/first/")) and not run.is_same(local)


@pytest.mark.parametrize("module", THROUGH_FOLDERS)
def test_what_reads_and_writes_runs_and_stores_imports_no_paths(module: str) -> None:
    """Else it would work on a local disk alone."""
    tree = ast.parse(files("hab_ray").joinpath(f"{module}.py").read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not imported & {"pathlib", "shutil", "glob", "os.path"}
