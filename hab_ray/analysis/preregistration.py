"""Whether a run's results are preregistered or exploratory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hab_ray.config.preregistration import MARGIN, AnalysisPlan, Compared, Declaration, Family
from hab_ray.storage.record import Record

UNDECLARED = "Exploratory: no analysis was declared beforehand (`analysis:` in the sweep file)."


@dataclass(frozen=True)
class PreregistrationStatus:
    """A summary for readers, what is declared by label (empty if nothing is), and later declarations."""

    summary: str
    declared: Mapping[str, str]
    changes: tuple[Declaration, ...]


def plan_of(record: Record) -> AnalysisPlan | None:
    """Return the analysis in force, or None if none was declared or it was withdrawn."""
    return record.declarations[-1].plan if record.declarations else None


def was_beforehand(record: Record) -> bool:
    """Whether the analysis in force was declared, and last changed, before any model had been asked."""
    return not any(declaration.existing.has_results for declaration in record.declarations)


def was_edited(declaration: Declaration) -> bool:
    """Whether its plan is not the one whose digest was recorded with it."""
    return declaration.plan is not None and declaration.plan.sha256 != declaration.sha256


def margin_of(record: Record) -> float:
    """Return the declared margin within which two subjects count as equal, or the default."""
    return plan.margin if (plan := plan_of(record)) else MARGIN


def preregistration_status(record: Record) -> PreregistrationStatus:
    """Return the preregistration status in a run's record."""
    declarations = record.declarations
    if not declarations:
        return PreregistrationStatus(UNDECLARED, {}, ())
    plan = declarations[-1].plan
    declared = dict(_labelled(plan, declarations[-1])) if plan else {}
    return PreregistrationStatus(" ".join(_sentences(record, declarations)), declared, declarations[1:])


def _sentences(record: Record, declarations: tuple[Declaration, ...]) -> Iterator[str]:
    first, last = declarations[0], declarations[-1]
    if last.plan is None:
        yield f"Exploratory: the analysis declared on {first.at:%Y-%m-%d} was taken back on {last.at:%Y-%m-%d}."
    elif first.existing.has_results:
        yield (
            f"An analysis was declared on {first.at:%Y-%m-%d}, when {first.existing} existed already: it was not "
            f"declared beforehand. The run was started on {record.started:%Y-%m-%d}."
        )
    elif first.existing.given:
        yield (
            f"An analysis was declared on {first.at:%Y-%m-%d}, before anything was asked; "
            f"{first.existing.given:,} answers were given with the sweep and existed already."
        )
    else:
        yield f"An analysis was declared on {first.at:%Y-%m-%d}, before the first answer."
    if len(declarations) > 1 and last.plan is not None:
        times = "once" if len(declarations) == 2 else f"{len(declarations) - 1} times"
        yield f"It was changed {times} since, most recently when {last.existing} existed."
    if was_edited(last):
        yield "Its digest is not the one recorded with it: the run's sweep.yaml was edited afterwards."
    if last.plan is not None:
        yield "What was declared is shown first; all else is exploratory."


def _labelled(plan: AnalysisPlan, newest: Declaration) -> Iterator[tuple[str, str]]:
    primary = plan.primary
    question = f": {primary.question}" if primary.question else ""
    yield "primary outcome", f"mean score, {primary.dimension}, by {primary.judge}{question}"
    for family in plan.families:
        yield f"family {family.name}", _family(family)
    for number, exclusion in enumerate(plan.exclusions, 1):
        yield f"exclusion {number}", exclusion
    yield "alpha", f"{plan.alpha:g}"
    yield "margin", f"{plan.margin:g}"
    details = f": {plan.stopping.details}" if plan.stopping.details else ""
    yield "stopping", f"{plan.stopping.rule}{details}"
    yield "declared at", newest.at.isoformat(timespec="minutes")
    yield "sha256", newest.sha256 or ""


def _family(family: Family) -> str:
    among = ", ".join(family.among) or f"all {family.compares}"
    is_within = family.compares is Compared.DIMENSIONS
    where = "within each subject" if is_within else f"in {', '.join(family.dimensions)}"
    return f"{family.compares}: {among}; {where}; correction: {family.correction}"
