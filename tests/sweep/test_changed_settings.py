"""Settings that change between two starts of a run: which views are derived again, and which calls that opens."""

import shutil
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq
import pytest

from hab_ray.calls import Call, Outcome
from hab_ray.catalog.models import Model
from hab_ray.cli.opening import load_run, progress_from_files
from hab_ray.executors.pending import Pending
from hab_ray.executors.protocol import Settle
from hab_ray.executors.settling import WorkerContext, settle_shard
from hab_ray.planning import make_plan
from hab_ray.resolve import write_record
from hab_ray.rows import Response, State, Verdict
from hab_ray.storage.record import read_record
from hab_ray.storage.replies.store import Store
from hab_ray.sweep.reread import reread_verdicts
from hab_ray.work import Work, is_complete
from tests.conftest import Vendors
from tests.forking import Forks
from tests.instant import DIMENSIONS, MADE, NOW, Failing, Run, open_calls, work_of
from tests.sweep.crashing import DIMENSION, TESTS, changed, drive_apart, sweep_file

Answers = TypeVar("Answers", Response, Verdict)
STRANGE = {"kind": "openai", "url": "http://localhost:1/v1", "models": {"a": {"reports": ["a-2026"]}}}
ONE: dict[str, Any] = {
    "dimensions": DIMENSIONS[:1],
    "providers": {"house": {**STRANGE, "price": {"input": 1}}},
    "subjects": ["house/b"],
    "judges": ["house/j"],
}
KNOWN = {**ONE["providers"]["house"], "models": {"a": {"reports": ["a-2026", "another-model"]}}}


def given(folder: Path, count: int) -> str:
    file = folder / "tests.csv"
    file.write_text("dimension,id,prompt\n" + "".join(f"{DIMENSIONS[0]},t{n:02},Why {n}?\n" for n in range(count)))
    return str(file)


def begun(folder: Path, **changes: Any) -> Run:
    """A run that is started with these settings, whether it is new or not."""
    run = Run(work_of(folder, **{**ONE, **changes}))
    write_record(run.work, NOW)
    return run


def answer(run: Run, work: Work, stage: str) -> None:
    """Answer the open calls of a stage of a run that has begun again with other settings."""
    run.work = work
    run.all(stage)


def settled(
    work: Work, stages: Collection[str] = ("respond", "judge"), failures_since: int = 0
) -> dict[str, tuple[int, int]]:
    """Settle the shards of some stages as the driver does; by stage, their rows and open calls."""
    site = WorkerContext(work, work.sweep.store, failures_since, Pending(work.run_path, 1))
    there: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for number, shard in enumerate(work.shards()):
        if shard.stage in stages:
            found = settle_shard(site, Settle(number, number, shard, frozenset()), site.open_store())
            there[shard.stage] += found.rows
            left[shard.stage] += found.open
            if found.view:
                site.pending.publish(number, shard.file)
    return {stage: (there[stage], left[stage]) for stage in there}


def derived(work: Work) -> list[str]:
    """The views that the next start would derive again."""
    return [s.file for s in work.shards() if s.spec.makes_calls and not is_complete(work, s, len(work.tasks(s)))]


def rows(work: Work, kind: type[Answers]) -> list[Answers]:
    """The rows of a run's views of one kind."""
    return [row for shard in work.shards() if shard.spec.row is kind for row in work.run.read(kind, shard.file)]


def states(work: Work) -> Counter[State]:
    found = Counter(row.state for row in rows(work, Response))
    found.update(row.state for row in rows(work, Verdict))
    return found


def planned(work: Work) -> dict[str, int]:
    calls: Counter[str] = Counter()
    for (stage, *_), count in open_calls(Run(work).plan()).items():
        calls[stage] += count
    return dict(calls)


def shown(work: Work) -> dict[str, tuple[int, int]]:
    """By stage, the rows that `hab status` counts from the files, and of how many."""
    done: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for line in progress_from_files(load_run(work.run_path), None).stages:
        done[line.stage] = done[line.stage][0] + line.done, done[line.stage][1] + line.total
    return dict(done)


def without_digests(work: Work) -> None:
    """Have the run's views be as earlier versions wrote them."""
    for shard in work.shards():
        file = work.run_path.path / shard.file
        table = pq.read_table(file)
        assert table.schema.metadata
        pq.write_table(table.replace_schema_metadata(None), file)


@pytest.fixture(params=["with digests", "of an earlier version"])
def finished(request: pytest.FixtureRequest) -> Any:
    """Has a run answer every call; its views are of this version, or of one that wrote no digests into them."""

    def finish(run: Run) -> None:
        run.all()
        if request.param != "with digests":
            without_digests(run.work)

    return finish


def test_a_run_without_changes_derives_no_complete_view(tmp_path: Path, finished: Any) -> None:
    finished(begun(tmp_path, samples=2))
    before = (tmp_path / "run/sweep.yaml").read_text()
    work = begun(tmp_path, samples=2).work
    assert derived(work) == [] and (tmp_path / "run/sweep.yaml").read_text() == before
    more = begun(tmp_path, samples=2, subjects=["house/b", "house/c"]).work
    assert derived(more) and all("house-c" in file for file in derived(more))
    record = read_record(work.run_path)
    assert record and not record.undigested


def test_answers_of_substitutes_are_judged_once_they_are_accepted(tmp_path: Path, finished: Any) -> None:
    run = begun(tmp_path, subjects=["house/a"])
    finished(run)
    count = sum(states(run.work).values())
    assert states(run.work) == {State.SUBSTITUTED: count}
    accepting = work_of(tmp_path, **{**ONE, "subjects": ["house/a"]}, accept_substitutes=True)
    assert planned(accepting) == {"judge": count}
    write_record(accepting, NOW)  # and the process is killed
    again = begun(tmp_path, subjects=["house/a"], accept_substitutes=True).work
    assert planned(again) == {"judge": count} and shown(again) == {"respond": (count, count), "judge": (0, count)}
    assert settled(again) == {"respond": (count, 0), "judge": (0, count)}
    assert states(again) == {State.OK: count}
    assert settled(again, ["respond"]) == {"respond": (count, 0)} and derived(again) == [
        shard.file for shard in again.shards() if shard.stage == "judge"
    ]


@pytest.mark.parametrize("accepts", [False, True])
def test_engines_take_other_models_answers_only_if_the_sweep_accepts_them(tmp_path: Path, accepts: bool) -> None:
    work = work_of(tmp_path, **{**ONE, "subjects": ["house/a"]}, accept_substitutes=accepts)
    assert Model("house/a", work.models_of("house")["house/a"]).is_itself("another-model") == accepts


def test_answers_of_substitutes_and_their_verdicts_leave_once_they_are_refused(tmp_path: Path, finished: Any) -> None:
    changes = {"subjects": ["house/a"], "accept_substitutes": True}
    run = begun(tmp_path, **changes)
    finished(run)
    count = states(run.work)[State.OK] // 2
    refusing = begun(tmp_path, subjects=["house/a"]).work
    assert planned(refusing) == {} and shown(refusing) == {"respond": (count, count), "judge": (0, 0)}
    assert settled(refusing, ["respond"]) == {"respond": (count, 0)}  # and the process is killed
    assert settled(begun(tmp_path, **changes).work) == {"respond": (count, 0), "judge": (count, 0)}
    assert settled(begun(tmp_path, subjects=["house/a"]).work) == {"respond": (count, 0), "judge": (0, 0)}
    assert states(refusing) == {State.SUBSTITUTED: count} and derived(refusing) == []


def test_other_names_that_a_model_may_report_count_for_its_stored_answers(tmp_path: Path, finished: Any) -> None:
    run = begun(tmp_path, subjects=["house/a", "house/b"])
    finished(run)
    count = states(run.work)[State.SUBSTITUTED]
    changes = {"subjects": ["house/a", "house/b"], "providers": {"house": KNOWN}}
    write_record(work_of(tmp_path, **{**ONE, **changes}), NOW)  # and the process is killed
    again = begun(tmp_path, **changes).work
    assert planned(again) == {"judge": count} and not any("house-b" in file for file in derived(again))
    assert settled(again) == {"respond": (2 * count, 0), "judge": (count, count)}
    assert State.SUBSTITUTED not in states(again)


class Renamed(Run):
    """A run in which the vendor names the model otherwise in every second reply."""

    def reported(self) -> str:
        return ("first", "second")[sum(self.made.values()) % 2]


def test_a_judge_reads_other_answers_although_as_many_count_as_before(tmp_path: Path) -> None:
    def reporting(name: str) -> Work:
        house = {**STRANGE, "price": {"input": 1}, "models": {"a": {"reports": [name]}}}
        changes = {"providers": {"house": house}, "subjects": ["house/a"], "tests": given(tmp_path, 4)}
        return work_of(tmp_path, **{**ONE, **changes})

    run = Renamed(reporting("first"))
    run.all()
    write_record(run.work, NOW)
    work = reporting("second")
    assert planned(work) == {"judge": 2}
    write_record(work, NOW)  # and the process is killed
    work = reporting("second")
    assert settled(work) == {"respond": (4, 0), "judge": (0, 2)}


def test_sentinels_that_are_fewer_are_read_again_after_another_pause(tmp_path: Path) -> None:
    run = begun(tmp_path, tests=given(tmp_path, 10), sentinels=4)
    run.all()
    fewer = work_of(tmp_path, **ONE, tests=given(tmp_path, 10), sentinels=2)
    fewer = replace(fewer, pauses=(NOW + timedelta(days=7),))
    assert settled(fewer, ["rejudge"]) == {"rejudge": (2, 2)}


@pytest.mark.parametrize("fewer", ["samples", "replicates"])
def test_more_tests_are_asked_where_samples_or_replicates_are_fewer(tmp_path: Path, finished: Any, fewer: str) -> None:
    run = begun(tmp_path, tests=given(tmp_path, 10), **{fewer: 2})
    finished(run)
    write_record(work_of(tmp_path, **ONE, tests=given(tmp_path, 20)), NOW)  # and the process is killed
    work = begun(tmp_path, tests=given(tmp_path, 20)).work
    assert planned(work) == {"respond": 10, "judge": 10}
    assert shown(work) == {"respond": (10, 20), "judge": (10, 10)}
    assert settled(work) == {"respond": (10, 10), "judge": (10, 0)}
    answer(run, work, "respond")
    assert settled(work) == {"respond": (20, 0), "judge": (10, 10)}
    answer(run, work, "judge")
    assert len({row.test_id for row in rows(work, Verdict)}) == 20
    assert derived(work) == [] and planned(work) == {}


def test_more_tests_are_asked_after_a_start_with_fewer_samples_that_ended_early(tmp_path: Path, finished: Any) -> None:
    finished(begun(tmp_path, tests=given(tmp_path, 10), samples=2))
    begun(tmp_path, tests=given(tmp_path, 10))  # ends before a view is derived
    work = begun(tmp_path, tests=given(tmp_path, 20)).work
    assert planned(work) == {"respond": 10, "judge": 10}
    assert settled(work) == {"respond": (10, 10), "judge": (10, 0)}


def test_a_subject_that_was_left_out_while_settings_changed_is_derived_again(tmp_path: Path, finished: Any) -> None:
    run = begun(tmp_path, subjects=["house/a", "house/b"])
    finished(run)
    count = states(run.work)[State.SUBSTITUTED]
    begun(tmp_path, accept_substitutes=True)
    work = begun(tmp_path, subjects=["house/a", "house/b"], accept_substitutes=True).work
    assert planned(work) == {"judge": count}
    assert settled(work) == {"respond": (2 * count, 0), "judge": (count, count)}


def test_nothing_is_paid_for_candidates_once_the_tests_are_chosen(tmp_path: Path) -> None:
    models = {"writer": {"reports": ["writer-2026"]}, "vectors": {"purpose": "embedding"}}
    house = {**STRANGE, "price": {"input": 1, "output": 4}, "models": models}
    changes = {**MADE, "providers": {"house": house}, "accept_substitutes": True}
    begun(tmp_path, **changes).all()
    before = open_views(tmp_path)
    work = begun(tmp_path, **{**changes, "accept_substitutes": False}).work
    assert planned(work) == {}
    settled(work, ("generate", "validate"))
    assert open_views(tmp_path) == before


def test_failed_candidates_are_not_asked_again_once_the_tests_are_chosen(tmp_path: Path) -> None:
    run = Failing(begun(tmp_path, **MADE).work)
    run.all()
    before = open_views(tmp_path)
    plan = make_plan(run.work, failures_since=2)
    assert {line.stage for line in plan.lines if line.figures.to_pay} == {"respond", "judge"}
    found = settled(run.work, ("generate", "validate", "select", "respond"), failures_since=2)
    assert {s: left for s, (_, left) in found.items()} == {"generate": 0, "validate": 0, "select": 0, "respond": 1}
    assert open_views(tmp_path) == before


def open_views(folder: Path) -> list[bytes]:
    return [file.read_bytes() for kind in ("candidates", "validations") for file in folder.glob(f"run/{kind}/*")]


def test_views_that_will_be_derived_again_are_not_read_again_by_another_version_before(tmp_path: Path) -> None:
    run = begun(tmp_path, tests=given(tmp_path, 10), samples=2)
    run.all()
    work = work_of(tmp_path, **ONE, tests=given(tmp_path, 20))
    reread_verdicts(work, lambda text: None)
    write_record(work, NOW)
    settled(work, ["respond"])
    answer(run, work, "respond")
    assert settled(work) == {"respond": (20, 0), "judge": (10, 10)}
    assert len({row.test_id for row in rows(work, Verdict)}) == len(rows(work, Verdict)) == 10


def test_verdicts_whose_replies_are_lost_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begun(tmp_path, tests=given(tmp_path, 10))
    run.all()
    before = rows(run.work, Verdict)
    gone = {verdict.reply_key for verdict in before[2:5]}

    class Losing(Store):
        def outcomes(self, model: str, calls: Iterable[Call]) -> dict[str, Outcome]:
            found = super().outcomes(model, calls)
            return {key: outcome for key, outcome in found.items() if key not in gone}

    monkeypatch.setattr("hab_ray.sweep.reread.Store", Losing)
    reread_verdicts(run.work, lambda text: None)
    assert len(before) == 10 and rows(run.work, Verdict) == before
    shutil.rmtree(tmp_path / "store/replies")
    reread_verdicts(run.work, lambda text: None)
    assert rows(run.work, Verdict) == before


@pytest.mark.parametrize("point", ["after put sweep.yaml", "after move responses", "before move verdicts"])
def test_killed_after_a_change_it_asks_the_rest(point: str, vendor: Vendors, forks: Forks, tmp_path: Path) -> None:
    sim = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 0.1}})
    sweep = changed(sweep_file(tmp_path, "openai", sim.url, "one"), samples=2)
    file, folder = tmp_path / "tests.jsonl", tmp_path / "run"
    assert drive_apart(forks, sweep) == 0
    billed = sim.meter()["batch"]["lines_billed"]
    points = sweep.with_suffix(".points").read_text().split("\n")
    more = file.read_text().replace("one:", "another:").replace('"id": "t', '"id": "u')
    file.write_text(file.read_text() + more)
    at = next(each for each in points if each.startswith(point.replace("put", "put_new")))
    assert drive_apart(forks, changed(sweep, samples=1), at.replace("put_new", "put")) == -9
    assert drive_apart(forks, sweep) == 0
    assert sim.meter()["batch"]["lines_billed"] == billed + 2 * TESTS
    for view in (*folder.glob(f"responses/*/{DIMENSION}.parquet"), *folder.glob(f"verdicts/*/*/{DIMENSION}.parquet")):
        assert pq.read_table(view, columns=["test_id"]).column(0).to_pylist() == [
            *(f"t{n}" for n in range(TESTS)),
            *(f"u{n}" for n in range(TESTS)),
        ]
