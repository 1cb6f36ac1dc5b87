"""Sweeps under a tight budget, killed at random moments and given again: what do the vendors charge in all?

    python benchmarks/kill_campaign.py --kills driver=60,lane=20,limiter=20,budget=20 --seed 0 --minutes 90

Every kill is SIGKILL to one process: the driver's (half of them with either executor), or that of one of Ray's actors.
It comes up to two seconds after the run has sent something, so it meets calls or batches under way. An actor is killed
again and again in one run, a driver once in each of its runs. A sweep goes online, by batch or both, is killed a few
times and given again until it is complete or has reached its budget; then it gets what it is expected to cost, what it
says is stranded and one reservation, and must end complete. Money is read at the simulator's meter, the stranded sum in
`log/progress.json`.

`open`: online calls that the vendor had billed and the store did not hold, once all processes of a killed driver were
gone, or when a lane was killed, added up over the kills; `most` is the most that one kill left open. Only these calls
may be sent again: `outside` counts those that were billed again though no kill had lost them.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import cycle
from pathlib import Path
from random import Random

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.campaigns import (
    BATCHED,
    MODELS,
    ONLINE,
    Modes,
    Session,
    Shape,
    charged,
    get,
    running,
    sent,
    until,
    wait,
)
from hab_simulator import Profile, SimulatorProcess

TITLES: Mapping[str, tuple[str, ...]] = {
    "lane": ("ray::Lane",),
    "limiter": ("ray::AccountActor",),
    "budget": ("ray::BudgetActor",),
}
TARGETS = ("driver", *TITLES)
SWEEPS = {
    "online": Modes("online", "online", "online"),
    "batch": Modes("batch", "batch", "batch"),
    "mixed": Modes("online", "batch", "online"),
}
LATENCY_S, TURNAROUND_S = 0.8, 1.0
GONE_S, SIMULATOR_S = 20.0, 120.0
KILLS_A_SWEEP, TESTS, ROWS = 6, 80, 10
FEW_AT_ONCE, MANY_AT_ONCE = 3, 24
TIGHT, SLACK = (0.5, 0.8), 1.05
STARTS_S, STRIKES_S = 240.0, 2.0
ENDS_S, TRIES = 400.0, 4
COMPLETE, BUDGET, BROKEN = 0, 4, 7
NANO = 1e9


@dataclass
class Outcome:
    """What came of one sweep. Money in nano-dollars."""

    mode: str
    executor: str
    target: str
    budget: int
    kills: int = 0
    statuses: list[int | None] = field(default_factory=list)
    charged: int = 0
    told: dict[str, int] = field(default_factory=dict)
    raised: int = 0
    charged_in_all: int = 0
    finished: int | None = None
    doubled_by_batch: int = 0
    repeats: int = 0
    outside: int = 0
    unbilled: int = 0
    left_open: list[int] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)

    @property
    def stranded(self) -> int:
        return self.told.get("stranded", 0)

    def row(self) -> str:
        money = (self.budget, self.charged, self.stranded, self.raised, self.charged_in_all)
        statuses = ",".join("hangs" if status is None else str(status) for status in self.statuses)
        return (
            f"{self.mode:<8}{self.executor:<7}{self.target:<9}{self.kills:>5}"
            + "".join(f"{amount / NANO:>10.4f}" for amount in money)
            + f"{self.doubled_by_batch:>8}{self.repeats:>9}{self.outside:>8}{sum(self.left_open):>6}"
            f"{max(self.left_open, default=0):>6}   {statuses} then {self.finished}"
        )


def profile() -> Profile:
    """Vendors whose prices and times are the same online and by batch."""
    account = {"models": MODELS, "batch": {"turnaround": {"kind": "lognormal", "mean_s": TURNAROUND_S}}}
    latency = {"kind": "fixed", "value_s": LATENCY_S}
    accounts = {ONLINE: account, BATCHED: account}
    return Profile.model_validate({"latency": latency, "accounts": accounts, "keep_bodies": True})


@dataclass(frozen=True)
class Undisturbed:
    """What a sweep costs, and the most that one of its batches sets aside, in nano-dollars."""

    cost: int
    reservation: int


@dataclass(frozen=True)
class Plan:
    """One sweep: how it goes out, how large it is, what is killed in it and how often."""

    mode: str
    executor: str
    target: str
    tests: int = TESTS
    kills: int = KILLS_A_SWEEP

    def shape(self, at_once: int) -> Shape:
        return Shape(SWEEPS[self.mode], self.tests, ROWS, concurrent=at_once, executor=self.executor)


def undisturbed(tests: int) -> Undisturbed:
    """What a sweep comes to where nothing goes wrong, by batch."""
    with (
        tempfile.TemporaryDirectory(prefix="hab-kill-") as folder,
        SimulatorProcess.start(profile(), timeout_s=SIMULATOR_S) as simulator,
    ):
        session = Session(Path(folder), simulator.url)
        session.write(Shape(SWEEPS["batch"], tests, ROWS), budget_usd=None)
        with running(session) as process:
            if wait(process, ENDS_S) != COMPLETE:
                raise SystemExit(f"the sweep does not end undisturbed: {session.log()}")
        intents = session.folder.glob("store/ledger/*/*/*-intent.json")
        largest = max(int(json.loads(path.read_bytes())["nanousd"]) for path in intents)
        return Undisturbed(charged(session.meter()), largest)


def campaign(plan: Plan, expected: Undisturbed, random: Random) -> Outcome:
    """One sweep, killed so many times, given again until it ends, and once more with what it needs."""
    budget = round(expected.cost * random.uniform(*TIGHT))
    with (
        tempfile.TemporaryDirectory(prefix="hab-kill-") as folder,
        SimulatorProcess.start(profile(), timeout_s=SIMULATOR_S) as simulator,
    ):
        session = Session(Path(folder), simulator.url)
        outcome = Outcome(plan.mode, plan.executor, plan.target, budget)
        try:
            session.write(plan.shape(FEW_AT_ONCE), budget / NANO)
            while outcome.kills < plan.kills and _killed(session, plan, random, outcome):
                pass
            session.write(plan.shape(MANY_AT_ONCE), budget / NANO)
            _ended(session, outcome)
            outcome.charged = charged(session.meter())
            outcome.told = session.money()
            outcome.raised = round(expected.cost * SLACK) + outcome.stranded + expected.reservation
            session.write(plan.shape(MANY_AT_ONCE), outcome.raised / NANO)
            outcome.finished = _ended(session, outcome)
        finally:
            session.tidy()
        _count(session, outcome)
        if outcome.finished != COMPLETE:
            print(session.log(), flush=True)
        return outcome


def _killed(session: Session, plan: Plan, random: Random, outcome: Outcome) -> bool:
    """Start the run and kill it, or actors of it; False where it came to its end all the same."""
    process = session.start()
    try:
        while outcome.kills < plan.kills and _is_sending(session, process, random):
            if plan.target == "driver":
                process.kill()
                process.wait()
                psutil.wait_procs(list(session.processes()), GONE_S)
                outcome.kills += 1
                _note_lost(session, outcome)
                return True
            victims = session.titled(TITLES[plan.target])
            if victims:
                random.choice(victims).kill()
                outcome.kills += 1
                if plan.target == "lane":  # another one takes its place within seconds
                    _note_lost(session, outcome)
        status = wait(process, ENDS_S)
        outcome.statuses.append(status)
        return status not in (COMPLETE, BUDGET)
    finally:
        process.kill()
        process.wait()


def _is_sending(session: Session, process: subprocess.Popen[str], random: Random) -> bool:
    """Wait until a run sends something, and a little; False where it ends before that."""
    before = sent(session.meter())
    if not until(session, process, lambda meter: sent(meter) > before, STARTS_S):
        return False
    time.sleep(random.uniform(0.0, STRIKES_S))
    return process.poll() is None


def _note_lost(session: Session, outcome: Outcome) -> None:
    """Note which online calls the vendor has billed and the store does not hold."""
    billed, stored = _billed(session), _stored(session)
    lost = Counter({body: times for body, times in billed.items() if body not in stored})
    outcome.left_open.append(len(lost))
    outcome.lost |= lost


def _ended(session: Session, outcome: Outcome) -> int | None:
    """Give the run until it is complete or has reached its budget; its last status."""
    status: int | None = None
    for _ in range(TRIES):
        process = session.start()
        try:
            status = wait(process, ENDS_S)
        finally:
            process.kill()
            process.wait()
        outcome.statuses.append(status)
        if status in (COMPLETE, BUDGET):
            break
        if status is None:
            print(f"does not end within {ENDS_S:g} s: {session.log()}", flush=True)
    return status


def _count(session: Session, outcome: Outcome) -> None:
    """Read what was charged, and what more than once."""
    meter = session.meter()
    outcome.charged_in_all = charged(meter)
    billed = _billed(session)
    outcome.repeats = billed.total() - len(billed)
    outcome.outside = sum(times > outcome.lost[body] + 1 for body, times in billed.items())
    outcome.unbilled = len(_stored(session) - billed.keys())
    doubled_online = sum(times > 1 for times in billed.values())
    outcome.doubled_by_batch = meter["billed_more_than_once"]["bodies"] - doubled_online


def _billed(session: Session) -> Counter[str]:
    """How often each online call was billed, by the hash of its body that the store keeps with its reply."""
    bodies = (json.loads(call["body"]) for call in _calls(session) if call["outcome"] == "billed")
    encoded = (json.dumps(body, separators=(",", ":")) for body in bodies)
    return Counter(sha256(text.encode()).hexdigest() for text in encoded)


def _stored(session: Session) -> set[str]:
    """The bodies of online calls whose reply is in the store."""
    bodies: set[str] = set()
    for path in (session.folder / "store/replies").glob("*/*"):
        if path.suffix in (".arrow", ".parquet"):
            table = (
                pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_stream(path.read_bytes()).read_all()
            )
            pairs = zip(table.column("body_sha256").to_pylist(), table.column("mode").to_pylist(), strict=True)
            bodies.update(body for body, mode in pairs if mode == "online")
    return bodies


def _calls(session: Session) -> Iterator[dict[str, str]]:
    after = 0
    while page := get(session.url, f"/_calls?after={after}"):
        after += len(page)
        yield from page


def plans(target: str) -> Iterator[Plan]:
    """The sweeps that a target is killed in, over and over. Batches alone need no lane, no limiter and no Ray."""
    ways = {
        "driver": (
            ("online", "ray"),
            ("mixed", "local"),
            ("mixed", "ray"),
            ("batch", "local"),
            ("online", "ray"),
            ("online", "local"),
        )
    }
    for mode, executor in cycle(ways.get(target, (("online", "ray"), ("mixed", "ray")))):
        yield Plan(mode, executor, target)


def rules(found: Sequence[Outcome]) -> Iterator[tuple[str, int]]:
    """Each rule, and how many sweeps broke it."""
    over = sum(one.charged > one.budget for one in found)
    yield "the meter is never above budget_usd", over + sum(one.charged_in_all > one.raised for one in found)
    yield (
        "ends complete at the expected cost, the stranded sum shown and one reservation",
        sum(one.finished != COMPLETE for one in found),
    )
    yield "by batch nothing is billed twice", sum(one.doubled_by_batch > 0 for one in found)
    yield "online nothing is billed again that no kill had lost", sum(one.outside > 0 for one in found)
    yield "every reply in the store is that of a call which was billed", sum(one.unbilled > 0 for one in found)
    ends = {COMPLETE, BUDGET, BROKEN}
    yield "runs end complete, at the budget or with status 7", sum(bool(set(one.statuses) - ends) for one in found)


def run_all(kills: Mapping[str, int], seed: int, minutes: float) -> list[Outcome]:
    """Sweep after sweep until every kind has its kills or the time is over."""
    found: list[Outcome] = []
    expected = undisturbed(TESTS)
    print(f"a sweep undisturbed costs ${expected.cost / NANO:.4f}\n{HEAD}", flush=True)
    end = time.monotonic() + 60 * minutes
    for target, wanted in kills.items():
        done, barren = 0, 0
        for number, plan in enumerate(plans(target)):
            if done >= wanted or time.monotonic() > end or barren == 3:
                break
            plan = replace(plan, kills=min(KILLS_A_SWEEP, wanted - done))
            one = campaign(plan, expected, Random(f"{seed}/{target}/{number}"))
            found.append(one)
            done += one.kills
            barren = 0 if one.kills else barren + 1
            print(one.row(), flush=True)
        if done < wanted:
            why = f"no process titled {', '.join(TITLES.get(target, ()))}" if barren == 3 else "the time is over"
            print(f"{target}: {done} of {wanted} kills: {why}", flush=True)
    return found


HEAD = (
    "sweep   where  killed   kills    budget   charged  stranded    raised    in all doubled  repeats outside  open"
    "  most   statuses"
)


def _kills(text: str) -> dict[str, int]:
    pairs = (pair.partition("=") for pair in text.split(","))
    kills = {name: int(count) for name, _, count in pairs}
    unknown = set(kills) - set(TARGETS)
    if unknown:
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: known are {', '.join(TARGETS)}")
    return kills


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=_kills, default="driver=60,lane=20,limiter=20,budget=20")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=120.0)
    asked = parser.parse_args()
    return verdict(run_all(asked.kills, asked.seed, asked.minutes))


def verdict(found: Sequence[Outcome]) -> int:
    """Print each rule's end; the exit status."""
    if not any("stranded" in one.told for one in found):
        print("no run shows a stranded sum in log/progress.json: 0 was taken")
    counts = Counter[str]()
    for one in found:
        counts[one.target] += one.kills
    print(f"{sum(counts.values())} kills: {', '.join(f'{name} {count}' for name, count in counts.items())}")
    broken = list(rules(found))
    for rule, count in broken:
        print(f"{'FAIL' if count else 'PASS'}: {rule}{f': {count} sweeps broke it' if count else ''}")
    return 1 if any(count for _, count in broken) else 0


if __name__ == "__main__":
    sys.exit(main())
