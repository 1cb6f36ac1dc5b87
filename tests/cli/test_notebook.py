"""The notebook and the commands of docs/paper.md work on a rehearsed run, as a reader has it."""

import json
import re
import shlex
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.conftest import Desk

DOCS = Path(__file__).parent.parent.parent / "docs"
URL = "http://127.0.0.1:9"  # nobody is there: a rehearsal asks the simulator that it starts


def test_notebook_and_commands(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"tests": "seeds", "dimensions": ["encourage_learning"]}
    desk.says("rehearse", desk.sweep("small", URL, judges=["sim/judge", "sim/second"], executor="local", **given))
    monkeypatch.setenv("IPYTHONDIR", str(desk.folder / "ipython"))
    shows_a_figure_and_a_transcript(desk)
    are_run(desk)


def shows_a_figure_and_a_transcript(desk: Desk) -> None:
    notebook = nbformat.read(DOCS / "analysis.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    assert all(not cell.get("outputs") for cell in notebook.cells)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(desk.folder)}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    told = json.dumps(shown)
    assert any("image/png" in output.get("data", {}) for output in shown)
    assert "beta-kind" in told and "System prompt" in told and " of 10" in told


def are_run(desk: Desk) -> None:
    block, _ = re.findall(r"```sh\n(.*?)```", (DOCS / "paper.md").read_text(encoding="utf-8"), re.DOTALL)
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert [command[:2] for command in commands] == [["hab", "scores"]] * 5 + [["hab", "figures"]]
    for _, *arguments in commands:
        done = desk.says(*arguments)
        assert "Simulated answers" in done or "csv" in " ".join(arguments) or arguments[0] == "figures"
    assert (desk.folder / "runs/rehearsal-small/figures/leaderboard.png").is_file()
