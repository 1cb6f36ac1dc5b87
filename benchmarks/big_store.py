"""`hab run` on a large store where nothing is left to do: seconds, peak memory, and the parts of the store it opened.

    python -m benchmarks.big_store                    a finished sweep of 120,000 calls
    python -m benchmarks.big_store --keys 2000000     the same sweep small, in a store with so many keys and a budget

The store is written in bulk, in the order in which replies come: those of all shards of a model in turn. The first
`hab run` builds the run folder from it, the second finds everything done.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.campaigns import ROOT, watched
from benchmarks.opened_parts import PARTS_OPENED
from hab_ray.calls import Call, Finish, Reply, Usage
from hab_ray.catalog.prices import Mode
from hab_ray.config.sweep import load_sweep
from hab_ray.location import Location
from hab_ray.resolve import resolve
from hab_ray.rows import ChosenTest, Response
from hab_ray.stages.base import CallStage, Rows
from hab_ray.storage.folder import Folder, open_folder
from hab_ray.storage.replies.records import REPLY_SCHEMA, RecordKind, prefix_of, table_of
from hab_ray.storage.replies.sidecars import put_part
from hab_ray.storage.replies.store import PART_BYTES
from hab_ray.work import Shard, Work, given_tests

NOW = datetime(2026, 11, 1, tzinfo=UTC)
EPOCH = 1
TESTS, SUBJECTS = 3000, 20
FEW_TESTS, FEW_SUBJECTS = 60, 2
ANSWER = "I can help with that, but tell me first what you have tried and what matters to you. " * 6
VERDICT = {"assessment": "The answer asks before it assumes. " * 8, "issues": []}


def sweep_file(folder: Path, tests: int, subjects: int) -> Path:
    """A sweep of two calls for each test and subject, with a budget."""
    table = pq.read_table(ROOT / "jobs/rehearsal-tests.parquet").slice(0, tests)
    pq.write_table(table, folder / "tests.parquet")
    account = {"kind": "openai", "url": "http://127.0.0.1:9/v1", "price": {"input": 1, "output": 1}}
    settings = {
        "name": "big",
        "run": str(folder / "run"),
        "store": str(folder / "store"),
        "tests": str(folder / "tests.parquet"),
        "dimensions": sorted(set(table.column("dimension").to_pylist())),
        "budget_usd": 1_000_000,
        "providers": {"lab": account},
        "subjects": [f"lab/s{n}" for n in range(subjects)],
        "judges": ["lab/judge"],
    }
    path = folder / "big.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def fill(work: Work, folder: Folder) -> int:
    """Write a reply to every call of a sweep; how many there are."""
    tests, count = given_tests(work), 0
    answering = [shard for shard in work.shards() if shard.spec.row is Response]
    verdicts: list[list[Call]] = []
    for shard in answering:
        stage, answer = calling(work, shard), f"I am {shard.name}. {ANSWER}"
        tasks = stage.tasks(Rows({ChosenTest: tests[shard.dimension]}))
        calls = [call for _, call in stage.requests(tasks)]
        count += put(folder, work.model(shard).name, calls, answer)
        parsed = (stage.parse(task, reply(call, answer)) for task, call in zip(tasks, calls, strict=True))
        rows = [row for row in parsed if isinstance(row, Response)]
        judge = calling(work, Shard("judge", "lab/judge", shard.dimension, shard.name))
        judged = judge.tasks(Rows({ChosenTest: tests[shard.dimension], Response: rows}))
        verdicts.append([call for _, call in judge.requests(judged)])
    in_turn = [call for calls in zip_longest(*verdicts) for call in calls if call is not None]
    return count + put(folder, "lab/judge", in_turn, json.dumps(VERDICT))


def calling(work: Work, shard: Shard) -> CallStage[Any, Any]:
    stage = work.stage(shard)
    assert isinstance(stage, CallStage)
    return stage


def put(folder: Folder, model: str, calls: Sequence[Call], text: str) -> int:
    """Write parts with a reply to each call."""
    rows = PART_BYTES // (len(text) + 400)
    left = iter(calls)
    number = len(folder.list(prefix_of(RecordKind.REPLIES, model)))
    while some := list(islice(left, rows)):
        table = table_of(RecordKind.REPLIES, [reply(call, text) for call in some], EPOCH, Mode.ONLINE)
        put_part(folder, f"{prefix_of(RecordKind.REPLIES, model)}/part-{EPOCH:06d}.{number:06d}", table)
        number += 1
    return len(calls)


def reply(call: Call, text: str) -> Reply:
    return Reply(
        key=call.key,
        finish=Finish.OK,
        usage=Usage(input=100, output=100),
        cost_nanousd=200_000,
        model_reported=call.model.removeprefix("lab/"),
        served_by="",
        body_sha256="0" * 64,
        at=NOW,
        text=text,
    )


def fill_up(folder: Folder, keys: int) -> None:
    """Write records of another model with random keys, paid for by the same run."""
    rows = PART_BYTES // 600
    for number, start in enumerate(range(0, keys, rows)):
        table = strangers(min(rows, keys - start))
        put_part(folder, f"{prefix_of(RecordKind.REPLIES, 'lab/other')}/part-{EPOCH:06d}.{number:06d}", table)


def strangers(rows: int) -> pa.Table:
    constant: dict[str, Any] = {
        field.name: {pa.int64(): 7, pa.float64(): 0.5}.get(field.type, "") for field in REPLY_SCHEMA
    }
    constant |= {"finish": "ok", "text": ANSWER[:200], "vector": b"", "at": NOW, "epoch": EPOCH, "mode": "online"}
    digits = os.urandom(32 * rows).hex()
    columns = {
        field.name: pa.array([digits[64 * n : 64 * n + 64] for n in range(rows)])
        if field.name == "key"
        else pa.repeat(pa.scalar(constant[field.name], field.type), rows)
        for field in REPLY_SCHEMA
    }
    return pa.table(columns, schema=REPLY_SCHEMA)


def measured(sweep: Path) -> str:
    """Run `hab run` in a process of its own: its figures."""
    ended = watched(["run", "--yes", str(sweep)], program=(sys.executable, "-m", "benchmarks.opened_parts"))
    assert "0 calls sent" in ended.printed, ended.printed
    (opened,) = (line for line in ended.printed.splitlines() if line.startswith(PARTS_OPENED))
    return f"{ended.figures}  {opened}"


def main() -> None:
    """Fill a store and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=0, help="so many further keys, and a small sweep")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        size = (FEW_TESTS, FEW_SUBJECTS) if asked.keys else (TESTS, SUBJECTS)
        sweep = sweep_file(Path(name), *size)
        store = open_folder(Location.of(Path(name) / "store"))
        calls = fill(resolve(load_sweep(sweep), NOW), store)
        fill_up(store, asked.keys)
        print(f"{calls:,} calls of the sweep, {asked.keys:,} further keys, {len(store.list('replies'))} parts")
        print(f"built from the store: {measured(sweep)}")
        print(f"nothing to do:        {measured(sweep)}")


if __name__ == "__main__":
    main()
