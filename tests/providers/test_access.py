"""Where an account's secrets are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from hab_ray.catalog.models import ProviderEntry
from hab_ray.errors import ConfigError
from hab_ray.providers.access import api_key, endpoint_of, has_secret, variables_of

KEY = "sk-fake-0123456789"


def test_a_key_is_read_from_its_variable_or_from_the_file_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    monkeypatch.setenv("LAB_KEY_FILE", str(tmp_path / "key"))
    assert api_key("lab", "LAB_KEY") == KEY
    monkeypatch.setenv("LAB_KEY", "  ")
    assert api_key("lab", "LAB_KEY") == KEY
    monkeypatch.setenv("LAB_KEY", "sk-of-the-variable")
    assert api_key("lab", "LAB_KEY") == "sk-of-the-variable"


def test_headers_are_read_from_files_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "team").write_text("red")
    monkeypatch.setenv("LAB_TEAM_FILE", str(tmp_path / "team"))
    entry = ProviderEntry(kind="openai", url="http://h/v1", headers_env={"X-Team": "LAB_TEAM"})
    assert endpoint_of("lab", entry, "http://h/v1").headers == {"X-Team": "red"} and variables_of(entry) == ["LAB_TEAM"]


def test_a_key_that_was_put_where_a_file_belongs_is_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (KEY, "x" * 5000 + KEY, "/"):
        monkeypatch.setenv("LAB_KEY_FILE", value)
        with pytest.raises(ConfigError, match="LAB_KEY_FILE does not name a readable file") as refused:
            api_key("lab", "LAB_KEY")
        assert KEY not in str(refused.value) and refused.value.__cause__ is None
        assert not has_secret("LAB_KEY", {"LAB_KEY_FILE": value})


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("two\nlines", "characters that no header may have"),
        ("schl\u00fcssel", "characters that no header may have"),
        ("\n", r"LAB_KEY is not set; .* LAB_KEY_FILE names"),
    ],
)
def test_a_file_that_holds_no_key_is_refused_without_showing_it(
    content: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text(content)
    monkeypatch.setenv("LAB_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(ConfigError, match=why) as refused:
        api_key("lab", "LAB_KEY")
    assert content not in str(refused.value)
    assert has_secret("LAB_KEY", {"LAB_KEY_FILE": str(tmp_path / "key")}) == bool(content.strip())
