import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from hab_ray.config.paths import resolve_paths
from hab_ray.config.sweep import load_sweep
from hab_ray.errors import ConfigError

GIVEN: dict[str, Any] = {
    "name": "mine",
    "rubrics": "my_rubrics",
    "tests": "tests.csv",
    "responses": {"file": "answers.csv", "only": "rated"},
    "raters": ["people.csv", "s3://bucket/people.csv"],
    "variants": {"subjects": [{"name": "a", "tests": "words.csv"}], "judges": [{"name": "b", "rubrics": "/abs"}]},
    "run": "runs/mine",
    "store": "store",
}


def test_what_a_sweep_reads_is_beside_it_and_what_it_writes_is_not() -> None:
    placed = resolve_paths(GIVEN, Path("jobs/mine.yaml"))
    assert placed == GIVEN | {
        "rubrics": "jobs/my_rubrics",
        "tests": "jobs/tests.csv",
        "responses": {"file": "jobs/answers.csv", "only": "rated"},
        "raters": ["jobs/people.csv", "s3://bucket/people.csv"],
        "variants": {
            "subjects": [{"name": "a", "tests": "jobs/words.csv"}],
            "judges": [{"name": "b", "rubrics": "/abs"}],
        },
    }
    assert resolve_paths(GIVEN, Path("mine.yaml")) == GIVEN
    assert resolve_paths({"tests": "seeds", "responses": "a.csv"}, Path("j/m.yaml"))["tests"] == "seeds"
    assert resolve_paths({"tests": "seeds", "responses": "a.csv"}, Path("j/m.yaml"))["responses"] == "j/a.csv"


@pytest.mark.parametrize("sweep", ["mine.yaml", "jobs/mine.yaml"])
def test_a_tilde_is_the_users_home(sweep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    placed = resolve_paths({"rubrics": "~/rubrics", "responses": {"file": "~/a.csv"}}, Path(sweep))
    assert placed == {"rubrics": "/home/me/rubrics", "responses": {"file": "/home/me/a.csv"}}


def test_a_file_in_the_present_folder_is_taken_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As sweeps were written before; a file beside the sweep goes before it, without a word."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "tests.csv").write_text("old")
    with caplog.at_level(logging.WARNING, "hab_ray"):
        assert resolve_paths({"tests": "tests.csv"}, Path("jobs/mine.yaml")) == {"tests": "tests.csv"}
        assert "jobs/mine.yaml: tests: tests.csv is not beside this file" in caplog.text
        caplog.clear()
        (tmp_path / "jobs/tests.csv").write_text("new")
        assert resolve_paths({"tests": "tests.csv"}, Path("jobs/mine.yaml")) == {"tests": "jobs/tests.csv"}
        assert caplog.text == ""


@pytest.mark.parametrize(
    "odd",
    [{"tests": 3}, {"tests": "a\0b"}, {"tests": "~\ud800"}, {"raters": "x"}, {"variants": [1]}, {"responses": None}],
)
def test_what_is_no_path_is_left_to_the_checks_of_the_sweep(odd: dict[str, Any]) -> None:
    assert resolve_paths(odd, Path("mine.yaml")) == odd
    resolve_paths(odd, Path("jobs/mine.yaml"))


def test_a_missing_file_is_named_where_it_belongs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs").mkdir()
    sweep = {"name": "mine", "tests": "tests.csv", "subjects": ["gpt-6-luna"], "judges": ["gpt-6-luna"]}
    (tmp_path / "jobs/mine.yaml").write_text(yaml.safe_dump(sweep))
    with pytest.raises(ConfigError, match=r"tests: there is no file jobs/tests\.csv"):
        load_sweep(Path("jobs/mine.yaml"))
