"""`hab demo`: run a small benchmark on this machine."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from hab_ray.cli.commands.running.run import run_sweep
from hab_ray.cli.ending import console, ends_with_status
from hab_ray.cli.prepare import Choices, sweep_of
from hab_ray.config.sweep import shipped_or_own
from hab_ray.errors import ConfigError, Exit
from hab_ray.local import LocalError, default_cache, free_disk, free_memory, known_weights, pull
from hab_ray.results import Answer, Run, Transcript, open_run
from hab_ray.rows import State, Verdict
from hab_ray.rubric import Rubric
from hab_ray.sweep.options import Options
from hab_ray.visible import for_terminal, one_line

NEEDED = 4 * 10**9
"""Bytes of memory, and of disk, below which the small weights are taken."""
TOLD_EVERY = 0.1
TEXT_SHOWN = 900
NEXT = (
    ("rehearse jobs/small.yaml", "a whole sweep against simulated vendors, checked against a planted truth"),
    ("init", "writes a sweep for your own models, with its price"),
    ("models", "which models, prices and keys there are"),
)


@dataclass(frozen=True)
class Size:
    """A demo: its sweep, the weights it needs, and what is said of them."""

    sweep: Path
    weights: str
    told: str


LARGE = Size(
    Path("jobs/demo.yaml"),
    "qwen2.5-coder-1.5b-instruct",
    "Qwen2.5 Coder with 1.5 billion parameters writes the tests, answers them and judges",
)
SMALL = Size(
    Path("jobs/demo-small.yaml"),
    "smollm2-135m-instruct",
    "SmolLM2 with 135 million parameters shows that every step works; it cannot judge, and its scores measure nothing",
)


def lacking(cache: Path) -> str | None:
    """Why the large weights do not fit on this machine, in words; None where they do."""
    memory, disk = free_memory(), free_disk(cache)
    if memory is not None and memory < NEEDED:
        return f"{memory / 1e9:.1f} GB of memory are free, and the larger model needs {NEEDED / 1e9:.0f}"
    is_here = (cache / known_weights()[LARGE.weights].file).is_file()
    if not is_here and disk < NEEDED:
        return f"{disk / 1e9:.1f} GB of disk are free at {cache}, and the larger model needs {NEEDED / 1e9:.0f}"
    return None


def _fetch(weights: str) -> None:
    """Fetch weights, with a bar on a terminal and a line for each tenth elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(weights, total=known_weights()[weights].bytes)
        told = 0.0

        def fetched(have: int, total: int | None) -> None:
            nonlocal told
            progress.update(task, completed=have, total=total)
            if total and not console.is_terminal and have / total >= told + TOLD_EVERY:
                told = have / total
                console.print(f"fetching {weights}: {have / 1e6:,.0f} of {total / 1e6:,.0f} MB", soft_wrap=True)

        try:
            pull(weights, cache=default_cache(), fetched=fetched)
        except LocalError as error:
            raise ConfigError(str(error)) from None


def judged_answer(run: Run) -> Iterator[str]:
    """One test, an answer to it and its verdict, with the issues in the rubric's words; nothing where none was read.

    The lowest score with an issue is shown, of several the first: it says most about how answers are judged.
    """
    found = [
        (verdict.score, rubric, transcript, answer, verdict)
        for dimension, rubric in run.rubrics.items()
        for transcript in run.transcripts(dimension)
        for answer in transcript.answers
        for verdict in answer.verdicts
        if verdict.state is State.OK and verdict.score is not None and answer.response
    ]
    if not found:
        return
    _, rubric, transcript, answer, verdict = min(found, key=lambda each: (not each[4].issues, each[0]))
    yield ""
    yield f"One answer and its verdict ({rubric.title}):"
    yield from _told(rubric, transcript, answer, verdict)
    yield ""


def _told(rubric: Rubric, transcript: Transcript, answer: Answer, verdict: Verdict) -> Iterator[str]:
    yield from _block("a user asks", transcript.test.prompt)
    if transcript.test.context:
        yield from _block(rubric.context.label if rubric.context else "context", transcript.test.context)
    assert answer.response
    yield from _block(f"{answer.subject} answers", answer.response.text or "")
    letters = verdict.issues or ()
    named = [issue for issue in rubric.judging.issues if issue.letter in letters]
    assert verdict.score is not None
    yield one_line(
        f"{verdict.judge} names {len(named)} of {len(rubric.judging.issues)} issues: {verdict.score / 10:.2f}"
    )
    for issue in named:
        yield from textwrap.wrap(f"{issue.letter} (-{issue.deduction}): {issue.text}", 110, subsequent_indent="   ")


def _block(label: str, text: str) -> Iterator[str]:
    shown = text if len(text) <= TEXT_SHOWN else f"{text[:TEXT_SHOWN]} ..."
    yield one_line(f"{label}:")
    yield textwrap.indent(for_terminal(shown.strip()), "    ")


def program() -> str:
    """How a shell starts `hab`: by its name, or by its path where it is in an environment that is not active."""
    return "hab" if shutil.which("hab") else shlex.quote(os.path.relpath(Path(sys.executable).with_name("hab")))


def what_next(hab: str) -> list[str]:
    """What a user may do after the demo, a line each; `hab` is how the shell starts it."""
    commands = [f"{hab} {arguments}" for arguments, _ in NEXT]
    widest = max(map(len, commands))
    return [f"next: {line:<{widest}}  {does}" for line, (_, does) in zip(commands, NEXT, strict=True)]


@ends_with_status
def command(
    small: Annotated[
        bool, typer.Option("--small", help="Take 92 MB of weights, which cannot judge, instead of 1.1 GB.")
    ] = False,
) -> Exit:
    """Run every step of the benchmark, small, on a model of this machine; no key, nothing paid.

    It fetches open weights once, writes tests, answers and judges them, and shows the leaderboard and one judged
    answer. Below 4 GB of free memory or disk it takes small weights and says so.
    """
    lack = None if small else lacking(default_cache())
    size = SMALL if small or lack else LARGE
    console.print(f"{lack}: the demo takes its small weights" if lack else size.told, soft_wrap=True)
    if lack:
        console.print(size.told, soft_wrap=True)
    _fetch(size.weights)
    sweep = shipped_or_own(size.sweep)
    ended = run_sweep(sweep, Choices(), Options(), yes=True)
    if ended is not Exit.INTERRUPTED:
        run = sweep_of(sweep, Choices()).run_folder
        for line in judged_answer(open_run(run)):
            console.print(line, soft_wrap=True)
        for line in what_next(program()):
            console.print(line, soft_wrap=True)
    return ended
