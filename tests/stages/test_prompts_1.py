"""A run that started with the first prompts and fences keeps its calls, so that nothing is paid for again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hab_ray.errors import ConfigError
from hab_ray.resources import bundled
from hab_ray.rubric import load_rubrics
from hab_ray.stages.wording import PROMPTS_VERSION, load_prompts
from tests.stages.calls_of_prompts import calls

# Keys and hash as computed by the commit before there were versions.
RECORDED = json.loads(Path(__file__).with_name("keys_of_prompts_1.json").read_text())


def test_the_first_prompts_still_make_the_calls_they_made() -> None:
    prompts = load_prompts(version=1, fence=1)
    assert prompts.version == 1
    assert prompts.sha256 == RECORDED["prompts"]
    assert {name: call.key for name, call in calls(prompts).items()} == RECORDED["keys"]


def test_a_folder_with_the_first_prompts_of_its_own_still_makes_them_too(tmp_path: Path) -> None:
    text = bundled("rubrics").joinpath("versions", "prompts-1.yaml").read_text(encoding="utf-8")
    (tmp_path / "prompts.yaml").write_text(text, encoding="utf-8")
    prompts = load_prompts(tmp_path, version=PROMPTS_VERSION, fence=1)
    assert prompts.sha256 == RECORDED["prompts"]
    assert {name: call.key for name, call in calls(prompts).items()} == RECORDED["keys"]


def test_new_runs_have_other_prompts_and_earlier_versions_are_no_rubrics() -> None:
    now = load_prompts()
    assert (now.version, now.sha256 != RECORDED["prompts"]) == (PROMPTS_VERSION, True)
    assert not any("prompts" in name for name in load_rubrics())


@pytest.mark.parametrize(("version", "fence"), [(0, 1), (PROMPTS_VERSION + 1, 1), (1, 0), (1, 99)])
def test_a_version_of_another_program_is_refused(version: int, fence: int) -> None:
    with pytest.raises(ConfigError, match="use the one that started the run"):
        load_prompts(version=version, fence=fence)
