"""Whether a run's results follow an analysis that was declared beforehand, or are exploratory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from hab_ray.config.preregistration import MARGIN, AnalysisPlan, Declaration, Family
from hab_ray.storage.record import Record

UNDECLARED = "Exploratory: no analysis was declared beforehand (`analysis:` in the sweep file)."


@dataclass(frozen=True)
class Change:
    """One change of what was declared: digests before and after ("" = none), and what existed by then."""

    at: str
    what: str
    before: str
    after: str
    existing: str


@dataclass(frozen=True)
class PreregistrationStatus:
    """What a reader has to know first, and what is declared, by label; empty where nothing is."""

    summary: str
    declared: Mapping[str, str]
    changes: tuple[Change, ...]


def plan_of(record: Record) -> AnalysisPlan | None:
    """The analysis that is declared today; None where there is none, or it was taken back."""
    return record.declarations[-1].plan if record.declarations else None


def margin_of(record: Record) -> float:
    """The difference within which two are called equal, as declared."""
    return plan.margin if (plan := plan_of(record)) else MARGIN


def standing_of(record: Record) -> PreregistrationStatus:
    """What the record of a run says of its analysis."""
    listed = record.declarations
    if not listed:
        return PreregistrationStatus(UNDECLARED, {}, ())
    plan = listed[-1].plan
    declared = dict(_labelled(plan, listed[-1])) if plan else {}
    changes = tuple(_change(made) for made in listed[1:])
    return PreregistrationStatus(" ".join(_sentences(record, listed)), declared, changes)


def _sentences(record: Record, listed: tuple[Declaration, ...]) -> Iterator[str]:
    first, last = listed[0], listed[-1]
    if last.plan is None:
        yield f"Exploratory: the analysis declared on {_day(first.at)} was taken back on {_day(last.at)}."
    elif first.existing.has_results:
        yield (
            f"An analysis was declared on {_day(first.at)}, when {first.existing} existed already: it was not declared "
            f"beforehand. The run was started on {_day(record.started)}."
        )
    elif first.existing.given:
        yield (
            f"An analysis was declared on {_day(first.at)}, before anything was asked; "
            f"{first.existing.given:,} answers were given with the sweep and existed already."
        )
    else:
        yield f"An analysis was declared on {_day(first.at)}, before the first answer."
    if len(listed) > 1 and last.plan is not None:
        times = "once" if len(listed) == 2 else f"{len(listed) - 1} times"
        yield f"It was changed {times} since, most recently when {last.existing} existed."
    if last.plan is not None:
        yield "What was declared is shown first; all else is exploratory."


def _change(made: Declaration) -> Change:
    what = ", ".join(made.changed) or "declared again as it was"
    return Change(_minute(made.at), what, made.replaces or "", made.sha256 or "", str(made.existing))


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
    yield "declared at", _minute(newest.at)
    yield "sha256", newest.sha256 or ""


def _family(family: Family) -> str:
    among = ", ".join(family.among) or f"all {family.compares}"
    return f"{family.compares}: {among}; in {', '.join(family.dimensions)}; correction: {family.correction}"


def _day(at: datetime) -> str:
    return f"{at:%Y-%m-%d}"


def _minute(at: datetime) -> str:
    return at.isoformat(timespec="minutes")
