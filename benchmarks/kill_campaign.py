"""Sweeps under a tight budget, killed at random moments and given again: what do the vendors charge in all?

    python benchmarks/kill_campaign.py --kills driver=60,lane=20,limiter=20,purse=20 --seed 0 --minutes 90
    python benchmarks/kill_campaign.py --sample            one sweep by batch, two kills of its driver

Every kill is SIGKILL to one process: the driver's (with either executor), or that of one of Ray's actors. A sweep goes
online, by batch or both, is killed a few times and given again until it is complete or has reached its budget; then it
gets what it is expected to cost, what it says is stranded and one reservation, and must end complete. Money is read at
the simulator's meter, the stranded sum in `log/progress.json`.

`open`: online calls that the vendor had billed and the store did not hold, once all processes of a killed driver were
gone, or when a lane was killed, added up over the kills. Only these may be sent again: there are no more `repeats` than
`open` ones, whatever else the machine does. `most` is the most that one kill left open.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.campaigns import BATCHED, MODELS, ONLINE, Modes, Session, Shape, charged, get, running, sent, wait
from hab_ray.simulator import Profile, SimulatorProcess

TITLES: Mapping[str, tuple[str, ...]] = {
    "lane": ("ray::Lane",),
    "limiter": ("ray::AccountActor", "ray::LimiterActor", "ray::SharedLimiter"),
    "purse": ("ray::PurseActor", "ray::BudgetActor", "ray::Budget"),
}
TARGETS = ("driver", *TITLES)
SWEEPS = {
    "online": Modes("online", "online", "online"),
    "batch": Modes("batch", "batch", "batch"),
    "mixed": Modes("online", "batch", "online"),
}
LATENCY_S, TURNAROUND_S = 1.0, 0.5
GONE_S = 20.0
KILLS_A_SWEEP, TESTS, ROWS = 5, 40, 16
TIGHT, SLACK = (0.4, 0.8), 1.05
SAMPLE_TESTS, SAMPLE_KILLS, SAMPLE_STRIKES_S = 8, 2, 1.5
STARTS_S, STRIKES_S, EARLY = 240.0, 8.0, 0.15
ENDS_S, TRIES = 400.0, 4
COMPLETE, BUDGET, BROKEN = 0, 4, 7
NANO = 1e9


@dataclass
class Outcome:
    """What came of one sweep. Money in nano-dollars."""

    mode: str
    target: str
    budget: int
    kills: int = 0
    absent: int = 0
    statuses: list[int | None] = field(default_factory=list)
    charged: int = 0
    told: dict[str, int] = field(default_factory=dict)
    raised: int = 0
    charged_in_all: int = 0
    finished: int | None = None
    doubled_by_batch: int = 0
    repeats: int = 0
    left_open: list[int] = field(default_factory=list)

    @property
    def stranded(self) -> int:
        return self.told.get("stranded", 0)

    def row(self) -> str:
        money = (self.budget, self.charged, self.stranded, self.raised, self.charged_in_all)
        statuses = ",".join("hangs" if status is None else str(status) for status in self.statuses)
        return (
            f"{self.mode:<8}{self.target:<9}{self.kills:>5}"
            + "".join(f"{amount / NANO:>10.4f}" for amount in money)
            + f"{self.doubled_by_batch:>8}{self.repeats:>9}{sum(self.left_open):>6}{max(self.left_open, default=0):>6}"
            f"   {statuses} then {self.finished}"
        )


def profile() -> Profile:
    """Vendors whose prices and times are the same online and by batch."""
    account = {"models": MODELS, "batch": {"turnaround": {"kind": "lognormal", "mean_s": TURNAROUND_S}}}
    latency = {"kind": "fixed", "value_s": LATENCY_S}
    return Profile.model_validate({"latency": latency, "accounts": {ONLINE: account, BATCHED: account}})


@dataclass(frozen=True)
class Undisturbed:
    """What a sweep costs, and the most that one of its batches sets aside, in nano-dollars."""

    cost: int
    reservation: int


@dataclass(frozen=True)
class Scale:
    """How large a sweep is, how often it is killed, and which Ray it uses (None: one of its own for every run)."""

    tests: int = TESTS
    kills: int = KILLS_A_SWEEP
    strikes_s: float = STRIKES_S
    ray_address: str | None = None


def undisturbed(tests: int) -> Undisturbed:
    """What a sweep comes to where nothing goes wrong, by batch."""
    with tempfile.TemporaryDirectory(prefix="hab-kill-") as folder, SimulatorProcess.start(profile()) as simulator:
        session = Session(Path(folder), simulator.url)
        session.write(Shape(SWEEPS["batch"], tests, ROWS), budget_usd=None)
        with running(session) as process:
            if wait(process, ENDS_S) != COMPLETE:
                raise SystemExit(f"the sweep does not end undisturbed: {session.log()}")
        intents = session.folder.glob("store/ledger/*/*/*-intent.json")
        largest = max(int(json.loads(path.read_bytes())["nanousd"]) for path in intents)
        return Undisturbed(charged(session.meter()), largest)


def campaign(mode: str, target: str, expected: Undisturbed, random: Random, scale: Scale) -> Outcome:
    """One sweep, killed so many times, given again until it ends, and once more with what it needs."""
    budget = round(expected.cost * random.uniform(*TIGHT))
    with tempfile.TemporaryDirectory(prefix="hab-kill-") as folder, SimulatorProcess.start(profile()) as simulator:
        session = Session(Path(folder), simulator.url, scale.ray_address)
        outcome = Outcome(mode, target, budget)
        try:
            executor = random.choice(("local", "ray")) if target == "driver" else "ray"
            shape = Shape(SWEEPS[mode], scale.tests, ROWS, executor=executor)
            session.write(shape, budget / NANO)
            while outcome.kills < scale.kills and _killed(session, target, random, scale, outcome):
                pass
            _ended(session, outcome)
            outcome.charged = charged(session.meter())
            outcome.told = session.money()
            outcome.raised = round(expected.cost * SLACK) + outcome.stranded + expected.reservation
            session.write(shape, outcome.raised / NANO)
            outcome.finished = _ended(session, outcome)
        finally:
            session.tidy()
        _count(session, outcome)
        if outcome.finished != COMPLETE:
            print(session.log(), flush=True)
        return outcome


def _killed(session: Session, target: str, random: Random, scale: Scale, outcome: Outcome) -> bool:
    """Start the run and kill one of its processes; False where it ended before that, or has no such process."""
    before = sent(session.meter())
    process = session.start()
    try:
        until = time.monotonic() + STARTS_S
        early = target == "driver" and random.random() < EARLY
        while not early and process.poll() is None and sent(session.meter()) == before and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(random.uniform(0.0, scale.strikes_s))
        if process.poll() is not None:
            outcome.statuses.append(process.returncode)
            return False
        if target != "driver":
            victims = session.titled(TITLES[target])
            if not victims:
                outcome.absent += 1
                return False
            random.choice(victims).kill()
        else:
            process.kill()
        outcome.kills += 1
        if target == "lane":  # another one takes its place within seconds
            outcome.left_open.append(len(_billed(session)) - _stored(session))
        status = wait(process, ENDS_S)
        if target != "driver":
            outcome.statuses.append(status)
        else:
            psutil.wait_procs(list(session.processes()), GONE_S)
            outcome.left_open.append(len(_billed(session)) - _stored(session))
        return status not in (COMPLETE, BUDGET)
    finally:
        process.kill()
        process.wait()


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
    return status


def _count(session: Session, outcome: Outcome) -> None:
    """Read what was charged, and what more than once."""
    meter = session.meter()
    outcome.charged_in_all = charged(meter)
    billed = _billed(session)
    outcome.repeats = billed.total() - len(billed)
    doubled_online = sum(count > 1 for count in billed.values())
    outcome.doubled_by_batch = meter["billed_more_than_once"]["bodies"] - doubled_online


def _billed(session: Session) -> Counter[str]:
    """How often each online call was billed, as the vendor tells calls apart."""
    return Counter(call["identity"] for call in _calls(session) if call["outcome"] == "billed")


def _stored(session: Session) -> int:
    """How many online calls have their reply in the store."""
    keys: set[str] = set()
    for path in (session.folder / "store/replies").glob("*/*"):
        if path.suffix in (".arrow", ".parquet"):
            table = (
                pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_stream(path.read_bytes()).read_all()
            )
            pairs = zip(table.column("key").to_pylist(), table.column("mode").to_pylist(), strict=True)
            keys.update(key for key, mode in pairs if mode == "online")
    return len(keys)


def _calls(session: Session) -> Iterator[dict[str, str]]:
    after = 0
    while page := get(session.url, f"/_calls?after={after}"):
        after += len(page)
        yield from page


def modes_for(target: str) -> Iterator[str]:
    """The modes of the sweeps that a target is killed in, over and over. Batches alone need no lane and no limiter."""
    kinds = ("batch", "online", "mixed") if target == "driver" else ("online", "mixed")
    while True:
        yield from kinds


def rules(found: Sequence[Outcome]) -> Iterator[tuple[str, int]]:
    """Each rule, and how many sweeps broke it."""
    over = sum(one.charged > one.budget for one in found)
    yield "the meter is never above budget_usd", over + sum(one.charged_in_all > one.raised for one in found)
    yield (
        "ends complete at the expected cost, the stranded sum shown and one reservation",
        sum(one.finished != COMPLETE for one in found),
    )
    yield "by batch nothing is billed twice", sum(one.doubled_by_batch > 0 for one in found)
    yield "online nothing that is in the store is sent again", sum(one.repeats > sum(one.left_open) for one in found)
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
        for number, mode in enumerate(modes_for(target)):
            if done >= wanted or time.monotonic() > end or barren == 3:
                break
            scale = Scale(kills=min(KILLS_A_SWEEP, wanted - done))
            one = campaign(mode, target, expected, Random(f"{seed}/{target}/{number}"), scale)
            found.append(one)
            done += one.kills
            barren = 0 if one.kills else barren + 1
            print(one.row(), flush=True)
        if done < wanted:
            why = f"no process titled {', '.join(TITLES.get(target, ()))}" if barren == 3 else "the time is over"
            print(f"{target}: {done} of {wanted} kills: {why}", flush=True)
    return found


def run_sample() -> list[Outcome]:
    """One small sweep by batch, for which no Ray is started, and two kills of its driver."""
    expected = undisturbed(SAMPLE_TESTS)
    scale = Scale(SAMPLE_TESTS, SAMPLE_KILLS, SAMPLE_STRIKES_S)
    one = campaign("batch", "driver", expected, Random("sample"), scale)
    print(f"{HEAD}\n{one.row()}", flush=True)
    return [one]


HEAD = (
    "sweep   killed   kills    budget   charged  stranded    raised    in all doubled  repeats  open  most   statuses"
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
    parser.add_argument("--kills", type=_kills, default="driver=60,lane=20,limiter=20,purse=20")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--sample", action="store_true")
    asked = parser.parse_args()
    found = run_sample() if asked.sample else run_all(asked.kills, asked.seed, asked.minutes)
    return verdict(found)


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
