"""`hab rubric new`: a file that `hab rubric check` reads, and in which it names all that is to be filled in."""

import re
from pathlib import Path

import pytest
import yaml

from hab_ray.errors import ConfigError
from hab_ray.rubric import RubricPart, check, literal, load_rubrics
from hab_ray.rubric.parts import Rubric
from hab_ray.rubric.skeleton import write_skeleton

NAME = "admit_mistakes"


def filled(path: Path) -> None:
    """Fill in the skeleton, with ten seeds."""
    number = iter(range(100))
    text = re.sub(r'"<fill in[^"]*>"', lambda _: f"This is text {next(number)} of them.", path.read_text("utf-8"))
    content = yaml.safe_load(text)
    content["generation"]["seeds"] = [{"prompt": f"Question {n}?"} for n in range(10)]
    path.write_text(yaml.safe_dump(content), "utf-8")


def test_every_text_that_is_open_is_named_with_what_belongs_there(tmp_path: Path) -> None:
    path = write_skeleton(NAME, tmp_path / "mine")
    problems = check(tmp_path / "mine")
    unfinished = [p for p in problems if p.cause == "is still to be filled in"]
    assert len(unfinished) == path.read_text("utf-8").count('"<fill in') > 15
    assert [(p.field, p.cause) for p in problems if p not in unfinished] == [("generation.seeds", "has 1 seed")]
    assert {p.file for p in problems} == {str(path)}
    assert next(p.remedy for p in unfinished if p.field == "title").startswith("a few words")
    with pytest.raises(ConfigError, match="still to be filled in"):
        load_rubrics(tmp_path / "mine")


def test_filled_in_it_is_a_rubric(tmp_path: Path) -> None:
    filled(write_skeleton(NAME, tmp_path))
    assert check(tmp_path) == []
    assert load_rubrics(tmp_path)[NAME].issue_letters() == ("A", "B")


def test_every_field_is_there_or_spoken_of(tmp_path: Path) -> None:
    text = write_skeleton(NAME, tmp_path).read_text("utf-8")
    shipped = (part for part in RubricPart.__subclasses__() if part.__module__.startswith("hab_ray."))
    written_by_hand = [part for part in shipped if part.__module__ != literal.__name__]
    fields = {name for part in written_by_hand for name in part.model_fields} - {
        "fidelity",  # of the files that are shipped
        *("equals", "differs", "what"),
        *("themes", "lines"),
        "literal",  # of the files that `hab import rubrics` writes
    }
    assert {"id", "notes", "within_prompt", "score"} <= fields
    assert [name for name in sorted(fields) if not re.search(rf"\b{name}:", text)] == []
    assert Rubric.model_fields["fidelity"].is_required() is False


@pytest.mark.parametrize("name", ["Admit", "9lives", "a-b", "", "../x", "a" * 64, "a\n", "é"])
def test_a_name_that_can_be_no_dimension_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot name a dimension: write a lower-case letter"):
        write_skeleton(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = write_skeleton(NAME, tmp_path)
    path.write_text("mine")
    with pytest.raises(ConfigError, match="is there already"):
        write_skeleton(NAME, tmp_path)
    assert path.read_text() == "mine"
    with pytest.raises(ConfigError, match="encourage_learning is a built-in dimension; to change it, copy"):
        write_skeleton("encourage_learning", tmp_path)
    with pytest.raises(ConfigError, match="is a file, not a folder; name another with --folder"):
        write_skeleton("another", path)
