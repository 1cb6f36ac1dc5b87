"""The work on a batch: check its lines, and answer them ahead of time.

Lines are answered as soon as the batch is made and kept back until its time has come, so that a turnaround is as
long as it says. Every few milliseconds other requests get their turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from hab_simulator.accounts import SimulatedAccount
from hab_simulator.asks import Ask, Refused, WireAnswer
from hab_simulator.batch.clock import Pacer
from hab_simulator.batch.dialect import BadInput, Dialect, LineAsk
from hab_simulator.batch.jobs import Job, Order
from hab_simulator.batch.settings import LineFaults
from hab_simulator.batch.spool import Entry, Lines, Spool
from hab_simulator.meter import call_label
from hab_simulator.truth.answers import Mind
from hab_simulator.truth.draws import unit

_INVALID = 400


class Fate(Enum):
    """What becomes of a line that could be answered."""

    ANSWERED = auto()
    REFUSED = auto()
    FAILED = auto()
    MISSING = auto()


async def check(job: Job, dialect: Dialect, lines: Lines) -> None:
    """Check all lines of a new batch; the first problem goes to `job.problems`."""
    pacer, passed, shared = Pacer(), 0, job.model
    try:
        for model in dialect.checked(job.order, lines):
            passed, shared = passed + 1, model
            await pacer.pause()
    except BadInput as bad:
        if passed < len(lines):
            job.problems = (bad.at(passed + 1),)
            return
        job.problems = (bad.at(None),)
    job.model = shared


async def count_tokens(dialect: Dialect, account: SimulatedAccount, order: Order, lines: Lines) -> Mapping[str, int]:
    """The input tokens of all lines by model, for the models whose queue is limited."""
    limited = {name for name, model in account.models.items() if model.batch_queue_tokens is not None}
    counted: Counter[str] = Counter()
    pacer = Pacer()
    for line in lines if limited else ():
        ask = dialect.read(order, line)
        try:
            checked = dialect.vendor.check(ask.path, order.headers, account, ask.body)
        except Refused:
            continue
        if checked.model.batch_queue_tokens is not None:
            counted[checked.name] += checked.input_tokens
        await pacer.pause()
    return counted


@dataclass(frozen=True, slots=True)
class Answerer:
    """Answers lines: `account` has batch prices, `attempts` counts the sendings of each body by its label."""

    mind: Mind
    account: SimulatedAccount
    attempts: Counter[bytes]

    async def answer(self, job: Job, dialect: Dialect, lines: Lines) -> Spool:
        """Answer the lines of a job into a spool; the last one is not missing if all others are."""
        pacer = Pacer()
        spool = Spool(job.folder / "answered")
        faults, are_missing = job.settings.lines, True
        for number, line in enumerate(lines, 1):
            if number == len(lines) and are_missing:
                faults = faults.model_copy(update={"missing": 0.0})
            draw, entry = self._line(job, dialect, dialect.read(job.order, line), faults)
            are_missing = are_missing and not entry.times
            spool.add(draw, entry)
            await pacer.pause()
        spool.finish()
        return spool

    def _line(self, job: Job, dialect: Dialect, ask: LineAsk, faults: LineFaults) -> tuple[float, Entry]:
        vendor, seed = dialect.vendor, self.mind.seed
        try:
            checked = vendor.check(ask.path, job.order.headers, self.account, ask.body)
        except Refused as refusal:
            return unit(seed, "line", ask.handle), _failure(dialect, ask, refusal.answer)
        label = call_label(job.account, ask.path, checked.identity)
        self.attempts[label] += 1
        attempt = self.attempts[label]
        draw = unit(seed, "line", label, attempt)
        match _fate(faults, seed, label, attempt):
            case Fate.REFUSED:
                return draw, _failure(dialect, ask, vendor.fault(_INVALID, None))
            case Fate.FAILED:
                return draw, _failure(dialect, ask, vendor.fault(faults.failed_status, None))
            case Fate.MISSING:
                return draw, Entry(ask.handle, b"", times=0)
            case Fate.ANSWERED:
                twice = bool(faults.doubled) and unit(seed, "doubled", label, attempt) < faults.doubled
                return draw, self._success(dialect, ask, checked, label, 1 + twice)

    def _success(self, dialect: Dialect, ask: LineAsk, checked: Ask, label: bytes, times: int) -> Entry:
        answer = dialect.vendor.reply(self.mind, checked)
        return Entry(
            handle=ask.handle,
            line=dialect.result(ask.handle, answer),
            times=times,
            label=label,
            path=ask.path,
            model=checked.name,
            bill=answer.bill,
            exchange=answer.exchange,
        )


def _failure(dialect: Dialect, ask: LineAsk, answer: WireAnswer) -> Entry:
    return Entry(ask.handle, dialect.result(ask.handle, answer), times=1)


def _fate(faults: LineFaults, seed: int, label: bytes, attempt: int) -> Fate:
    """What becomes of the `attempt`-th sending of a body; draws only where there is a chance."""
    if faults.refused and unit(seed, "refused", label) < faults.refused:
        return Fate.REFUSED
    draw = unit(seed, "failed", label, attempt) if faults.failed or faults.missing else 1.0
    if draw < faults.failed:
        return Fate.FAILED
    return Fate.MISSING if draw < faults.failed + faults.missing else Fate.ANSWERED
