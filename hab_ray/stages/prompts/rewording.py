"""Variants: paraphrased tests for subjects, and reworded or reordered rubrics for judges."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from os.path import lexists
from pathlib import Path

from hab_ray.config.sections import VariedJudge
from hab_ray.errors import ConfigError
from hab_ray.rows import ChosenTest, Paraphrase
from hab_ray.rubric import KeptTexts, Rubric, load_rewordings
from hab_ray.stages.prompts.wording import PROMPTS_FILE

Paraphrases = Mapping[str, Paraphrase]


def paraphrased(tests: Iterable[ChosenTest], paraphrases: Paraphrases | None) -> list[ChosenTest]:
    """Replace the texts of tests by their paraphrases, looked up by the test's id or prompt. Ids stay the same.

    Without paraphrases (None) the tests stay as they are. Otherwise a test without a paraphrase is left out.
    """
    if paraphrases is None:
        return list(tests)
    pairs = ((test, paraphrases.get(test.id) or paraphrases.get(test.prompt)) for test in tests)
    return [replace(test, prompt=own.prompt, context=own.context) for test, own in pairs if own is not None]


def wordings_of(judge: VariedJudge, rubrics: Mapping[str, Rubric], kept: KeptTexts) -> dict[str, Rubric]:
    """Return a varied judge's rubrics, for the dimensions of the sweep in which they differ from `rubrics`.

    They are the run's copies, if `kept` has them. Raise ConfigError if the rubrics cannot be read, have other letters
    or points, or differ in no dimension.
    """
    if copies := kept.wordings(judge.name, rubrics):
        return copies
    reworded = dict(rubrics) if judge.rubrics is None else _reworded(judge.rubrics, rubrics)
    if judge.issues == "reversed":
        reworded = {dimension: _reversed(rubric) for dimension, rubric in reworded.items()}
    varied = {dimension: own for dimension, own in reworded.items() if own.sha256 != rubrics[dimension].sha256}
    if not varied:
        raise ConfigError(
            f"variants.judges: {judge.name} has the same rubrics as {judge.base} in every dimension of the sweep; "
            f"reword at least one of {', '.join(rubrics)}"
        )
    return varied


def _reworded(folder: Path, rubrics: Mapping[str, Rubric]) -> dict[str, Rubric]:
    """Read a folder's rubrics of the sweep's dimensions. Refuse other letters, points or context fields."""
    own = load_rewordings(folder)
    if not own:
        raise ConfigError(
            f"variants.judges.rubrics: {folder} has no rubrics; copy those that you want to reword there and edit them"
        )
    if lexists(folder / PROMPTS_FILE):
        raise ConfigError(
            f"variants.judges.rubrics: {folder / PROMPTS_FILE} would be ignored: variants differ in their rubrics "
            "only and use the sweep's prompts; move the file elsewhere"
        )
    for dimension in sorted(own.keys() & rubrics.keys()):
        if (own[dimension].context is None) != (rubrics[dimension].context is None):
            raise ConfigError(
                f"{folder}/{dimension}.yaml: context: is in only one of this rubric and the one that it rewords; "
                "describe the field in both, or in neither, because judges are shown it"
            )
        points, wanted = _points(own[dimension]), _points(rubrics[dimension])
        if points != wanted:
            raise ConfigError(
                f"{folder}/{dimension}.yaml: judging.issues: has {_listed(points)}, but the rubric that it rewords has "
                f"{_listed(wanted)}; give both the same letters and points, or scores cannot be compared"
            )
    return {dimension: own[dimension] for dimension in rubrics if dimension in own}


def _reversed(rubric: Rubric) -> Rubric:
    if rubric.literal_judging is not None:
        raise ConfigError(
            f"variants.judges: the judges' prompt of {rubric.id} is imported verbatim, so its issues cannot be "
            "reversed; leave out `issues: reversed` or the dimension"
        )
    judging = rubric.judging.model_copy(update={"issues": rubric.judging.issues[::-1]})
    # Not `model_copy`, which would copy the digest with the fields.
    kept = {name: getattr(rubric, name) for name in type(rubric).model_fields}
    return type(rubric).model_validate({**kept, "judging": judging})


def _points(rubric: Rubric) -> dict[str, int]:
    return {issue.letter: issue.deduction for issue in rubric.judging.issues}


def _listed(points: Mapping[str, int]) -> str:
    return ", ".join(f"{letter} {points[letter]}" for letter in sorted(points))
