"""The live view of a run: a table that redraws itself on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hab_ray.cli.waiting import waiting_for_money
from hab_ray.progress import Draining, Progress, StageProgress
from hab_ray.visible import one_line

LINE_EVERY_S = 5.0
NANO = 1e9


@dataclass
class _Rate:
    """Rows a second of one model at one stage, since its first row."""

    first_at: float | None = None
    first_done: int = 0
    per_s: float = 0.0

    def see(self, stage: StageProgress, now: float) -> None:
        if self.first_at is None:
            self.first_at, self.first_done = now, stage.done
        elif now > self.first_at and stage.done < stage.total:
            self.per_s = (stage.done - self.first_done) / (now - self.first_at)


@dataclass
class View:
    """Turns progress into something to look at."""

    console: Console
    _rates: dict[tuple[str, str], _Rate] = field(default_factory=dict)
    _live: Live | None = None
    _last_line: float = float("-inf")
    _last_text: str = ""
    _last_wait: str | None = None
    _is_draining: bool = False
    _out: frozenset[str] = frozenset()

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show progress for as long as the context lasts."""
        if not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, refresh_per_second=4, transient=True) as live:
            self._live = live
            yield
        self._live = None

    def leave(self) -> None:
        """Give the terminal back before the process is ended by force."""
        self.console.show_cursor(True)
        self.console.print("ended at once; open calls count as spent, and the same command goes on", style="yellow")

    def update(self, progress: Progress) -> None:
        """Take in the newest figures."""
        for stage in progress.stages:
            self._rates.setdefault((stage.stage, stage.model), _Rate()).see(stage, progress.elapsed_s)
        if self._live:
            self._live.update(self._table(progress))
        elif progress.draining and not self._is_draining:
            self._is_draining = True
            self._last_line = progress.elapsed_s
            self.console.print(_countdown(progress.draining), style="yellow", soft_wrap=True)
        elif progress.outages.keys() - self._out:
            self._print_outages(progress)
        elif progress.elapsed_s - self._last_line >= LINE_EVERY_S:
            self._last_line = progress.elapsed_s
            if progress.draining:
                self.console.print(_countdown(progress.draining), style="yellow", soft_wrap=True)
            else:
                self._print_line(progress)
                self._print_outages(progress)

    def _print_outages(self, progress: Progress) -> None:
        self._out = frozenset(progress.outages)
        for told in _outages(progress):
            self.console.print(told, style="yellow", soft_wrap=True)

    def _print_line(self, progress: Progress) -> None:
        text = "; ".join(
            f"{s.stage} {one_line(s.model)} {s.done}/{s.total}" + (f" ({s.failed} failed)" if s.failed else "")
            for s in progress.stages
            if s.total > 0 and (s.in_flight or s.done < s.total)
        )
        if text and text != self._last_text:
            self._last_text = text
            at_vendors = f"; {len(progress.batches)} batches at the vendors" if progress.batches else ""
            self.console.print(f"{progress.elapsed_s:6.0f} s  {text}{at_vendors}", highlight=False, soft_wrap=True)
        waiting = waiting_for_money(progress)
        if waiting and waiting != self._last_wait:
            self.console.print(waiting, style="yellow", highlight=False, soft_wrap=True)
        self._last_wait = waiting

    def _table(self, progress: Progress) -> Group:
        table = Table(box=None, pad_edge=False)
        for title, justify in (("stage", "left"), ("model", "left")):
            table.add_column(title, justify=justify)  # type: ignore[arg-type]
        for title in ("done", "failed", "in flight", "rows/s", "left"):
            table.add_column(title, justify="right")
        for stage in progress.stages:
            table.add_row(*self._cells(stage), style="dim" if stage.done == stage.total else "")
        cost = f"  ${progress.cost_nanousd / NANO:.4f}" if progress.cost_nanousd else ""
        batches = f"  {len(progress.batches)} batches at the vendors" if progress.batches else ""
        foot = f"{progress.elapsed_s:.0f} s  {progress.calls} calls  {progress.retries} retries{cost}{batches}"
        last = [Text(_countdown(progress.draining), style="bold yellow")] if progress.draining else []
        waiting = waiting_for_money(progress)
        told = [*map(one_line, progress.notes), *_outages(progress), *([waiting] if waiting else [])]
        return Group(table, Text(foot, style="dim"), *(Text(line, style="yellow") for line in told), *last)

    def _cells(self, stage: StageProgress) -> tuple[str, ...]:
        rate = self._rates[stage.stage, stage.model].per_s
        left = stage.total - stage.done
        eta = f"{left / rate:.0f} s" if rate > 0 and left else ""
        return (
            stage.stage,
            one_line(stage.model),
            f"{stage.done}/{stage.total or '?'}",
            str(stage.failed or ""),
            str(stage.in_flight or ""),
            f"{rate:.1f}" if rate and left else "",
            eta,
        )


def _outages(progress: Progress) -> Iterator[str]:
    return (one_line(f"{provider}: {told}") for provider, told in progress.outages.items())


def _countdown(draining: Draining) -> str:
    """How long open calls are waited for, and what is at stake."""
    return (
        f"stopping: nothing new is sent; {draining.calls} open calls have {draining.left_s:.0f} s more to be answered, "
        f"at most ${draining.nanousd / NANO:.4f} at stake. Ctrl-C again ends at once"
    )
