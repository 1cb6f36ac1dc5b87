"""The prompts' templates, those a sweep brings with it, and those of earlier versions.

A run that started with earlier prompts and fences keeps its calls, so that nothing is paid for again.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hab_ray.errors import ConfigError
from hab_ray.resources import bundled
from hab_ray.rubric import load_rubrics
from hab_ray.stages.prompts.wording import PROMPTS_VERSION, Prompts, load_prompts, prompt_problems, unshown_values
from tests.stages.calls_of_prompts import calls
from tests.stages.judging import changed_prompts

# Keys and hash as computed by the last commit that had the version: (prompts, fence) and what it recorded.
EARLIER = [
    (version, fence, json.loads(Path(__file__).with_name(f"keys_of_prompts_{version}.json").read_text()))
    for version, fence in [(1, 1), (2, 2)]
]


def test_a_folder_without_prompts_has_the_built_in_ones(tmp_path: Path, prompts: Prompts) -> None:
    assert load_prompts(tmp_path).sha256 == load_prompts(None).sha256 == prompts.sha256


def test_a_folders_own_prompts_go_before_and_have_another_hash(tmp_path: Path, prompts: Prompts) -> None:
    found = changed_prompts(tmp_path, user=f"{prompts.judge.user} Be strict.")
    assert found.judge.user.endswith(" Be strict.")
    assert found.sha256 != prompts.sha256


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("", ""),
        ("[]", ""),
        ("version: [", ""),
        ("version: " + "[" * 100_000, ""),
        ("version: 1", "validate"),
        ("version: 1\nvalidate: {system: a, usr: b}", "validate.usr"),
        (f"version: {PROMPTS_VERSION + 1}", "version"),
        ("version: 1\nvalidate: !!python/object/apply:os.getcwd []", ""),
    ],
)
def test_what_is_no_prompts_file_is_named(text: str, at: str, tmp_path: Path) -> None:
    (tmp_path / "prompts.yaml").write_text(text)
    with pytest.raises(ConfigError, match=rf"prompts\.yaml: {at}.*not a prompts file: .*built-in prompts.yaml"):
        load_prompts(tmp_path)


def test_a_repeated_request_says_what_was_wrong_where_the_prompts_have_words_for_it(prompts: Prompts) -> None:
    said = prompts.judge.fill_again("it names the letter Z, which the rubric does not have")
    assert said is not None and "could not be used: it names the letter Z, which the rubric does not have." in said
    assert prompts.generate.fill_again("x") is None


@pytest.mark.parametrize(("version", "fence", "recorded"), EARLIER)
def test_earlier_prompts_make_their_calls(version: int, fence: int, recorded: dict[str, Any], tmp_path: Path) -> None:
    text = bundled("rubrics").joinpath("versions", f"prompts-{version}.yaml").read_text(encoding="utf-8")
    (tmp_path / "prompts.yaml").write_text(text, encoding="utf-8")
    for prompts in (load_prompts(version=version, fence=fence), load_prompts(tmp_path, PROMPTS_VERSION, fence)):
        assert (prompts.version, prompts.sha256) == (version, recorded["prompts"])
        assert {name: call.key for name, call in calls(prompts).items()} == recorded["keys"]


def test_new_runs_have_other_prompts_and_earlier_versions_are_no_rubrics() -> None:
    now = load_prompts()
    assert now.version == PROMPTS_VERSION
    assert now.sha256 not in {recorded["prompts"] for _, _, recorded in EARLIER}
    assert not any("prompts" in name for name in load_rubrics())


@pytest.mark.parametrize(
    ("shown", "instead", "stage", "name"),
    [
        ('fence("ASSISTANT", response)', 'fence("ASSISTANT", prompt)', "judge", "response"),
        ("response)", '("" if context else response))', "judge", "response"),
        ('fence("USER", prompt)', '"The usual question"', "judge", "prompt"),
        ('fence("MESSAGE", prompt)', '"A message"', "validate", "prompt"),
        ("Write {{ count }} new", "Write 3 new", "generate", "count"),
    ],
)
def test_a_request_must_show_its_subject(shown: str, instead: str, stage: str, name: str, tmp_path: Path) -> None:
    text = bundled("rubrics").joinpath("prompts.yaml").read_text(encoding="utf-8")
    assert shown in text and prompt_problems(tmp_path) == []
    (tmp_path / "prompts.yaml").write_text(text.replace(shown, instead), encoding="utf-8")
    (problem,) = prompt_problems(tmp_path)
    assert (problem.file, problem.field) == (str(tmp_path / "prompts.yaml"), f"{stage}.user")
    assert f"`{name}`" in problem.cause
    assert load_prompts(tmp_path).judge.file == problem.file


@pytest.mark.parametrize("version", range(1, PROMPTS_VERSION + 1))
def test_no_prompts_that_shipped_leave_out_what_a_request_is_about(version: int) -> None:
    assert list(unshown_values(load_prompts(version=version))) == []


def test_a_remark_on_fidelity_is_no_other_prompt(tmp_path: Path) -> None:
    text = bundled("rubrics").joinpath("prompts.yaml").read_text(encoding="utf-8")
    other = text.replace("The words are ours throughout.", "The words are our own.")
    (tmp_path / "prompts.yaml").write_text(other, encoding="utf-8")
    now, changed = load_prompts(), load_prompts(tmp_path)
    assert changed.fidelity != now.fidelity
    assert replace(changed, fidelity=None).sha256 == now.sha256


@pytest.mark.parametrize(("version", "fence"), [(0, 1), (PROMPTS_VERSION + 1, 1), (1, 0), (1, 99)])
def test_a_version_of_another_program_is_refused(version: int, fence: int) -> None:
    with pytest.raises(ConfigError, match="use the version that started the run"):
        load_prompts(version=version, fence=fence)
