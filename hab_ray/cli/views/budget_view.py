"""The budgets of a sweep and their effect, as a table and in words."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from hab_ray.catalog.prices import NANO
from hab_ray.cli.views.terminal import print_cells, print_line
from hab_ray.errors import Exit
from hab_ray.planning.rounds import MAX_ROUNDS, ROUNDS_A_DAY, BudgetLine, BudgetOutlook, StageRounds, rounds_together
from hab_ray.visible import counted, usd


def print_budgets(outlook: BudgetOutlook, console: Console) -> None:
    """Print which budgets finish the sweep and in how many rounds of batches; print nothing if it is free."""
    if outlook.unhindered == outlook.spent:
        return
    if not outlook.has_batches:
        smallest = f"smallest budget that finishes: {_usd(outlook.smallest)}"
        return print_line(f"{smallest}; from {_usd(outlook.unhindered)} on no call waits for money", console)
    console.print(
        f"\nA budget below {_usd(outlook.unhindered)} sends batches in rounds, each of usually an hour and at most a "
        "day. `reserve: hard` (the default) reserves the most that a batch can cost, `reserve: likely` an upper bound "
        "estimated from a sample of its rows. If calls cost what the plan says:",
        soft_wrap=True,
    )
    print_cells(_table(outlook), console)
    for reserve, budget in (("hard", outlook.in_a_day), ("likely", outlook.likely_in_a_day)):
        if budget is not None:
            rounds = f"at most {ROUNDS_A_DAY} rounds, usually a day"
            print_line(f"smallest budget for {rounds}, with `reserve: {reserve}`: {_usd(budget)}", console)


def _table(outlook: BudgetOutlook) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("budget", "of the bill"):
        table.add_column(title, justify="right")
    for title in ("rounds, hard", "rounds, likely", ""):
        table.add_column(title)
    for line in outlook.lines:
        share = f"{(line.budget - outlook.spent) / outlook.bill:.1f}" if outlook.bill else ""
        cells = (_usd(line.budget), share, _rounds(line.rounds), _rounds(line.likely))
        table.add_row(*cells, ", ".join(_notes(line, outlook)), style="bold" if line.is_sweeps_own else "")
    return table


def _rounds(rounds: Sequence[StageRounds] | None) -> str:
    """Return the number of rounds and the stage that takes most of them."""
    if not rounds:
        return "-" if rounds is None else "0"
    if max(one.rounds for one in rounds) >= MAX_ROUNDS:
        return f"over {MAX_ROUNDS:,}"
    return f"{rounds_together(rounds)}{_longest(rounds)}"


def _longest(rounds: Sequence[StageRounds]) -> str:
    longest = max(rounds, key=lambda one: one.rounds, default=None)
    return f" ({longest.rounds} of {longest.stage})" if longest and longest.rounds > 1 and len(rounds) > 1 else ""


def _notes(line: BudgetLine, outlook: BudgetOutlook) -> Iterator[str]:
    if line.is_sweeps_own:
        missing = "not enough" if line.budget < outlook.estimate else "may not be enough"
        yield "this sweep" if line.rounds is not None else f"this sweep: {missing}"
    if line.budget == outlook.smallest:
        yield "the smallest that finishes"
    if line.budget == outlook.unhindered:
        yield "nothing waits"


def budget_sentences(outlook: BudgetOutlook, is_likely: bool) -> Iterator[str]:
    """Yield what to expect of the sweep's own budget; `is_likely` means `reserve: likely`."""
    if outlook.unhindered == outlook.spent:
        return
    if outlook.spent:
        yield f"this run has already spent or reserved {_usd(outlook.spent)}, which every budget here includes"
    own, unhindered = outlook.own, _usd(outlook.unhindered)
    if own is None:
        yield f"no budget set: at the usual cost {_usd(outlook.smallest)} suffices; from {unhindered} on no call waits"
        return
    rounds, budget = own.likely if is_likely else own.rounds, f"the budget of {_usd(own.budget)}"
    if own.budget < outlook.estimate:
        yield (
            f"{budget} is below the estimate{_with_spent(outlook)}: the run ends with exit status {int(Exit.BUDGET)} "
            f"once it is reached; raise it to {_usd(outlook.smallest)} or more (each call reserves its maximum)"
        )
    elif rounds is None:
        yield (
            f"{budget} covers the estimate{_with_spent(outlook)}, but the last calls may not be sent: each needs the "
            f"most that it can cost; {_usd(outlook.smallest)} leaves room for that"
        )
    elif own.budget >= outlook.unhindered:
        yield f"{budget} is a hard limit; at the usual cost no call waits for money"
    else:
        yield f"{budget} is enough for the usual cost; below {unhindered} some calls may wait until others are paid"
    if is_likely and rounds:
        yield "`--detach` reserves as `reserve: hard`, because it exits before a first wave has shown any costs"


def _with_spent(outlook: BudgetOutlook) -> str:
    return f" ({_usd(outlook.estimate)} with what is spent)" if outlook.spent else f" ({_usd(outlook.estimate)})"


def batch_time(outlook: BudgetOutlook, is_likely: bool) -> str | None:
    """Return how long the sweep's batches take with its budget, or None if it does not finish."""
    line = outlook.own or outlook.lines[-1]
    usual = line.likely if is_likely else line.rounds
    if usual is None:
        return None
    rounds = rounds_together(usual)
    most = max(rounds, rounds_together(line.rounds or ()))
    return (
        f"usually {counted(rounds, 'round')} of batches{_longest(usual)}, about {counted(rounds, 'hour')}, at most "
        f"{counted(most, 'day')}"
    )


def _usd(nano: int) -> str:
    """Return a budget in dollars, without cents from $1,000 on."""
    return f"${nano / NANO:,.0f}" if nano >= 1000 * NANO else usd(nano)
