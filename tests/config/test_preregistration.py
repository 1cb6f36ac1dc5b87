"""The section that declares an analysis: what it takes, its digest, what a change of it is called."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from hab_ray.config.preregistration import AnalysisPlan, Correction, StoppingRule, changed_sections
from hab_ray.config.sweep import load_sweep
from hab_ray.errors import ConfigError

PLAN: dict[str, Any] = {
    "primary": "overall",
    "families": [{"name": "vendors", "compares": "subjects", "among": ["a", "b"]}],
    "exclusions": ["Answers in another language than the question."],
    "alpha": 0.05,
    "stopping": "fixed",
}


def plan(**changes: Any) -> AnalysisPlan:
    return AnalysisPlan.model_validate({**PLAN, **changes})


def test_short_forms_are_the_long_ones() -> None:
    long = plan(primary={"dimension": "overall", "judge": "panel"}, stopping={"rule": "fixed"})
    assert long == plan() and long.sha256 == plan().sha256
    (family,) = long.families
    assert (family.correction, family.dimensions) == (Correction.HOLM, ("overall",))
    assert long.stopping.rule == StoppingRule.FIXED


@pytest.mark.parametrize(
    "changes",
    [
        {"primary": "encourage_learning"},
        {"families": []},
        {"exclusions": []},
        {"alpha": 0.01},
        {"stopping": {"rule": "sequential", "details": "After 100 and 200 tests, O'Brien-Fleming."}},
    ],
)
def test_each_section_counts_and_is_named_when_it_changes(changes: dict[str, Any]) -> None:
    assert plan(**changes).sha256 != plan().sha256
    assert changed_sections(plan(), plan(**changes)) == tuple(changes)


def test_the_digest_of_a_plan_stays_as_it_is() -> None:
    assert plan().sha256 == "5f5b5118db81eb7901d6028f6f96daa1487d4c5d8ed02259b49962d8e3f7adc8"
    assert changed_sections(plan(), plan()) == ()
    assert changed_sections(plan(), None) == tuple(PLAN)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"alpha": 5}, "alpha"),
        ({"alpha": True}, "alpha: is a truth value"),
        ({"alpha": None}, "alpha"),
        ({"stopping": "when it looks good"}, "analysis.stopping: must be 'fixed'"),
        ({"stopping": {"rule": "sequential"}}, "needs `details:`"),
        ({"families": [PLAN["families"][0], PLAN["families"][0]]}, "'vendors' appears twice"),
        ({"families": [{"name": "primary", "compares": "subjects"}]}, "'primary' means the primary outcome"),
        ({"families": [{"name": "x", "compares": "subjects", "among": ["a"]}]}, "has a single name"),
        ({"families": [{"name": "x", "compares": "moods"}]}, "families.0.compares"),
        ({"families": [{"name": "x", "compare": "subjects"}]}, "did you mean 'compares'"),
        ({"exclusions": ["x" * 1001]}, "exclusions.0"),
        ({"exclusions": [" "]}, "exclusions.0"),
        ({"primary": {"dimension": "a\u202eb"}}, "cannot be seen"),
        ({"primay": "overall"}, "did you mean 'primary'"),
    ],
)
def test_what_is_wrong_is_named_by_its_key(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    lab = {"lab": {"kind": "openai", "url": "http://lab/v1"}}
    sweep = {"name": "x", "tests": "seeds", "providers": lab, "subjects": ["lab/a"], "judges": ["lab/j"]}
    path.write_text(yaml.safe_dump({**sweep, "analysis": PLAN}))
    assert load_sweep(path).analysis == plan()
    path.write_text(yaml.safe_dump({**sweep, "analysis": {**PLAN, **changes}}))
    with pytest.raises(ConfigError, match="analysis") as raised:
        load_sweep(path)
    assert told in str(raised.value)


def test_names_that_a_sweep_does_not_have_are_found() -> None:
    wrong = plan(
        primary={"dimension": "encourage", "judge": "j"},
        families=[
            {"name": "one", "compares": "subjects", "among": ["a", "c"]},
            {"name": "two", "compares": "dimensions", "dimensions": ["overall", "d"]},
            {"name": "three", "compares": "judges", "among": ["j", "panel", "k"]},
        ],
    )
    assert list(wrong.unknown_names(["a", "b"], ["j"], ["d"])) == [
        "analysis.primary.dimension: encourage",
        "analysis.families.0.among: c",
        "analysis.families.2.among: k",
    ]
