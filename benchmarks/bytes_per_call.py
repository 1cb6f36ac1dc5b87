"""What a call leaves behind: bytes in the store, in the run folder and in files, online and by batch.

    python benchmarks/bytes_per_call.py              500 tests, 4 subjects, 2 judges: 6,000 calls each way, rehearsed

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

from hab_ray.storage.records import to_arrow

ROOT = Path(__file__).parent.parent
DIMENSION = "encourage_learning"
SUBJECTS, JUDGES = (
    ("gpt-4.1-mini", "gpt-4.1", "claude-haiku-5-5", "gemini-3.8-flash"),
    (
        "claude-sonnet-5-5",
        "gpt-6-luna",
    ),
)
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
    parts = sorted((folder / "store/replies").rglob("*.parquet"))
    sidecars = sorted((folder / "store/sidecars/replies").rglob("*"))
    tables = [pq.read_table(path) for path in parts]
    calls = sum(table.num_rows for table in tables)
    answers = sum(pc.sum(pc.binary_length(table["text"])).as_py() for table in tables)
    wal = sum(len(to_arrow(slice_)) for table in tables for slice_ in slices(table))
    print(f"  {calls:,} replies, {answers / calls:.0f} bytes of text each")
    show("a reply in a part (Parquet)", size(parts), calls)
    show(f"a reply as it is first written ({FLUSHED} a file)", wal, calls)
    show("a key in a sidecar", size(sidecars), calls)
    for view in ("responses", "verdicts"):
        files = sorted((folder / "run" / view).rglob("*.parquet"))
        show(f"a row of {view}", size(files), sum(pq.read_metadata(path).num_rows for path in files))
    for kind in ("ledger", "run"):
        files = [
            path for path in (folder / ("store/ledger" if kind == "ledger" else "run")).rglob("*") if path.is_file()
        ]
        show(f"{kind}, {len(files)} files, a call", size(files), calls)
    every = [path for path in (folder / "store").rglob("*") if path.is_file()]
    by_place = Counter(path.relative_to(folder / "store").parts[0] for path in every)
    print("  files in the store: " + ", ".join(f"{place} {count}" for place, count in sorted(by_place.items())))


def slices(table: pa.Table) -> list[pa.Table]:
    return [table.slice(start, FLUSHED) for start in range(0, table.num_rows, FLUSHED)]


def size(files: list[Path]) -> int:
    return sum(path.stat().st_size for path in files if path.is_file())


def show(what: str, total: int, count: int) -> None:
    print(f"  {what}: {total / max(1, count):.0f} bytes")


def main() -> None:
    for mode in ("online", "batch"):
        with tempfile.TemporaryDirectory() as name:
            print(mode, flush=True)
            rehearse(Path(name), mode)
            measure(Path(name))


if __name__ == "__main__":
    main()
