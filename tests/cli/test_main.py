"""What `hab` says of itself."""

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hab_ray.cli.main import app
from hab_ray.config.sweep import shipped_or_own

ROOT = Path(__file__).parents[2]
SUMMARY = 45


def test_version() -> None:
    """The command, the package and its metadata name one version."""
    shown = CliRunner().invoke(app, ["--version"])
    assert shown.exit_code == 0
    assert shown.output == f"hab_ray {version('hab-ray')}\n"


def test_the_shell_completes_commands() -> None:
    environment = {"_HAB_COMPLETE": "complete_bash", "COMP_WORDS": "hab re", "COMP_CWORD": "1"}
    hab = Path(sys.executable).with_name("hab")
    done = subprocess.run(hab, env=os.environ | environment, capture_output=True, text=True)
    assert done.stdout.split() == ["rehearse", "report"], done.stderr


def test_help_names_files_that_are_there() -> None:
    help_of_all = [CliRunner().invoke(app, [command, "--help"]).output for command in ("run", "plan", "rehearse")]
    named = {name for text in help_of_all for name in re.findall(r"\b(?:jobs|benchmarks|docs)/[\w.-]+\w", text)}
    assert "jobs/nightmare.yaml" in named
    assert {name for name in named if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("doctor", "doctor [OPTIONS] [SWEEP]"),
        ("compare", "compare [OPTIONS] RUN RUN|published"),
        ("store gc", "store gc [OPTIONS] [STORE] [RUN]..."),
        ("import tests", "import tests [OPTIONS] FILE|published..."),
        ("simulate", "simulate [OPTIONS]"),
    ],
)
def test_usage_reads_like_that_of_other_tools(command: str, usage: str) -> None:
    """Without braces around what is required, and without the names of Python's types."""
    shown = CliRunner().invoke(app, [*command.split(), "--help"]).output
    assert shown.splitlines()[0].endswith(f" {usage}")
    assert re.findall(r"<(?:\w*\[)?(?:Path|path|str|int|float|Location)\b.*?>|\{", shown) == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("scores runs/a --format docx", "'--format': 'docx' is not one of 'latex', 'markdown', 'csv', 'json'."),
        ("simulate --port 99999", "'--port': must be at most 65535"),
        ("run a.yaml --drain soon", "'--drain': must be a number"),
    ],
)
def test_a_wrong_option_is_explained_in_plain_words(command: str, said: str) -> None:
    shown = CliRunner().invoke(app, command.split())
    assert shown.exit_code == 2
    assert said in " ".join(shown.output.split())


@pytest.mark.parametrize("command", ["status", "scores", "runs", "store gc", "compare runs/a", "store gc store"])
def test_a_file_in_place_of_a_folder_is_told(command: str, tmp_path: Path) -> None:
    """And not to be moved away, as one is that stands where a folder is to be written."""
    file = tmp_path / "file"
    file.write_text("text")
    shown = CliRunner().invoke(app, [*command.split(), str(file)])
    assert shown.exit_code == 2
    assert "is a file. This command takes a folder" in " ".join(shown.output.split())


def test_weights_that_would_replace_no_model_are_refused(tmp_path: Path) -> None:
    (tmp_path / "own.gguf").write_bytes(b"GGUF")
    shown = CliRunner().invoke(app, ["plan", "jobs/compare.yaml", "--model", str(tmp_path / "own.gguf")])
    assert shown.exit_code == 2 and "jobs/compare.yaml has no local chat model" in " ".join(shown.output.split())


@pytest.mark.parametrize(("text", "folder"), [("name: b", "runs/b"), ("sweep: {name: b}", "."), ("- a", "such as")])
def test_a_sweep_file_in_place_of_its_runs_folder_is_told(
    text: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sweep.yaml").write_text(text)
    shown = CliRunner().invoke(app, ["status", "sweep.yaml"])
    assert f"This command takes the folder of its run, {folder}" in " ".join(shown.output.split())


def test_a_sweep_that_ships_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("jobs/quick.yaml", "jobs/experiments/human-check.yaml"):
        assert shipped_or_own(Path(name)).is_file()
    own = tmp_path / "jobs/experiments/human-check.yaml"
    own.parent.mkdir(parents=True)
    own.touch()
    assert shipped_or_own(own.relative_to(tmp_path)).resolve() == own
    assert shipped_or_own(Path("jobs/experiments/mine.yaml")) == Path("jobs/experiments/mine.yaml")


@pytest.mark.parametrize(
    "command",
    ["plan jobs/small.yaml", "run jobs/small.yaml --yes", "doctor jobs/small.yaml", "status r", "runs", "rm r"],
)
def test_a_deleted_current_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    shown = CliRunner().invoke(app, command.split())
    assert shown.exit_code == 2
    assert shown.output == "the current folder no longer exists: go to one that does (`cd`) and repeat the command\n"
