"""What the documents for developers name exists, and calls go the way they say."""

import importlib
import re
from pathlib import Path

import pytest

from benchmarks import sweep_reference

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "docs/architecture.md", ROOT / "docs/method.md", ROOT / "CONTRIBUTING.md"]
CODE = re.compile(r"`([^`\n]+)`")
DOTTED = re.compile(r"(?:hab_ray|hab_simulator)(?:\.\w+)+")
FILE = re.compile(r"(hab_ray|hab_simulator|tests|benchmarks|rubrics|docs|jobs)/[\w./-]*")


def named(document: Path) -> list[str]:
    return CODE.findall(document.read_text(encoding="utf-8"))


def found(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one, or of one of its classes."""
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            thing: object = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for part in parts[split:]:
            if not hasattr(thing, part):
                return False
            thing = getattr(thing, part)
        return True
    return False


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_names(document: Path) -> None:
    """Every module, class, function and file that a document names is there."""
    names = named(document)
    dotted = [name for name in names if DOTTED.fullmatch(name)]
    files = [name for name in names if FILE.fullmatch(name)]
    assert len(dotted) + len(files) > 5
    assert [name for name in dotted if not found(name)] == []
    assert [name for name in files if not (ROOT / name).exists()] == []


def test_the_reference_of_sweep_files_is_current() -> None:
    """Every key that a sweep file may have, as the models read it, with words."""
    written = sweep_reference.PAGE.read_text(encoding="utf-8")
    assert written == sweep_reference.page(), "run `python -m benchmarks.sweep_reference`"
    assert all(f"| `{key}` |" in written for key in ("batch", "priced_as", "lanes", "patience_s", "timeout_s"))


def test_the_pages_pictures_are_figures_of_simulated_answers() -> None:
    shown = re.findall(r"!\[[^\]]+\]\((docs/[^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert shown == ["docs/leaderboard.svg", "docs/issues.svg"]
    assert all("Simulated answers" in (ROOT / each).read_text(encoding="utf-8") for each in shown)
