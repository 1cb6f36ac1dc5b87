"""`hab rubric check` and `hab rubric new` as they print."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hab_ray.cli.commands.rubric import check_rubrics, new_rubric
from hab_ray.errors import ConfigError, Exit
from hab_ray.resources import bundled
from hab_ray.rubric import load_rubrics

NAME = "encourage_learning"
Said = pytest.CaptureFixture[str]


def own(folder: Path, *without: str) -> None:
    """A rubric `own` in a folder: a built-in one without some of its sections."""
    content = yaml.safe_load(bundled("rubrics").joinpath(f"{NAME}.yaml").read_text(encoding="utf-8"))
    kept = {key: value for key, value in content.items() if key not in without}
    (folder / "own.yaml").write_text(yaml.safe_dump(kept | {"id": "own"}), "utf-8")


def test_a_sound_folder_shows_what_is_in_it_and_how_faithful_it_is(tmp_path: Path, capsys: Said) -> None:
    own(tmp_path, "generation", "validation", "fidelity")
    assert check_rubrics(tmp_path) is Exit.COMPLETE
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert next(line for line in lines if line.startswith("own: ")).startswith(
        "own: 6 issues, asked only from own tests, "
    )
    for name, rubric in load_rubrics(tmp_path).items():
        at = next(number for number, line in enumerate(lines) if line.startswith(f"{name}: "))
        shown = lines[at + 1 : at + 1 + (len(rubric.fidelity.equals) if rubric.fidelity else 0)]
        assert shown == [
            f"  equals the paper: {equal}" for equal in (rubric.fidelity.equals if rubric.fidelity else ())
        ]
    assert any(line.startswith("themes: 80, ") for line in lines)
    assert any(line.startswith("prompts: version 3, ") for line in lines)
    assert said.count("  differs: ") > 15 and " Why: " in said


def test_a_rubric_without_validation_says_what_its_sweeps_need(tmp_path: Path, capsys: Said) -> None:
    own(tmp_path, "validation")
    assert check_rubrics(tmp_path) is Exit.COMPLETE
    assert "own: 12 seeds, 6 issues, no validation (made tests need `validate: off`)" in capsys.readouterr().out


def test_a_new_rubric_is_written_checked_and_not_run_before_it_is_filled_in(tmp_path: Path, capsys: Said) -> None:
    folder = tmp_path / "mine [bold]"
    assert new_rubric("admit_mistakes", folder) is Exit.COMPLETE
    written = f"{folder / 'admit_mistakes.yaml'}: written; fill it in, run `hab rubric check {folder}`"
    assert written in capsys.readouterr().out
    assert check_rubrics(folder) is Exit.CONFIGURATION
    assert "judging.examples.2.response: is still to be filled in; a bad answer" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="is there already"):
        new_rubric("admit_mistakes", folder)
