"""A driver without Ray, killed -9 before and after every kind of put and vendor call, and started again.

Every batch ends two polls before its results show.

`make bench` kills it on both sides of each, `make test` on one: of each call with every vendor, of each put with one.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.conftest import Vendors
from tests.forking import Forks
from tests.sampling import SAMPLE, dealt, some
from tests.sweep.crashing import DIMENSION, MODELS, TESTS, drive_apart, sweep_file

AT_ONCE = 4
LEAST_POINTS = 24
IN_BUCKET, FEW = "openai", 4


@pytest.mark.parametrize("vendor_name", MODELS)
def test_whatever_crashes_when_every_row_is_there_once_and_paid_once(
    vendor_name: str, vendor: Vendors, forks: Forks, tmp_path: Path
) -> None:
    _crash(vendor_name, vendor, forks, tmp_path, None, _dealt)


def test_whatever_crashes_when_a_store_in_a_bucket_has_every_row_once_and_paid_once(
    bucket: str, vendor: Vendors, forks: Forks, tmp_path: Path
) -> None:
    """`make bench` kills it before and after every put, `make test` at a few of these."""
    _crash(IN_BUCKET, vendor, forks, tmp_path, bucket, _few_puts)


def _dealt(points: Sequence[str], campaign: str) -> list[str]:
    return dealt(points, campaign, list(MODELS))


def _few_puts(points: Sequence[str], campaign: str) -> list[str]:
    return some((point for point in points if " put" in point), FEW, campaign)


def _crash(
    vendor_name: str,
    vendor: Vendors,
    forks: Forks,
    tmp_path: Path,
    bucket: str | None,
    chosen: Callable[[Sequence[str], str], list[str]],
) -> None:
    late = {"kind": "late_results", "polls": 2}
    sim = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 0.2}}, batch_faults=[late])
    whole = _folder(tmp_path, "whole")

    def sweep_in(folder: Path, word: str) -> Path:
        place = {"store": f"{bucket}/{folder.name}"} if bucket else {}
        return sweep_file(folder, vendor_name, sim.url, word, **place)

    assert drive_apart(forks, sweep_in(whole, "whole")) == 0, _log(whole)
    points = list(dict.fromkeys((whole / "sweep.points").read_text().split("\n")))
    assert len(points) >= LEAST_POINTS, points
    points = chosen(points, vendor_name)

    def crashed(point: str) -> str | None:
        folder = _folder(tmp_path, f"p{points.index(point)}")
        sweep = sweep_in(folder, point)
        died, ended = drive_apart(forks, sweep, point), drive_apart(forks, sweep)
        if died != -9 or ended != 0:
            return f"{point}: {died}, then {ended}: {_log(folder)}"
        return None if _rows(folder) == _rows(whole) else f"{point}: other rows"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        wrong = [problem for problem in pool.map(crashed, points) if problem]
    assert not wrong, "\n".join([SAMPLE, *wrong])
    assert sim.billed_once(2 * TESTS * (1 + len(points))) and sim.meter()["billed"] == 0


def _log(folder: Path) -> str:
    return (folder / "sweep.log").read_text()[-3000:]


def _folder(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    return folder


def _rows(folder: Path) -> list[tuple[str, str]]:
    """Every row of the two views by its file and test, where it is answered."""
    model = next((folder / "run/responses").iterdir()).name
    found = []
    for file in (f"responses/{model}/{DIMENSION}.parquet", f"verdicts/{model}/{model}/{DIMENSION}.parquet"):
        table = pq.read_table(folder / "run" / file)
        found += [(file, row["test_id"]) for row in table.to_pylist() if row["state"] == "ok"]
    return sorted(found)
