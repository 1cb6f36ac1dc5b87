"""`hab rubric check` and `hab rubric new` as they print."""

from pathlib import Path

import yaml
from typer.testing import CliRunner

from hab_ray.cli.main import app
from hab_ray.errors import Exit
from hab_ray.resources import bundled
from hab_ray.rubric import load_rubrics

NAME = "encourage_learning"


def rubric(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["rubric", *map(str, arguments)])
    return done.exit_code, done.output


def own(folder: Path, *without: str) -> None:
    """A rubric `own` in a folder: a built-in one without some of its sections."""
    content = yaml.safe_load(bundled("rubrics").joinpath(f"{NAME}.yaml").read_text(encoding="utf-8"))
    kept = {key: value for key, value in content.items() if key not in without}
    (folder / "own.yaml").write_text(yaml.safe_dump(kept | {"id": "own"}), "utf-8")


def test_a_sound_folder_shows_what_is_in_it_and_how_faithful_it_is(tmp_path: Path) -> None:
    own(tmp_path, "generation", "validation", "fidelity")
    status, said = rubric("check", tmp_path)
    assert status == Exit.COMPLETE
    lines = said.splitlines()
    assert any(line.startswith("own: 6 issues, for given tests only, ") for line in lines)
    for name, found in load_rubrics(tmp_path).items():
        at = next(number for number, line in enumerate(lines) if line.startswith(f"{name}: "))
        equals = found.fidelity.equals if found.fidelity else ()
        assert lines[at + 1 : at + 1 + len(equals)] == [f"  equals the paper: {equal}" for equal in equals]
    assert any(line.startswith("themes: 80, ") for line in lines)
    assert any(line.startswith("prompts: version 3, ") for line in lines)
    assert said.count("  differs: ") > 15 and " Why: " in said


def test_a_rubric_without_validation_says_what_its_sweeps_need(tmp_path: Path) -> None:
    own(tmp_path, "validation")
    status, said = rubric("check", tmp_path)
    assert status == Exit.COMPLETE
    assert "own: 12 seeds, 6 issues, no validation (generated tests need `validate: off`)" in said


def test_a_new_rubric_is_written_checked_and_not_run_before_it_is_filled_in(tmp_path: Path) -> None:
    folder = tmp_path / "mine [bold]"
    status, said = rubric("new", "admit_mistakes", "--folder", folder)
    assert status == Exit.COMPLETE
    assert f"{folder / 'admit_mistakes.yaml'}: written; fill it in, run `hab rubric check {folder}`" in said
    status, said = rubric("check", folder)
    assert status == Exit.CONFIGURATION
    assert "judging.examples.2.response: is still to be filled in; a bad answer" in said
    status, said = rubric("new", "admit_mistakes", "--folder", folder)
    assert status == Exit.CONFIGURATION and "is there already" in said
