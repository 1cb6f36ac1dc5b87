"""The work on a batch: check its lines, and answer them ahead of time.

Lines are answered as soon as the batch is made and kept back until its time has come, so that a turnaround is as
long as it says. Every few milliseconds other requests get their turn.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from hab_simulator.accounts import SimulatedAccount
from hab_simulator.asks import Refused, WireAnswer
from hab_simulator.batch.clock import Pacer
from hab_simulator.batch.dialect import BadInput, Dialect, LineAsk
from hab_simulator.batch.jobs import Job, Order
from hab_simulator.batch.settings import LineFaults
from hab_simulator.batch.spool import Entry, Lines, Spool
from hab_simulator.meter import call_label
from hab_simulator.truth.answers import Mind
from hab_simulator.truth.draws import unit

_INVALID = 400


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
        """The entry of a line, after the draw that says when it was done; draws only where there is a chance."""
        vendor, seed = dialect.vendor, self.mind.seed
        try:
            checked = vendor.check(ask.path, job.order.headers, self.account, ask.body)
        except Refused as refusal:
            return unit(seed, "line", ask.handle), _failure(dialect, ask, refusal.answer)
        label = call_label(job.account, ask.path, checked.identity)
        self.attempts[label] += 1
        attempt = self.attempts[label]
        draw = unit(seed, "line", label, attempt)
        if faults.refused and unit(seed, "refused", label) < faults.refused:
            return draw, _failure(dialect, ask, vendor.fault(_INVALID, None))
        chance = unit(seed, "failed", label, attempt) if faults.failed or faults.missing else 1.0
        if chance < faults.failed:
            return draw, _failure(dialect, ask, vendor.fault(faults.failed_status, None))
        if chance < faults.failed + faults.missing:
            return draw, Entry(ask.handle, b"", times=0)
        answer = vendor.reply(self.mind, checked)
        return draw, Entry(
            handle=ask.handle,
            line=dialect.result(ask.handle, answer),
            times=1 + (bool(faults.doubled) and unit(seed, "doubled", label, attempt) < faults.doubled),
            label=label,
            path=ask.path,
            model=checked.name,
            bill=answer.bill,
            exchange=answer.exchange,
        )


def _failure(dialect: Dialect, ask: LineAsk, answer: WireAnswer) -> Entry:
    return Entry(ask.handle, dialect.result(ask.handle, answer), times=1)
