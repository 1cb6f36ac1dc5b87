"""A sweep by batch at 1.3 times its bill, hard and likely, killed three times: rounds, and what the vendor charged.

    python -m benchmarks.likely_run --tests 500

Two subjects and a judge read `--tests` tests of each of two dimensions. One subject's answers have lognormal lengths,
of the other's one in fifty is sixteen times as long as all others; they might be longer still. The bill is that of a
first run without a budget, and each run says how many rounds of batches a stage and model took. A batch takes longer
than sending a round of them or starting again after a kill does, as at the vendors, where it takes an hour.
"""

from __future__ import annotations

import argparse
import random
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.campaigns import PRICE, Modes, Session, Shape, charged, running, wait
from hab_ray.engine.ledger import LEDGER, Batch, Harvested, Ledger
from hab_ray.storage.folder import LocalFolder
from hab_simulator import Profile, SimulatorProcess

RATIO, KILLS, WITHIN_S = 1.3, 3, 1800.0
SENTENCES = (2, 32)
MAX_TOKENS = {"subjects": 1000, "judges": 2000}


@dataclass(frozen=True)
class Outcome:
    """What a run came to: its bill in dollars, its exit status and the rounds of batches that each model took."""

    status: int | None
    bill: float
    rounds: dict[str, int]
    kills: int


def turnaround_s(tests: int) -> float:
    """How long each batch takes."""
    return max(6.0, tests / 300)


def profile(folder: Path, turnaround_s: float) -> Profile:
    answers = {"answer_sentences": SENTENCES, "price": PRICE, "batch_price": PRICE}
    accounts = {
        account: {"models": {"*": {**answers, "lengths": lengths}}}
        for account, lengths in (("x/sim", "lognormal"), ("anthropic", "rare"))
    }
    turnaround = {"turnaround": {"kind": "fixed", "value_s": turnaround_s}}
    return Profile.model_validate({"folder": folder, "seed": 5, "accounts": accounts, "batch": turnaround})


def write(session: Session, tests: int, budget: dict[str, Any] | None) -> None:
    session.write(Shape(Modes("batch", "batch", "batch"), tests, rows=50_000), budget_usd=None)
    sweep = yaml.safe_load(session.sweep.read_text())
    for key, most in MAX_TOKENS.items():
        for model in sweep[key]:
            model["params"] = {"max_tokens": most}
    session.sweep.write_text(yaml.safe_dump(sweep | ({"budget": budget} if budget else {})))


def rounds(store: LocalFolder) -> dict[str, int]:
    """How many batches of each model had to wait for others of it."""
    found: dict[str, list[Batch]] = {}
    for provider in sorted({name.split("/")[1] for name in store.list(LEDGER)}):
        for batch in Ledger(store, provider).read():
            found.setdefault(batch.intent.model, []).append(batch)
    return {model: _rounds(batches) for model, batches in found.items()}


def _rounds(batches: list[Batch]) -> int:
    count, ends = 0, None
    for batch in sorted(batches, key=lambda batch: batch.intent.at):
        if ends is None or batch.intent.at >= ends:
            count, ends = count + 1, None
        closed = [event.at for event in batch.events if isinstance(event, Harvested)]
        ends = max([*closed, *([ends] if ends else [])], default=ends)
    return count


def ended(tests: int, budget: dict[str, Any] | None, kills: int) -> Outcome:
    """A run given again after each kill, at random moments."""
    moments, lasts_s = random.Random(7), turnaround_s(tests)
    with (
        tempfile.TemporaryDirectory(prefix="hab-likely-") as folder,
        SimulatorProcess.start(profile(Path(folder), lasts_s), timeout_s=60.0) as simulator,
    ):
        session = Session(Path(folder), simulator.url)
        write(session, tests, budget)
        killed = 0
        while True:
            with running(session) as process:
                if killed < kills and wait(process, moments.uniform(8, 8 + 3 * lasts_s)) is None:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    killed += 1
                    time.sleep(1)
                    continue
                status = wait(process, WITHIN_S)
            bill = charged(session.meter()) / 1e9
            return Outcome(status, bill, rounds(LocalFolder(session.folder / "store")), killed)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--tests", type=int, default=500)
    tests = parser.parse_args().tests
    free = ended(tests, None, kills=0)
    print(f"without a budget: ${free.bill:.4f}, rounds {free.rounds}, exit {free.status}", flush=True)
    for reserve in ("likely", "hard"):
        usd = round(RATIO * free.bill, 4)
        found = ended(tests, {"usd": usd, "reserve": reserve}, KILLS)
        held = "held" if found.bill <= usd else "EXCEEDED"
        print(
            f"{reserve} at ${usd:.4f}: meter ${found.bill:.4f} ({held}), exit {found.status}, {found.kills} kills, "
            f"rounds {found.rounds}",
            flush=True,
        )


if __name__ == "__main__":
    main()
