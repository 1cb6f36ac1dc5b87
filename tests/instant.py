"""Runs of small sweeps without driver and network, whose calls are answered at once."""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from hab_ray.calls import Call, EmbedCall, Failure, Finish, Reply, Usage
from hab_ray.catalog.prices import Mode, input_bytes, rate
from hab_ray.config.sweep import Sweep
from hab_ray.errors import FailureKind
from hab_ray.planning import Figures, Plan, make_plan
from hab_ray.resolve import resolve
from hab_ray.rows import ChosenTest
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease.lease import Holder, last_holder
from hab_ray.storage.registry import Registry
from hab_ray.storage.replies.store import Store, StoreWriter
from hab_ray.work import Shard, Work, given_tests

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DIMENSIONS = ["ask_clarifying_questions", "correct_misinformation"]
Cell = tuple[str, str, str]


def work_of(tmp_path: Path, **changes: Any) -> Work:
    models = {"vectors": {"purpose": "embedding"}, "deep": {"thinking": "always", "thinking_reserve": 1000}}
    house = {
        "kind": "openai",
        "url": "http://localhost:1/v1",
        "price": {"input": 1, "output": 4},
        "batch": {"discount": 0.5},
        "limits": {"concurrent": 2, "requests_per_minute": 60},
        "models": models,
    }
    sweep = {
        "name": "small",
        "run": str(tmp_path / "run"),
        "store": str(tmp_path / "store"),
        "dimensions": DIMENSIONS,
        "providers": {"house": house},
        "tests": "seeds",
        "subjects": ["house/a", "house/deep", {"model": "house/a", "name": "again"}],
        "judges": ["house/j", "house/k"],
        **changes,
    }
    return resolve(Sweep.model_validate(sweep), NOW)


MADE = {
    "tests": None,
    "generate": {"model": "house/writer", "candidates": 7, "per_call": 3},
    "validate": {"model": "house/checker", "keep": 5},
    "select": {"embedding": "house/vectors", "tests": 4},
}


def begin(work: Work) -> None:
    """Have the run hold its store's lease once, as every run that has rows did."""
    store, folder = work.sweep.store, open_folder(work.sweep.store)
    if not Registry(store).epochs(work.run_id, work.run_path):
        holder = Holder.after(last_holder(folder), store, work.run_path, NOW)
        folder.put(holder.name, replace(holder, released=True).record())


class Run:
    """A run of a sweep with one driver and no network: every open call is answered at once."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.folder = open_folder(work.sweep.store)
        begin(work)
        self.writer = StoreWriter(self.folder, 1, "test", Mode.ONLINE)
        self.made: Counter[Cell] = Counter()
        self.paid = 0

    def store(self) -> Store:
        return Store(open_folder(self.work.sweep.store))

    def plan(self) -> Plan:
        return make_plan(self.work)

    def all(self, stage: str = "") -> None:
        """Take every shard, or those of one stage."""
        for shard in self.work.shards():
            if shard.stage == stage or not stage:
                self.take(shard)

    def take(self, shard: Shard) -> None:
        """Answer a shard's calls until it is complete, and write its view."""
        work = self.work
        if work.sweep.tests is not None:
            for dimension, tests in given_tests(work).items():
                work.run.write(ChosenTest, f"tests/{dimension}.parquet", tests)
        if not shard.spec.makes_calls:
            work.write(shard, work.compute(shard, self.store()).rows)
            return
        tasks = work.tasks(shard)
        while True:
            settled = work.settled(shard, tasks, self.store())
            calls = {call.key: call for _, call in settled.open}.values()
            if not calls:
                break
            for call in calls:
                self.answer(shard, call)
            self.writer.flush()
        work.write(shard, settled.rows)

    def answer(self, shard: Shard, call: Call) -> None:
        self.made[shard.stage, shard.name, shard.dimension] += 1
        usage = Usage(input=input_bytes(call) // 4, output=100)
        cost = rate(self.work.model(shard).entry, Mode.ONLINE).cost(usage)
        self.paid += cost
        vector = np.random.default_rng(sum(self.made.values())).normal(size=8).astype("<f4").tobytes()
        self.writer.add(
            call.model,
            Reply(
                key=call.key,
                finish=Finish.OK,
                usage=usage,
                cost_nanousd=cost,
                model_reported=self.reported(),
                served_by="",
                body_sha256="",
                at=NOW,
                text="" if isinstance(call, EmbedCall) else self.text(shard, call),
                vector=vector if isinstance(call, EmbedCall) else b"",
            ),
        )

    def reported(self) -> str:
        """The name that the vendor gives the model in the next reply."""
        return "another-model"

    def text(self, shard: Shard, call: Call) -> str:
        match shard.stage:
            case "generate":
                names = ("before", "context", "after") if shard.dimension == DIMENSIONS[1] else ("prompt",)
                return json.dumps({"queries": [{n: f"{n} {i} {call.key}." for n in names} for i in range(3)]})
            case "validate":
                return json.dumps({"assessment": "fine", "deductions": []})
            case "judge":
                return json.dumps({"assessment": "fine", "issues": ["A"]})
            case _:
                return f"An answer of some length, given in a few words by {call.model}."


class Failing(Run):
    """A run in which the first call of each shard fails for good."""

    def answer(self, shard: Shard, call: Call) -> None:
        if self.made[shard.stage, shard.name, shard.dimension]:
            return super().answer(shard, call)
        self.made[shard.stage, shard.name, shard.dimension] += 1
        self.writer.add(call.model, Failure(call.key, FailureKind.BAD_REQUEST, 1, "content filter"))


def by_cell(plan: Plan) -> dict[Cell, Figures]:
    return dict(plan.grouped(lambda line: (line.stage, line.name, line.dimension)))


def open_calls(plan: Plan) -> dict[Cell, int]:
    return {cell: figures.to_pay for cell, figures in by_cell(plan).items() if figures.to_pay}
