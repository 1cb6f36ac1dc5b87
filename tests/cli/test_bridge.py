"""Published answers judged again beside the published verdicts: import, plan, run and table, as the README says."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from hab_ray.results import open_run
from tests.conftest import Desk, Vendors
from tests.published_rows import write_published, write_wording

TESTS, SUBJECTS, RATED = 4, 3, 5
OLD, PLAIN = "published o3", "encourage_learning"
DIMENSIONS = ["correct_misinformation", PLAIN]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def bridge_desk(desk: Desk) -> Desk:
    """A desk with made rows in the published shape, imported."""
    write_published(desk.folder, TESTS, SUBJECTS, RATED, words=8)
    write_wording(desk.folder / "imported_rubrics")
    for command in (
        ("responses", "evaluations.parquet"),
        ("verdicts", "evaluations.parquet", "--value", "rater=o3"),
        ("ratings", "annotations.jsonl"),
    ):
        desk.says("import", *command)
    return desk


def sim_job(desk: Desk, url: str, job: str, **changes: Any) -> Path:
    """A job of the bridge as it ships, but in two dimensions and for its judges, which a simulator plays."""
    shipped = yaml.safe_load((ROOT / job).read_text())
    judges = ["sim/judge", {"model": "sim/other", "name": "other"}]
    without = {"subjects": None, "dimensions": DIMENSIONS}
    keys = {**shipped, **without, "judges": judges, "executor": "local", **changes}
    return desk.sweep(keys.pop("name"), url, **keys)


def test_the_bridges_are_planned_as_they_ship(bridge_desk: Desk) -> None:
    for job in ("jobs/judge-bridge.yaml", "jobs/judge-bridge-full.yaml"):
        plan = bridge_desk.hab("plan", job)
        assert "o3-2025-04-16 (published wording)" in plan.stdout and "ends on 2026-12-11" in plan.stdout, plan.stdout
        assert ("drawn by test, seed 0, only answers that people rated" in plan.stdout) == ("full" not in job)


def test_the_bridge_is_crossed_on_rows_in_the_published_shape(bridge_desk: Desk, vendor: Vendors) -> None:
    """The simulator finds no form of a verdict in imported wording: those are all unreadable, and counted."""
    sim = vendor()
    shipped = {"name": "published wording", "rubrics": "imported_rubrics"}
    how = {
        "responses": {"file": "responses.parquet", "sample": {"per_dimension": 3}, "only": "rated"},
        "variants": {"judges": [shipped, {"name": "reversed", "issues": "reversed"}]},
    }
    sweep = sim_job(bridge_desk, sim.url, "jobs/judge-bridge.yaml", **how)
    done = bridge_desk.says("run", sweep, "--yes", status=5)
    assert "(published wording) can be used" in done
    assert "other minus published o3: " in done
    run = open_run(bridge_desk.folder / "runs/judge-bridge")
    (literal,) = {
        row["rubric_sha256"] for row in run.verdicts("other (published wording)", dimension=PLAIN).to_pylist()
    }
    assert literal not in run.record.rubric_hashes.values()
    sources = run.record.sources
    assert sources is not None and sources["wording of other (published wording)"].source == "made"
    shifts = pq.read_table(bridge_desk.folder / "runs/judge-bridge/bridge/shifts.parquet").to_pylist()
    assert {(line["judge"], line["dimension"]) for line in shifts} == {
        (f"{judge}{variant}", dimension)
        for judge in ("sim/judge", "other")
        for variant in ("", " (published wording)", " (reversed)")
        for dimension in (*run.dimensions, "overall")
    }
    for line in shifts:
        if "published" in line["judge"]:
            assert line["answers"] == 0 and line["failed_now"] > 0 and line["difference"] is None
        else:
            assert line["answers"] > 0 == line["failed_now"] and line["difference"] is not None
    bridge_desk.says("export", "runs/judge-bridge", "--format", "csv", "--out", "out")
    assert (bridge_desk.folder / "out/bridge-shifts.csv").read_text().count("\n") == 1 + len(shifts)
    page = (bridge_desk.folder / "runs/judge-bridge/report/index.html").read_text()
    assert "Now minus published o3" in page and "Valid for these answers only" in page
    assert "0 calls sent" in bridge_desk.says("run", sweep, "--yes", status=5)
    wider = sim_job(bridge_desk, sim.url, "jobs/judge-bridge-full.yaml", variants=None)
    sent = sim.received("judge")
    bridge_desk.says("run", wider, "--yes")
    answers = open_run(bridge_desk.folder / "runs/judge-bridge-full").responses(columns=["state"])["state"].to_pylist()
    earlier = run.responses(columns=["state"])["state"].to_pylist()
    assert sim.received("judge") - sent == answers.count("ok") - earlier.count("ok")


def test_the_bridge_is_rehearsed_and_looked_at_before_it_is_paid(bridge_desk: Desk, vendor: Vendors) -> None:
    sim = vendor()
    given = {"responses": {"file": "responses.parquet", "sample": {"per_dimension": 2}, "only": "rated"}}
    sweep = sim_job(bridge_desk, sim.url, "jobs/judge-bridge.yaml", **given)
    done = bridge_desk.says("rehearse", sweep)
    assert f"{len(DIMENSIONS)} dimensions, {SUBJECTS} subjects, " in done
    cells = SUBJECTS * len(DIMENSIONS) * (2 + 1)
    assert f"{cells} of {cells} scores by dimension" in done and "the bills agree" in done
    assert "shifts, kappas and maps of judges now and then: all as planted" in done
    assert sim.received("judge") == 0
    seen = bridge_desk.hab("doctor", sweep, "--live", "--yes", "--out", "seen.jsonl")
    assert "makes 4 calls" in seen.stdout and "no difference" in seen.stdout, seen.stdout
    assert sim.received("judge") == 3  # one in each wording, and a malformed one
