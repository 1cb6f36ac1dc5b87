"""What a call leaves behind: bytes in the store, in the run folder and in files, online and by batch.

    python benchmarks/bytes_per_call.py              500 tests, 2 subjects, a judge: 2,000 calls each way, rehearsed

The simulator writes the answers, so their length is printed beside: what is stored grows with it. A sidecar's bytes
are those per key. The ledger's are requests packed for batches and the events of their lives; files are counted as
they are when the sweep is complete, compacted.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from hab_ray.storage.parts import part_of
from hab_ray.storage.records import in_one, read_table, to_arrow

ROOT = Path(__file__).parent.parent
DIMENSION = "encourage_learning"
SUBJECTS, JUDGES = ("gpt-4.1-mini", "gpt-4.1"), ("gpt-6-luna",)
FLUSHED = 64


def rehearse(folder: Path, mode: str) -> None:
    sweep = {
        "name": mode,
        "mode": mode,
        "executor": "local",
        "dimensions": [DIMENSION],
        "tests": str(ROOT / "jobs/rehearsal-tests.parquet"),
        "subjects": [{"model": name, "name": name} for name in SUBJECTS],
        "judges": list(JUDGES),
    }
    (folder / "sweep.yaml").write_text(yaml.safe_dump(sweep))
    hab = str(Path(sys.executable).parent / "hab")
    command = [hab, "rehearse", "sweep.yaml", "--run", "run", "--store", "store", "--turnaround", "5"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(ended.stdout + ended.stderr)


def measure(folder: Path) -> None:
    store = folder / "store"
    parts, written = sorted((store / "replies").rglob("*.parquet")), sorted((store / "replies").rglob("*.arrow"))
    tables = [read_table(path.name, path.read_bytes()) for path in [*parts, *written]]
    calls = sum(table.num_rows for table in tables)
    answers = sum(pc.sum(pc.binary_length(table["text"])).as_py() for table in tables)
    print(f"  {calls:,} replies, {answers / calls:.0f} bytes of text each")
    show("a reply in memory (Arrow)", sum(table.nbytes for table in tables), calls)
    show(f"a reply as it is first written, {FLUSHED} a file", sum(map(as_written, tables)), calls)
    show("a reply in a part (Parquet)", len(part_of(in_one(tables))), calls)
    show("a key in a sidecar", size(sorted((store / "sidecars/replies").rglob("*"))), sum(map(rows_of, parts)))
    for view in ("responses", "verdicts"):
        files = sorted((folder / "run" / view).rglob("*.parquet"))
        show(f"a row of {view}", size(files), sum(map(rows_of, files)))
    for name, place in (("the ledger", store / "ledger"), ("the run folder", folder / "run")):
        files = [path for path in place.rglob("*") if path.is_file()]
        show(f"{name}, {len(files)} files, for a call", size(files), calls)
    every = [path for path in (folder / "store").rglob("*") if path.is_file()]
    by_place = Counter(path.relative_to(folder / "store").parts[0] for path in every)
    print("  files in the store: " + ", ".join(f"{place} {count}" for place, count in sorted(by_place.items())))


def as_written(table: pa.Table) -> int:
    return sum(len(to_arrow(table.slice(start, FLUSHED))) for start in range(0, table.num_rows, FLUSHED))


def rows_of(part: Path) -> int:
    return int(pq.read_metadata(part).num_rows)


def size(files: list[Path]) -> int:
    return sum(path.stat().st_size for path in files if path.is_file())


def show(what: str, total: int, count: int) -> None:
    print(f"  {what}: {f'{total / count:.0f} bytes' if count else 'none'}")


def main() -> None:
    for mode in ("online", "batch"):
        with tempfile.TemporaryDirectory() as name:
            print(mode, flush=True)
            rehearse(Path(name), mode)
            measure(Path(name))


if __name__ == "__main__":
    main()
