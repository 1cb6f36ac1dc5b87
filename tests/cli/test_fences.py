"""Fences and shared prompts as a user meets them: `hab run` by batch, `hab rubric check`. No Ray."""

from pathlib import Path

import pytest
import yaml

from hab_ray.resources import bundled
from hab_ray.storage.secret import SECRET
from tests.conftest import Desk, Vendors
from tests.sweep.crashing import sweep_file


def test_a_run_keeps_its_secret(desk: Desk, vendor: Vendors) -> None:
    done = desk.says("run", sweep_file(desk.folder, "openai", vendor().url, "fenced"), "--yes", "-v")
    secret = desk.folder / "store" / SECRET
    shown = [secret.read_bytes(), secret.read_bytes().hex().encode()]
    kept = [file.read_bytes() for file in desk.folder.rglob("*") if file.is_file() and file != secret]
    assert len(kept) > 10
    assert not any(form in text for form in shown for text in [*kept, done.encode()])


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder of rubrics that somebody shared; its prompts are the built-in ones so far."""
    folder = tmp_path / "shared"
    folder.mkdir()
    text = bundled("rubrics").joinpath("prompts.yaml").read_text(encoding="utf-8")
    (folder / "prompts.yaml").write_text(text, encoding="utf-8")
    return folder


def change(folder: Path, stage: str, half: str, text: str) -> None:
    file = folder / "prompts.yaml"
    prompts = yaml.safe_load(file.read_text(encoding="utf-8"))
    prompts[stage][half] = text
    file.write_text(yaml.safe_dump(prompts), encoding="utf-8")


def test_rubric_check_tries_every_template_and_names_all_that_fail(desk: Desk, shared: Path) -> None:
    desk.says("rubric", "check", shared)
    change(shared, "generate", "user", "{{ rubric.generation.brief }} {{ seeds }}")
    change(shared, "validate", "user", "{% if context %}{{ rubric.context.labell }}{% endif %}")
    change(shared, "validate", "system", "{% if not rubric.context %}{{ rubric.context.label }}{% endif %}")
    change(shared, "judge", "again", "{{ problem }} {{ answer }}")
    (shared / "bad.yaml").write_text("id: other")
    done = desk.says("rubric", "check", shared, status=2)
    lines = [line for line in done.splitlines() if "prompts.yaml: " in line]
    named = ["generate.user", "validate.system", "validate.user", "judge.again"]
    assert [line.split(": ")[1] for line in lines] == named
    assert "`labell`" in lines[2] and "`answer` is unknown; it may use problem" in lines[3]
    assert all(line.endswith("; change the template; the built-in one shows what works") for line in lines)
    assert "bad.yaml: id: is 'other'" in done
