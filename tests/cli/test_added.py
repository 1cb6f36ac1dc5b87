"""A stage, an export format and a command of another distribution: files alone."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hab_ray.catalog.vendors import VENDORS
from hab_ray.cli.main import app
from hab_ray.cli.registry import COMMANDS
from hab_ray.errors import ConfigError
from hab_ray.exchange.export import FORMATS
from hab_simulator.accounts import installed_vendors
from tests.conftest import Desk
from tests.distributions import Distributions, forget_installed
from tests.stages import count_words

COUNTING = Path(str(count_words.__file__)).read_text("utf-8") + "\n\nSPEC = CountWordsSpec()\n"
TOTALS = """
import json

from hab_ray.exchange.tidy import tidy_tables


def write(run, sharing, folder):
    rows = {name: sum(part.num_rows for part in parts) for name, parts in tidy_tables(run, sharing)}
    (folder / "totals.json").write_text(json.dumps(rows))
    return {"totals.json": len(rows)}
"""
LONGEST = """
import pyarrow.parquet as pq

from hab_ray.cli.ending import console, ends_with_status
from hab_ray.cli.options import RunFolderArgument
from hab_ray.errors import Exit


@ends_with_status
def longest(run: RunFolderArgument) -> Exit:
    \"\"\"Print the words of the longest answer.\"\"\"
    counts = [n for path in run.path.glob("words/**/*.parquet") for n in pq.read_table(path)["words"].to_pylist()]
    console.print(f"the longest of {len(counts)} answers has {max(counts)} words")
    return Exit.COMPLETE
"""
GROUPS: Mapping[str, Mapping[str, str]] = {
    "hab_ray.stages": {"count": "acme_words:SPEC"},
    "hab_ray.formats": {"totals": "acme_totals:write"},
    "hab_ray.commands": {"longest": "acme_longest:longest", "broken": "acme_gone:main", "run": "acme_gone:main"},
}


@pytest.mark.integration
def test_a_package_is_files_alone(desk: Desk, distributions: Distributions, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {"acme_words": COUNTING, "acme_totals": TOTALS, "acme_longest": LONGEST}
    distributions.install_modules("acme-hab", "0.3", modules, GROUPS)
    desk.environment["PYTHONPATH"] = str(distributions.site)
    sweep = desk.sweep("s", "http://127.0.0.1:9", dimensions=["encourage_learning"], tests="seeds")
    desk.says("rehearse", sweep, "--run", "acme", "--store", "acme-store")
    monkeypatch.chdir(desk.folder)

    def hab(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, arguments)
        return done.exit_code, " ".join(done.output.split())

    status, told = hab("longest", "acme")
    assert status == 0 and told.startswith("the longest of 24 answers has "), told
    status, told = hab("export", "acme", "--format", "totals", "--out", "out")
    assert status == 0, told
    totals = json.loads((desk.folder / "out/totals.json").read_text())
    assert totals["responses"] == 24 and totals["verdicts"] == 24
    status, told = hab("broken")
    assert status == 2 and "acme-hab 0.3 (acme_gone:main), which is broken" in told
    status, told = hab("run", str(sweep))
    assert status == 2 and "the command 'run' is in several packages (hab-ray, acme-hab 0.3); uninstall" in told
    _, told = hab("--help")
    assert "longest Added by the package acme-hab 0.3." in told
    assert "run Run a sweep, or resume it." in told


ENDING = """
import sys

from hab_ray.cli.ending import ends_with_status

@ends_with_status
def quiet():
    sys.exit(0)
"""


def test_a_command_that_ends_the_process_is_an_error_of_its_package(distributions: Distributions) -> None:
    commands = {"hab_ray.commands": {"quiet": "acme_quiet:quiet"}}
    distributions.install_modules("acme-hab", "0.3", {"acme_quiet": ENDING}, commands)
    done = CliRunner().invoke(app, ["quiet"])
    assert done.exit_code == 2 and "acme-hab 0.3 (acme_quiet.py, line 8) ended the process" in done.output


@pytest.mark.parametrize("returned", ["{'rows': 3}", "'done'", "99"])
def test_a_command_that_returns_no_exit_status_is_named(returned: str, distributions: Distributions) -> None:
    code = ENDING.replace("sys.exit(0)", f"return {returned}")
    distributions.install_modules(
        "acme-hab", "0.3", {"acme_quiet": code}, {"hab_ray.commands": {"quiet": "acme_quiet:quiet"}}
    )
    done = CliRunner().invoke(app, ["quiet"])
    assert done.exit_code == 2, done.output
    assert "the package acme-hab 0.3 is broken: quiet has to return an Exit, not " in done.output


UNREADABLE = (b"[hab_ray.providers]\nthis line is no entry\n", b"[hab_ray.providers]\nacm\xe9 = acme_hab:VENDOR\n")


def test_unreadable_entry_points_are_named_where_one_is_missing(distributions: Distributions, tmp_path: Path) -> None:
    distributions.install_modules("acme-good", "1", {"acme_quiet": ENDING}, {"hab_ray.commands": {"quiet": "q:q"}})
    distributions.install("acme-hab", "0.3", "acme_hab", "", acme="acme_hab:VENDOR")
    for content in UNREADABLE:
        (distributions.site / "acme_hab-0.3.dist-info/entry_points.txt").write_bytes(content)
        forget_installed()
        assert "acme" not in VENDORS.names() and "quiet" in COMMANDS.names() and installed_vendors() == ()
        with pytest.raises(ConfigError, match=r"no kind 'acme'.*cannot be read \(acme-hab 0\.3\): repair or uninstall"):
            VENDORS.find("acme")
    command = [sys.executable, "-m", "hab_ray.cli", "plan", str(tmp_path / "nosuch.yaml")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (distributions.site, *sys.path)))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and "nosuch.yaml: there is no such file" in done.stderr


def test_a_bad_entry_point_leaves_other_messages_alone(distributions: Distributions, tmp_path: Path) -> None:
    distributions.install_modules("acme-hab", "0.3", {}, {"hab_ray.formats": {"bad": "acme-bad:write"}})
    done = CliRunner().invoke(app, ["plan", str(tmp_path / "nosuch.yaml")])
    assert done.exit_code == 2 and "nosuch.yaml: there is no such file" in done.output


def test_each_of_our_own_is_a_file_that_can_be_loaded() -> None:
    for name in COMMANDS.names():
        assert COMMANDS.load(name, object) is not None
    assert {"run", "plan", "import", "status"} <= set(COMMANDS.names())
    assert FORMATS.names() == ["csv", "csv-raw", "hf", "inspect", "json"]
