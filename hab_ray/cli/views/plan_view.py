"""A plan as tables, and as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from hab_ray.catalog.models import Unheeded
from hab_ray.catalog.prices import NANO
from hab_ray.cli.views.budget_view import print_budgets
from hab_ray.config.sweep import Sweep, spending_limit
from hab_ray.planning import Figures, Plan, PlanLine, StageTime
from hab_ray.planning.preflight import Problem, Severity
from hab_ray.visible import one_line

_FIGURES = ("calls", "in store", "input", "output", "online $", "at most $", "batch $", "at most $")
_ALL, _COUNTS, _DOLLARS = slice(None), slice(4), slice(4, None)
_WIDEST = 10_000
_STYLE = {Severity.ERROR: "red", Severity.WARNING: "yellow"}


@dataclass(frozen=True)
class PlanOptions:
    """How `hab plan` shows a plan. `probe` calls of each cell are sent first, without asking if `yes`."""

    by_dimension: bool = False
    as_json: bool = False
    probe: int = 0
    yes: bool = False


def to_json(plan: Plan, problems: list[Problem], unheeded: Mapping[Unheeded, list[str]]) -> Mapping[str, Any]:
    """The whole plan as plain values; money in nano-dollars, times in seconds."""
    return {
        "total": asdict(plan.total),
        "exact": plan.exact,
        "seconds": plan.seconds,
        "online_budget": plan.online_budget,
        "batch_budget": plan.batch_budget,
        "as_sent": plan.as_sent,
        "budgets": asdict(plan.outlook),
        "lines": [asdict(line) for line in plan.lines],
        "times": [asdict(time) for time in plan.times],
        "problems": [asdict(problem) for problem in problems],
        "unheeded": [asdict(setting) | {"of": asked} for setting, asked in unheeded.items()],
    }


def print_unheeded(unheeded: Mapping[Unheeded, list[str]], console: Console) -> None:
    """One line for each setting that is asked for in vain."""
    for setting, asked in unheeded.items():
        what = "asked for, sent and without effect" if setting.sent else "asked for and not sent"
        console.print(one_line(f"{what} ({setting.why}): {setting} of {', '.join(asked)}"), soft_wrap=True)


def print_plan(sweep: Sweep, plan: Plan, problems: list[Problem], options: PlanOptions, console: Console) -> None:
    """The plan as tables."""
    if options.by_dimension:
        _print_lines(plan, ("stage", "model", "dimension"), lambda n: (n.stage, n.name, n.dimension), console)
    else:
        _print_lines(plan, ("stage", "model"), lambda n: (n.stage, n.name), console)
    total = plan.total
    told = (
        f"{total.to_pay:,} calls to pay, {total.reused:,} of {total.calls:,} are in the store at {sweep.store}; "
        f"online {_usd(total.online)}, by batch {_usd(total.batch)} ({total.batchable:,} calls have a batch API)"
    )
    console.print(one_line(told), soft_wrap=True)
    saved = total.online - plan.as_sent
    saving = f", which saves {_usd(saved)}" if saved > 0 else f", {_usd(-saved)} more than online" if saved else ""
    console.print(f"as this sweep sends them (mode: {sweep.mode}): {_usd(plan.as_sent)}{saving}", soft_wrap=True)
    for time in plan.times:
        console.print(one_line(f"{time.stage}: {_duration(time.seconds)} online, {_slowest(time)}"), soft_wrap=True)
    console.print(
        f"together at most {_duration(plan.seconds)} online at the catalogue's limits (an account may have others); "
        "a batch takes an hour as a rule and a day at most, at each stage",
        soft_wrap=True,
    )
    budgets = f"{_usd(plan.online_budget)} online, {_usd(plan.batch_budget)} by batch"
    console.print(f"smallest budget at which nothing waits: {budgets}", soft_wrap=True)
    limit = spending_limit(sweep)
    print_budgets(plan.outlook, bool(limit and limit.assumption), console)
    if limit and limit.assumption:
        console.print(f"likely budget: {limit.assumption}", soft_wrap=True)
    measured = sum(line.measured for line in plan.lines)
    if measured:
        guesses = [f"{stage} {name}" for stage, name in plan.assumed]
        rest = f"; still guessed of {', '.join(guesses)}" if guesses else ""
        console.print(one_line(f"tokens are measured on {measured:,} replies in the store{rest}"), soft_wrap=True)
    if not plan.exact:
        console.print("marked ~: tests or responses do not exist yet; their number is known, their length assumed")
    for problem in problems:
        console.print(one_line(str(problem)), style=_STYLE[problem.severity], soft_wrap=True)


def _print_lines(
    plan: Plan, titles: tuple[str, ...], by: Callable[[PlanLine], tuple[str, ...]], console: Console
) -> None:
    """The lines in one table; where that is wider than the terminal, counts and dollars in two: no figure is cut."""
    whole = _table(plan, titles, by, _ALL)
    if Measurement.get(console, console.options.update(width=_WIDEST), whole).maximum <= console.width:
        console.print(whole)
        return
    for figures in (_COUNTS, _DOLLARS):
        console.print(_table(plan, titles, by, figures))


def _table(plan: Plan, titles: tuple[str, ...], by: Callable[[PlanLine], tuple[str, ...]], figures: slice) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    for title in _FIGURES[figures]:
        table.add_column(title, justify="right", no_wrap=True)
    inexact = {by(line) for line in plan.lines if not line.exact}
    for group, sums in plan.grouped(by).items():
        table.add_row(*map(one_line, group), *_cells(sums, "~" if group in inexact else "")[figures])
    table.add_section()
    total = _cells(plan.total, "" if plan.exact else "~")[figures]
    table.add_row("total", *[""] * (len(titles) - 1), *total, style="bold")
    return table


def _slowest(time: StageTime) -> str:
    measured = "" if time.a_call is None else f" ({time.a_call:.1f} s a call, measured)"
    return f"{time.slowest} takes longest{measured}"


def _cells(figures: Figures, about: str) -> tuple[str, ...]:
    by_batch = (_usd(figures.batch), _usd(figures.most_batch)) if figures.batchable else ("-", "-")
    return (
        f"{about}{figures.calls:,}",
        f"{figures.reused:,}" if figures.reused else "",
        _tokens(figures.input),
        _tokens(figures.output),
        _usd(figures.online),
        _usd(figures.most_online),
        *by_batch,
    )


def _tokens(count: int) -> str:
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:,.1f}{unit}"
    return str(count)


def _usd(nano: int) -> str:
    dollars = nano / NANO
    return f"${dollars:,.2f}" if dollars >= 1 or not nano else f"${dollars:.4f}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
