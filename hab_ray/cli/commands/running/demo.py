"""`hab demo`: run a small benchmark on this machine."""

import os
import re
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

from hab_ray.calls import Finish
from hab_ray.cli.commands.running.run import run_sweep
from hab_ray.cli.ending import console, ends_with_status, say
from hab_ray.cli.prepare import Choices, chosen_sweep
from hab_ray.config.sweep import shipped_or_own
from hab_ray.errors import ConfigError, Exit
from hab_ray.local import LocalError, default_cache, free_disk, free_memory, known_weights, pull
from hab_ray.results import Answer, Run, Transcript, open_run
from hab_ray.rows import State, Verdict
from hab_ray.rubric import Rubric
from hab_ray.sweep.options import Options
from hab_ray.visible import for_terminal, one_line

NEEDED = 4 * 10**9
"""Bytes of free memory, and of free disk, that the large weights need."""
_REPORT_EVERY = 0.1
TEXT_SHOWN = 900
_BREAKS_OFF = re.compile(r"[\w,;:(-]\Z")
NEXT = (
    ("rehearse jobs/small.yaml", "a whole sweep against simulated vendors, checked against a planted truth"),
    ("init", "writes a sweep for your own models, with its price"),
    ("models", "which models, prices and keys there are"),
)


@dataclass(frozen=True)
class Size:
    """A demo: its sweep, the weights it needs, and their description."""

    sweep: Path
    weights: str
    description: str


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


def too_small(cache: Path) -> str | None:
    """Return why the large weights do not fit on this machine, or None if they do."""
    memory, disk = free_memory(), free_disk(cache)
    if memory is not None and memory < NEEDED:
        return f"{memory / 1e9:.1f} GB of memory are free, and the larger model needs {NEEDED / 1e9:.0f}"
    is_cached = (cache / known_weights()[LARGE.weights].file).is_file()
    if not is_cached and disk < NEEDED:
        return f"{disk / 1e9:.1f} GB of disk are free at {cache}, and the larger model needs {NEEDED / 1e9:.0f}"
    return None


def _fetch(weights: str) -> None:
    """Fetch weights; show a progress bar on a terminal, otherwise a line per tenth."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_interactive) as progress:
        task = progress.add_task(weights, total=known_weights()[weights].bytes)
        reported = 0.0

        def fetched(have: int, total: int | None) -> None:
            nonlocal reported
            progress.update(task, completed=have, total=total)
            if total and not console.is_interactive and have / total >= reported + _REPORT_EVERY:
                reported = have / total
                say(f"fetching {weights}: {have / 1e6:,.0f} of {total / 1e6:,.0f} MB")

        try:
            pull(weights, cache=default_cache(), fetched=fetched)
        except LocalError as error:
            raise ConfigError(str(error)) from None


def judged_answer(run: Run) -> Iterator[str]:
    """Yield one test, an answer and its verdict with the issues in the rubric's words; nothing without a verdict.

    Choose a lowest-scored answer with an issue, if possible one that was not cut at `max_tokens`.
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
    _, rubric, transcript, answer, verdict = min(
        found, key=lambda each: (not each[4].issues, _is_cut(each[3]), each[0])
    )
    yield ""
    yield f"One answer and its verdict ({rubric.title}):"
    yield from _lines(rubric, transcript, answer, verdict)
    yield ""


def _lines(rubric: Rubric, transcript: Transcript, answer: Answer, verdict: Verdict) -> Iterator[str]:
    yield from _block("a user asks", transcript.test.prompt)
    if transcript.test.context:
        yield from _block(rubric.context.label if rubric.context else "context", transcript.test.context)
    assert answer.response
    cut = f" (cut at {answer.response.output_tokens or 'the limit of its'} tokens)" if _is_cut(answer) else ""
    yield from _block(f"{answer.subject} answers{cut}", answer.response.text or "")
    issues = rubric.judging.issues
    named = [issue for issue in issues if issue.letter in (verdict.issues or ())]
    assert verdict.score is not None
    yield one_line(f"{verdict.judge} names {len(named)} of {len(issues)} issues: {verdict.score / 10:.2f}")
    for issue in named:
        yield from textwrap.wrap(f"{issue.letter} (-{issue.deduction}): {issue.text}", 110, subsequent_indent="   ")


def _is_cut(answer: Answer) -> bool:
    return answer.response is not None and answer.response.finish == Finish.TRUNCATED


def _block(label: str, text: str) -> Iterator[str]:
    """Yield a label and the text; " ..." marks one that is cut here, or that breaks off at the model's token limit."""
    shown = text[:TEXT_SHOWN].strip()
    is_cut = len(text) > TEXT_SHOWN or _BREAKS_OFF.search(shown)
    yield one_line(f"{label}:")
    yield textwrap.indent(for_terminal(f"{shown} ..." if is_cut else shown), "    ")


def program() -> str:
    """Return how a shell starts `hab`: by its name or, outside an active environment, by its path."""
    return "hab" if shutil.which("hab") else shlex.quote(os.path.relpath(Path(sys.executable).with_name("hab")))


def next_steps(hab: str) -> list[str]:
    """Return a line for each command to try after the demo; `hab` is how the shell starts the program."""
    commands = [f"{hab} {arguments}" for arguments, _ in NEXT]
    widest = max(map(len, commands))
    return [f"next: {line:<{widest}}  {does}" for line, (_, does) in zip(commands, NEXT, strict=True)]


@ends_with_status
def command(
    small: Annotated[
        bool, typer.Option("--small", help="Use a model of 92 MB, which cannot judge, instead of 1.1 GB.")
    ] = False,
) -> Exit:
    """Run every step of the benchmark on a small scale with a local model, without keys or cost.

    It downloads open weights once, generates tests, answers and judges them, and shows the leaderboard and one judged
    answer. With less than 4 GB of free memory or disk it uses the small model and says so.
    """
    reason = None if small else too_small(default_cache())
    size = SMALL if small or reason else LARGE
    if reason:
        say(f"{reason}: the demo uses the small model")
    say(size.description)
    _fetch(size.weights)
    sweep = shipped_or_own(size.sweep)
    ended = run_sweep(sweep, Choices(), Options(), yes=True)
    if ended is not Exit.INTERRUPTED:
        run = chosen_sweep(sweep, Choices()).run_folder
        for line in (*judged_answer(open_run(run)), *next_steps(program())):
            console.print(line, soft_wrap=True)
    return ended
