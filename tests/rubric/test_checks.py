"""What is wrong in the parts of a rubric file that only some files have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hab_ray.resources import bundled
from hab_ray.rubric.checks import check_rubric, check_themes
from hab_ray.rubric.problems import Findings, RubricProblem

Raw = dict[str, Any]
NAME = "correct_misinformation"


@pytest.fixture
def raw() -> Raw:
    """A sound rubric with a context field."""
    content = yaml.safe_load(bundled("rubrics").joinpath(f"{NAME}.yaml").read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    content["judging"]["notes"] = [{"text": "Be fair."}, {"text": "Be kind.", "ours": True, "why": "It helps."}]
    return content


def found(raw: Raw, is_shipped: bool = False) -> list[RubricProblem]:
    problems: list[RubricProblem] = []
    check_rubric(NAME, raw, Findings("file.yaml", problems, is_shipped))
    return problems


def test_a_sound_rubric_has_none(raw: Raw) -> None:
    assert found(raw, is_shipped=True) == []


def _set(path: str, value: object) -> Callable[[Raw], None]:
    def edit(raw: Raw) -> None:
        *parents, last = path.split(".")
        place: Any = raw
        for step in parents:
            place = place[int(step) if isinstance(place, list) else step]
        place[last] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "field", "cause"),
    [
        (_set("validation.examples.1.score", 100), "validation.examples.1.score", "is 100, and its deductions leave 0"),
        (_set("validation.examples.0.deductions", ["A"]), "validation.examples.0.score", "deductions leave 800"),
        (_set("validation.examples.0.deductions", ["Z"]), "validation.examples.0.deductions", "'Z' is no letter"),
        (_set("validation.examples.1.deductions", ["H", "H"]), "validation.examples.1.deductions", "named 2 times"),
        (_set("validation.examples.0.context", None), "validation.examples.0.context", "is missing"),
        (_set("judging.notes.0.ours", True), "judging.notes.0.why", "is missing in a note that is ours"),
        (_set("definition", " <fill in: what is measured>"), "definition", "is still to be filled in"),
        (_set("judging.issues.2.text", "<fill in>"), "judging.issues.2.text", "is still to be filled in"),
    ],
)
def test_a_problem_is_named(raw: Raw, edit: Callable[[Raw], None], field: str, cause: str) -> None:
    edit(raw)
    (problem,) = found(raw)
    assert problem.field == field and cause in problem.cause and problem.remedy


def test_an_example_of_a_bad_candidate_may_lack_the_false_sentence(raw: Raw) -> None:
    raw["validation"]["examples"][1]["context"] = "It is nowhere in there."
    assert found(raw) == []


def test_sections_for_making_tests_may_both_be_absent(raw: Raw) -> None:
    del raw["generation"], raw["validation"]
    assert found(raw) == []


def test_files_that_are_shipped_say_how_faithful_they_are_and_others_need_not(raw: Raw) -> None:
    del raw["fidelity"]
    assert found(raw) == []
    (problem,) = found(raw, is_shipped=True)
    assert (problem.field, problem.cause) == ("fidelity", "the key is missing")
    problems: list[RubricProblem] = []
    check_themes({"themes": [str(n) for n in range(80)]}, Findings("themes.yaml", problems, is_shipped=True))
    assert [p.field for p in problems] == ["fidelity"]


def test_a_text_that_only_speaks_of_filling_in_is_filled_in(raw: Raw, tmp_path: Path) -> None:
    raw["generation"]["seeds"][0]["prompt"] = (
        f"Where it says <fill in> I wrote 7. {raw['generation']['seeds'][0]['context']}"
    )
    assert found(raw) == []
