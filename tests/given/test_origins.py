"""Where given data comes from, as far as it is stated."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from hab_ray.config.sweep import Sweep
from hab_ray.errors import ConfigError
from hab_ray.given.origins import origins_of, stated_origin
from hab_ray.inputs.origin import Origin
from hab_ray.location import Location
from hab_ray.rubric import Rubric, load_rubrics

PLAIN = "encourage_learning"


def sweep(**changes: Any) -> Sweep:
    return Sweep.model_validate({"name": "x", "subjects": ["lab/a"], "judges": ["lab/j"], **changes})


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"source": " a\nlist ", "rows": 3, "columns": {"prompt": "q"}}, Origin(source="a list")),
        ({"source": "s", "licence": "mit", "canaries": ["c", " "]}, Origin(source="s", licence="mit", canaries=("c",))),
        ({"source": "s", "license": "mit"}, Origin(source="s", licence="mit")),
        ({"source": "s", "licence": " "}, Origin(source="s")),
    ],
)
def test_a_record_beside_a_file_says_its_origin(stated: dict[str, Any], expected: Origin, tmp_path: Path) -> None:
    file = Location.of(tmp_path / "t.csv")
    assert stated_origin(file, "tests") is None
    (tmp_path / "t.csv.source.yaml").write_text(yaml.safe_dump(stated))
    assert stated_origin(file, "tests") == expected


@pytest.mark.parametrize(
    "text", ["[", "", "licence: mit", "source: []", "source: x\nlicence: 3", "source: x\ncanaries: y"]
)
def test_a_record_that_cannot_be_read_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv.source.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"tests: .*t\.csv\.source\.yaml: .*or remove the file"):
        stated_origin(Location.of(tmp_path / "t.csv"), "tests")


def test_answers_have_an_origin_and_own_tests_have_none(tmp_path: Path) -> None:
    given = sweep(tests=tmp_path / "t.csv", responses=tmp_path / "r.csv")
    found = origins_of(given, {}, {})
    assert found == {"responses": Origin(source="r.csv")} and not found["responses"].has_licence
    earlier = {"tests": Origin(source="once stated", licence="mit"), "responses": Origin(source="once stated")}
    assert origins_of(given, {}, earlier) == earlier
    (tmp_path / "r.csv.source.yaml").write_text("source: now\nlicence: MIT")
    now = origins_of(given, {}, earlier)
    assert now == earlier | {"responses": Origin(source="now", licence="MIT")} and now["responses"].has_licence


def test_imported_wording_brings_its_origin() -> None:
    content = load_rubrics()[PLAIN].model_dump(mode="json", exclude_none=True)
    origin = {"source": "a checkout", "licence": "unknown"}
    content["literal"] = {"origin": origin, "judging": {"user": [{"value": "response"}]}}
    rubrics = {"own": load_rubrics()[PLAIN], PLAIN: Rubric.model_validate(content)}
    assert origins_of(sweep(tests="seeds"), rubrics, {}) == {f"rubric {PLAIN}": Origin(source="a checkout")}


@pytest.mark.parametrize("licence", ["unknown", "Unknown ", "none", "NOASSERTION"])
def test_a_licence_that_is_not_known_is_none(licence: str) -> None:
    assert not Origin(source="s", licence=licence).has_licence
