"""Rubrics as the variants of judges have them: the same letters and points, in another order or in other words."""

from __future__ import annotations

from collections.abc import Mapping

from hab_ray.errors import ConfigError
from hab_ray.rubric import Rubric, load_rewordings
from hab_ray.sections import VariedJudge


def wordings_of(judge: VariedJudge, rubrics: Mapping[str, Rubric]) -> dict[str, Rubric]:
    """The rubrics of a varied judge, of those dimensions of the sweep (`rubrics`) in which it differs.

    Raises:
        ConfigError: they cannot be read, have other letters or points, or no dimension differs.
    """
    found = dict(rubrics)
    if judge.rubrics is not None:
        own = load_rewordings(judge.rubrics)
        found = {
            dimension: _checked(own[dimension], rubrics[dimension], judge) for dimension in rubrics if dimension in own
        }
    if judge.issues == "reversed":
        found = {dimension: _reversed(rubric) for dimension, rubric in found.items()}
    varied = {dimension: rubric for dimension, rubric in found.items() if rubric.sha256 != rubrics[dimension].sha256}
    if not varied:
        raise ConfigError(
            f"variants.judges: {judge.name} has the rubrics of {judge.base} in every dimension of the sweep; reword at "
            f"least one of {', '.join(rubrics)}"
        )
    return varied


def _checked(own: Rubric, base: Rubric, judge: VariedJudge) -> Rubric:
    points, wanted = _points(own), _points(base)
    if points != wanted:
        raise ConfigError(
            f"{judge.rubrics}/{own.id}.yaml: judging.issues: has {_shown(points)}, and the rubric that it rewords has "
            f"{_shown(wanted)}; give both the same letters and points, else scores cannot be compared"
        )
    return own


def _reversed(rubric: Rubric) -> Rubric:
    if rubric.literal_judging is not None:
        raise ConfigError(
            f"variants.judges: the judges' prompt of {rubric.id} is imported word for word, so that its issues cannot "
            "be reversed; leave `issues: reversed` or the dimension out"
        )
    judging = rubric.judging.model_copy(update={"issues": rubric.judging.issues[::-1]})
    # Not `model_copy`, which would copy the digest with the fields.
    kept = {name: getattr(rubric, name) for name in type(rubric).model_fields}
    return type(rubric).model_validate({**kept, "judging": judging})


def _points(rubric: Rubric) -> dict[str, int]:
    return {issue.letter: issue.deduction for issue in rubric.judging.issues}


def _shown(points: Mapping[str, int]) -> str:
    return ", ".join(f"{letter} {points[letter]}" for letter in sorted(points))
