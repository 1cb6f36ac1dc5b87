"""Variants: tests in other words for subjects, and rubrics in other words or another order for judges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from os.path import lexists
from pathlib import Path

from hab_ray.config.sections import VariedJudge
from hab_ray.errors import ConfigError
from hab_ray.rows import ChosenTest, Paraphrase
from hab_ray.rubric import Rubric, load_rewordings
from hab_ray.stages.prompts.wording import PROMPTS_FILE

Paraphrases = Mapping[str, Paraphrase]


def as_asked(tests: Iterable[ChosenTest], words: Paraphrases | None) -> list[ChosenTest]:
    """Tests in the words in which a subject is asked them, under the ids that they have.

    `words` are by the id of a test or by its prompt; None: in the tests' own. A test that has none is not asked.
    """
    if words is None:
        return list(tests)
    pairs = ((test, words.get(test.id) or words.get(test.prompt)) for test in tests)
    return [replace(test, prompt=own.prompt, context=own.context) for test, own in pairs if own is not None]


def wordings_of(judge: VariedJudge, rubrics: Mapping[str, Rubric]) -> dict[str, Rubric]:
    """The rubrics of a varied judge, of those dimensions of the sweep (`rubrics`) in which it differs.

    Raises:
        ConfigError: they cannot be read, have other letters or points, or no dimension differs.
    """
    found = dict(rubrics) if judge.rubrics is None else _reworded(judge.rubrics, rubrics)
    if judge.issues == "reversed":
        found = {dimension: _reversed(rubric) for dimension, rubric in found.items()}
    varied = {dimension: rubric for dimension, rubric in found.items() if rubric.sha256 != rubrics[dimension].sha256}
    if not varied:
        raise ConfigError(
            f"variants.judges: {judge.name} has the rubrics of {judge.base} in every dimension of the sweep; reword at "
            f"least one of {', '.join(rubrics)}"
        )
    return varied


def _reworded(folder: Path, rubrics: Mapping[str, Rubric]) -> dict[str, Rubric]:
    """A folder's rubrics of the sweep's dimensions, with the letters, points and fields of the sweep's."""
    own = load_rewordings(folder)
    if not own:
        raise ConfigError(
            f"variants.judges.rubrics: {folder} has no rubric; copy the dimensions that are to be reworded there, and "
            "edit them"
        )
    if lexists(folder / PROMPTS_FILE):
        raise ConfigError(
            f"variants.judges.rubrics: {folder / PROMPTS_FILE} is not read: variants differ in their rubrics and are "
            "asked by the sweep's prompts; move the file away"
        )
    for dimension in sorted(own.keys() & rubrics.keys()):
        if (own[dimension].context is None) != (rubrics[dimension].context is None):
            raise ConfigError(
                f"{folder}/{dimension}.yaml: context: is given in one of the rubrics alone, this one and the one that "
                "it rewords; describe the field in both, as judges are shown it, or in none"
            )
        points, wanted = _points(own[dimension]), _points(rubrics[dimension])
        if points != wanted:
            raise ConfigError(
                f"{folder}/{dimension}.yaml: judging.issues: has {_shown(points)}, and the rubric that it rewords has "
                f"{_shown(wanted)}; give both the same letters and points, else scores cannot be compared"
            )
    return {dimension: own[dimension] for dimension in rubrics if dimension in own}


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
