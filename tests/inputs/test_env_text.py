from pathlib import Path

import pytest

from hab_ray.inputs.env_text import env_file, env_keys
from hab_ray.inputs.files import BadInput

TEXT = """
# keys of this project
OPENAI_API_KEY=abc-1
export ANTHROPIC_API_KEY = "with blank"   # and a remark
EMPTY=
QUOTED='a#b'
HASH=a#b
"""


def test_lines_are_read_as_shells_read_them(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text(TEXT)
    assert env_file(file) == {
        "OPENAI_API_KEY": "abc-1",
        "ANTHROPIC_API_KEY": "with blank",
        "EMPTY": "",
        "QUOTED": "a#b",
        "HASH": "a#b",
    }


@pytest.mark.parametrize(
    "line", ["the-secret-alone", "KEY='the-secret", "KEY=the-secret in two", "2KEY=the-secret", "A=the\0secret"]
)
def test_what_is_no_variable_is_named_by_its_line_alone(tmp_path: Path, line: str) -> None:
    file = tmp_path / ".env"
    file.write_text(f"A=1\n{line}\n")
    with pytest.raises(BadInput, match="line 2") as refused:
        env_file(file)
    assert "secret" not in str(refused.value)


def test_keys_are_read_among_lines_of_other_programs(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text(f"[section]\nMOTTO=two words\n{TEXT}")
    assert env_keys(file) == {"OPENAI_API_KEY": "abc-1", "ANTHROPIC_API_KEY": "with blank"}
    file.write_text("A=1\nLAB_KEY=the-secret in two\n")
    with pytest.raises(BadInput, match="line 2") as refused:
        env_keys(file)
    assert "secret" not in str(refused.value)
