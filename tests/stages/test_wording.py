"""The prompts' templates, and those a sweep brings with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hab_ray.errors import ConfigError
from hab_ray.stages.prompts.wording import PROMPTS_VERSION, Prompts, load_prompts
from tests.stages.judging import changed_prompts


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
