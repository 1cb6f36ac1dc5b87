"""What budgets mean for a sweep, as a table and in words."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from hab_ray.errors import Exit
from hab_ray.plan.rounds import MOST_ROUNDS, BudgetLine, BudgetOutlook
from hab_ray.prices import NANO


def print_budgets(outlook: BudgetOutlook, console: Console) -> None:
    """Which budgets finish the sweep, in how many rounds of batches, and what to expect of the sweep's own.

    Nothing where nothing costs anything.
    """
    if outlook.unhindered == outlook.spent:
        return
    if outlook.has_batches:
        console.print(
            "\nA batch reserves the most its calls can cost, every answer as long as its limit. With less money, "
            "batches go out in rounds: what the budget can reserve is sent, waited for and paid at its real cost, "
            "then the next. A round takes an hour as a rule and a day at most.",
            soft_wrap=True,
        )
        console.print(_table(outlook))
    else:
        console.print(
            f"smallest budget that finishes: {_usd(outlook.smallest)}; from {_usd(outlook.unhindered)} on no call "
            "waits for money",
            soft_wrap=True,
        )
    for sentence in _sentences(outlook):
        console.print(sentence, soft_wrap=True)


def _table(outlook: BudgetOutlook) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("budget_usd", justify="right")
    table.add_column("rounds of batches")
    table.add_column("days at most", justify="right")
    table.add_column("")
    for line in outlook.lines:
        style = "bold" if line.is_sweeps_own else ""
        table.add_row(_usd(line.budget), *_rounds(line), ", ".join(_notes(line, outlook)), style=style)
    return table


def _rounds(line: BudgetLine) -> tuple[str, str]:
    """How many rounds, with the stage that takes most of them, and how many days."""
    if not line.rounds:
        return ("-", "-") if line.rounds is None else ("0", "0")
    longest = max(line.rounds, key=lambda one: one.rounds)
    if longest.rounds >= MOST_ROUNDS:
        return f"over {MOST_ROUNDS:,} ({longest.stage})", f"over {MOST_ROUNDS:,}"
    if len(line.rounds) == 1:
        return f"{line.total} ({longest.stage})", f"{line.total}"
    apart = f"{longest.rounds} of {longest.stage}" if longest.rounds > 1 else "one per stage"
    return f"{line.total} ({apart})", f"{line.total}"


def _notes(line: BudgetLine, outlook: BudgetOutlook) -> Iterator[str]:
    if line.is_sweeps_own:
        yield "this sweep" if line.rounds is not None else "this sweep: not enough"
    if line.budget == outlook.smallest:
        yield "the smallest that finishes"
    if line.budget == outlook.unhindered:
        yield "nothing waits"


def _sentences(outlook: BudgetOutlook) -> Iterator[str]:
    own = outlook.own
    if outlook.spent:
        yield f"this run has spent or reserved {_usd(outlook.spent)} before, which is part of every budget here"
    if own is None:
        return
    if own.rounds is None:
        yield (
            f"budget_usd {_usd(own.budget)} is not enough as estimated: the run ends with exit status "
            f"{int(Exit.BUDGET)} once it is reached; raise it to {_usd(outlook.smallest)} or more and give the same "
            "command again"
        )
    elif own.budget >= outlook.unhindered:
        yield f"with budget_usd {_usd(own.budget)} nothing waits for money"
    elif own.rounds:
        yield (
            f"with budget_usd {_usd(own.budget)} the run finishes as estimated, in rounds of batches: "
            f"{_rounds(own)[0]}; `hab run` and `hab status` say when it waits for money"
        )
    else:
        yield f"with budget_usd {_usd(own.budget)} the run finishes as estimated; some calls wait until others end"


def _usd(nano: int) -> str:
    """Dollars, with cents where these matter."""
    dollars = nano / NANO
    if dollars >= 1000:
        return f"${dollars:,.0f}"
    return f"${dollars:,.2f}" if dollars >= 1 or not nano else f"${dollars:.4f}"
