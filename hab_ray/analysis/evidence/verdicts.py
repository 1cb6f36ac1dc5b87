"""What a judge's verdicts in a dimension have in common: copies, one assessment for all, every issue at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from hab_ray.analysis.marks import ScoreSettings
from hab_ray.results import Run
from hab_ray.rows import State
from hab_ray.rubric import Rubric
from hab_ray.stages.replies.copying import COPIED

_COLUMNS = ("state", "issues", "assessment", "reason")


@dataclass(frozen=True)
class VerdictTexts:
    """Counts of a judge's verdicts on all subjects in a dimension.

    Of the `ended` ones `scored` have a score and `copied` repeat the request instead of assessing. Of the scored ones
    `everything` name every issue there is, and `alike` have the commonest assessment, in whatever spelling.
    """

    judge: str
    dimension: str
    ended: int
    scored: int
    copied: int
    everything: int
    alike: int


def read_verdicts(run: Run, settings: ScoreSettings, rubrics: dict[str, Rubric]) -> Iterator[VerdictTexts]:
    """The counts of every judge in every dimension, one file of the run held at a time.

    Raises:
        DamagedFile: a file of the run cannot be read.
    """
    for judge, dimension in product(settings.panel, settings.tests):
        yield _of_part(run, settings, judge, rubrics[dimension])


def _of_part(run: Run, settings: ScoreSettings, judge: str, rubric: Rubric) -> VerdictTexts:
    every, said = len(rubric.issue_letters()), Counter[str]()
    ended = scored = copied = everything = 0
    for subject in settings.subjects:
        table = run.verdicts(judge, subject, rubric.id, columns=_COLUMNS)
        for state, issues, assessment, reason in zip(*(c.to_pylist() for c in table.columns), strict=True):
            ended += 1
            copied += state == State.UNREADABLE and COPIED in reason
            if state == State.OK:
                scored += 1
                everything += issues is not None and len(set(issues)) == every
                said[" ".join(assessment.casefold().split())] += 1
    del said[""]
    return VerdictTexts(judge, rubric.id, ended, scored, copied, everything, max(said.values(), default=0))
