"""The live view of a run: a table that is redrawn on a terminal, plain lines elsewhere."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from hab_ray.cli.interrupts import stop
from hab_ray.cli.views.terminal import TABLE_COLUMNS
from hab_ray.cli.views.waiting import choosing, waiting_for_money, waits_for
from hab_ray.progress import Draining, Progress, StageProgress
from hab_ray.visible import counted, duration, one_line, usd

LINE_EVERY_S = 15.0
COUNTDOWN_EVERY_S = 5.0
MAX_COLUMNS = 160


@dataclass
class _Rate:
    """Answers per second of one model at one stage since its first call; rows found in the store do not count."""

    began_at: float = 0.0
    per_s: float = 0.0

    def update(self, stage: StageProgress, now: float) -> None:
        if not (stage.answered or stage.in_flight):
            self.began_at = now
        elif now > self.began_at and stage.done < stage.total:
            self.per_s = stage.answered / (now - self.began_at)


@dataclass
class View:
    """Shows the progress of a run on a console, and where that is no terminal, its notes as they come."""

    console: Console
    _said: set[str] = field(default_factory=set)
    _rates: dict[tuple[str, str], _Rate] = field(default_factory=dict)
    _live: Live | None = None
    _last_line: float = float("-inf")
    _is_draining: bool = False
    _outages: frozenset[str] = frozenset()

    @contextmanager
    def shown(self) -> Iterator[None]:
        if not self.console.is_interactive:
            yield
            return
        with Live(console=self.console, refresh_per_second=4, transient=True) as live:
            self._live = live
            yield
        self._live = None

    def leave(self) -> None:
        """Restore the terminal before the process is killed."""
        self.console.show_cursor(True)
        self.console.print("stopped at once; open calls count as spent, and the same command resumes", style="yellow")

    def update(self, progress: Progress) -> None:
        for stage in progress.stages:
            self._rates.setdefault((stage.stage, stage.model), _Rate()).update(stage, progress.elapsed_s)
        if self._live:
            self._live.update(self._table(progress))
        else:
            for note in dict.fromkeys(self.unsaid(progress.notes)):
                self._said.add(note)
                self.console.print(f"note: {one_line(note)}", style="yellow", markup=False, soft_wrap=True)
            self._print_line_if_due(progress)

    def unsaid(self, notes: Sequence[str]) -> tuple[str, ...]:
        """Return the notes that were not printed while progress was shown."""
        return tuple(note for note in notes if note not in self._said)

    def _print_line_if_due(self, progress: Progress) -> None:
        """Print a line every few seconds, and at once for the start of a stop or a new outage."""
        since = progress.elapsed_s - self._last_line
        is_due = since >= LINE_EVERY_S and any(stage.total for stage in progress.stages)
        if progress.draining:
            if not self._is_draining or since >= COUNTDOWN_EVERY_S:
                self._is_draining, self._last_line = True, progress.elapsed_s
                self.console.print(_countdown(progress.draining), style="yellow", soft_wrap=True)
        elif is_due or progress.outages.keys() - self._outages:
            self._outages, self._last_line = frozenset(progress.outages), progress.elapsed_s
            self.console.print(self.line(progress), highlight=False, soft_wrap=True)

    def line(self, progress: Progress) -> str:
        """Return the run's progress in one line of at most `MAX_COLUMNS` characters.

        It has the rows done of those known so far, the dollars of this process, the longest time that any model needs
        for its known rows at its present rate, what the run waits for, and the progress of each unfinished model.
        """
        is_growing = more_may_follow(progress.stages)
        stages = [stage for stage in progress.stages if stage.total]
        done, total = sum(stage.done for stage in stages), sum(stage.total for stage in stages)
        left = max((s for stage in stages if (s := self._left_s(stage)) is not None), default=None)
        failed = sum(stage.failed for stage in stages)
        unfinished = [s for s in stages if s.in_flight or s.done < s.total]
        parts = [
            f"{done:,}/{total:,} rows{' known so far' * is_growing}",
            f"{failed:,} failed" if failed else "",
            usd(progress.cost_nanousd),
            f"about {duration(left)} left{' for these' * is_growing}" if left is not None else "",
            f"waits for {waiting}" if (waiting := waits_for(progress)) else "",
            ", ".join(f"{s.stage} {s.model} {s.done:,}/{s.total:,}" for s in unfinished),
        ]
        text = f"{progress.elapsed_s:6.0f} s  {one_line('  '.join(filter(None, parts)))}"
        return text if len(text) <= MAX_COLUMNS else f"{text[: MAX_COLUMNS - 4]} ..."

    def _left_s(self, stage: StageProgress) -> float | None:
        rate, left = self._rates[stage.stage, stage.model].per_s, stage.total - stage.done
        return left / rate if rate > 0 and left else None

    def _table(self, progress: Progress) -> Group:
        table = Table("stage", Column("model", overflow="fold"), box=None, pad_edge=False)
        is_narrow = self.console.width < TABLE_COLUMNS
        for title in ("done", "failed", "in flight", *(() if is_narrow else ("rows/s", "left"))):
            table.add_column(title, justify="right", no_wrap=True)
        for stage in progress.stages:
            table.add_row(*self._cells(stage)[: len(table.columns)], style="dim" if stage.done == stage.total else "")
        cost = f"  {usd(progress.cost_nanousd)}" if progress.cost_nanousd else ""
        batches = f"  {counted(len(progress.batches), 'batch', 'batches')} at the vendors" if progress.batches else ""
        calls, retries = counted(progress.calls, "call"), counted(progress.retries, "retry", "retries")
        more = "  more rows may follow" if more_may_follow(progress.stages) else ""
        chosen = f"  waits for {what}" if (what := choosing(progress)) else ""
        totals = f"{progress.elapsed_s:.0f} s  {calls}  {retries}{cost}{batches}{chosen}{more}"
        last = [Text(_countdown(progress.draining), style="bold yellow")] if progress.draining else []
        outages = [f"{provider}: {outage}" for provider, outage in progress.outages.items()]
        notes = filter(None, [*map(one_line, (*progress.notes, *outages)), waiting_for_money(progress)])
        return Group(table, Text(totals, style="dim"), *(Text(note, style="yellow") for note in notes), *last)

    def _cells(self, stage: StageProgress) -> tuple[str, ...]:
        rate, left = self._rates[stage.stage, stage.model].per_s, stage.total - stage.done
        left_s = self._left_s(stage)
        return (
            stage.stage,
            one_line(stage.model),
            f"{stage.done}/{stage.total or '?'}",
            str(stage.failed or ""),
            str(stage.in_flight or ""),
            f"{rate:.1f}" if rate and left else "",
            "" if left_s is None else duration(left_s),
        )


def more_may_follow(stages: Sequence[StageProgress]) -> bool:
    """Return whether the totals may grow: a stage has no rows yet, or one before the last is unfinished."""
    return any(not one.total or (one.stage != stages[-1].stage and one.done < one.total) for one in stages)


def _countdown(draining: Draining) -> str:
    if stop.requested:
        what, rest = "stopping", "Ctrl-C again exits at once"
    else:
        what, rest = "the run ends by itself", "The reason follows; Ctrl-C twice exits at once"
    calls = counted(draining.calls, "open call")
    return (
        f"{what}: nothing new is sent; waiting {draining.left_s:.0f} s more for {calls} worth at most "
        f"{usd(draining.nanousd)}. {rest}"
    )
