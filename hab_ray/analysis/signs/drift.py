"""Checks for drift: models that their vendor changed during the run."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan, nan
from statistics import fmean

from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.signs.finding import Finding, Severity, spoken
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.trust.drift import Drift
from hab_ray.results import rows_in
from hab_ray.rows import State
from hab_ray.rubric import SCORE_START
from hab_ray.visible import p_value


def changed_models(summary: Summary) -> Iterator[Finding]:
    """Report each subject or judge whose rows came from more than one model, by the name that its vendor reported.

    Rows without a reported name are ignored.
    """
    asked = summary.settings
    for of, marks_by_name, names in (
        ("answers", _marks_of_subject, asked.subjects),
        ("verdicts", _marks_by_judge, asked.panel),
    ):
        for name in names:
            by_dimension = {each: marks_by_name(summary, name, each) for each in asked.tests}
            models = {model for found in by_dimension.values() for model in found}
            if len(models) > 1:
                listed = "; ".join(f"{spoken(each)}: {_listed(found)}" for each, found in by_dimension.items() if found)
                yield Finding(
                    "model_changed",
                    Severity.MEDIUM,
                    f"The {of} of {name} came from {len(models)} models",
                    f"{of.capitalize()} and means by the model name that the vendor reported: {listed}. Each mean is "
                    f"over different {of}.",
                    "Name a dated version of the model if the vendor has one, and run it again; otherwise report both.",
                    len(models),
                )


def _marks_of_subject(summary: Summary, subject: str, dimension: str) -> Mapping[str, Sequence[float]]:
    """Return the panel's marks of a subject's answers by the reported model, nan where there is none."""
    (marks,) = (m for m in summary.marks["judge"] if (m.subject, m.judge, m.dimension) == (subject, PANEL, dimension))
    positions, found = summary.settings.positions(dimension), defaultdict[str, list[float]](list)
    columns = ["test_id", "sample", "state", "model_reported"]
    for test_id, sample, state, reported in rows_in(summary.run.responses(subject, dimension, columns=columns)):
        if state == State.OK and reported and test_id in positions and sample < summary.settings.samples:
            found[reported].append(float(marks.by_test[positions[test_id], sample]))
    return found


def _marks_by_judge(summary: Summary, judge: str, dimension: str) -> Mapping[str, Sequence[float]]:
    """Return a judge's marks by the reported model, nan where there is none."""
    found = defaultdict[str, list[float]](list)
    table = summary.run.verdicts(judge, dimension=dimension, columns=["state", "model_reported", "score"])
    for state, reported, score in rows_in(table):
        if state == State.OK and reported:
            found[reported].append(nan if score is None else score / SCORE_START)
    return found


def _listed(found: Mapping[str, Sequence[float]]) -> str:
    known = {name: [mark for mark in marks if not isnan(mark)] for name, marks in sorted(found.items())}
    means = {name: f" ({fmean(marks):.2f})" if marks else "" for name, marks in known.items()}
    return ", ".join(f"{name} {len(found[name])}{mean}" for name, mean in means.items())


def shifted_judges(rows: Iterable[Drift]) -> Iterator[Finding]:
    """Report judges that scored the same answers differently later."""
    for row in rows:
        if row.is_significant and row.shift is not None and row.p is not None:
            later = "later" if row.hours is None else f"{row.hours:.1f} hours later"
            yield Finding(
                "judge_shifted",
                Severity.HIGH,
                f"{row.judge} scores the same answers differently than before",
                f"{row.shift:+z.3f} on the scale of 0 to 1 (95 % interval {row.low:+z.3f} to {row.high:+z.3f}, p "
                f"{p_value(row.p)}) over {row.answers} answers, {later}: what it judged first and last are not on one "
                "scale.",
                "Name a dated version of the judge if its vendor has one, and judge everything again under a new "
                "`name:`.",
                row.shift,
            )
