"""Permanently failed rows: each is listed, also of a stage without a view, with what a retry can do about it."""

from dataclasses import replace
from pathlib import Path

from hab_ray.catalog.prices import Mode
from hab_ray.progress import FailedRows
from hab_ray.rows import Response, Validation
from hab_ray.storage.replies.store import StoreWriter
from hab_ray.sweep.monitoring.reporting import failure_report
from hab_ray.work import Work, call_stage
from tests.instant import DIMENSIONS, MADE, Failing, Run, work_of

MAKING = ("generate", "validate", "select")
RETRIED = "Once the cause is fixed, the same command with --retry-failed sends them again"


def failing(folder: Path) -> Failing:
    """A run with one failed call in each shard that makes its tests, before they are chosen."""
    run = Failing(work_of(folder, **MADE, subjects=["house/a"]))
    for stage in MAKING:
        run.all(stage)
    return run


def of_stage(work: Work, stage: str) -> FailedRows:
    (found,) = [failed for failed in failure_report(work).failed if failed.stage == stage]
    return found


def test_failed_embeddings_are_listed_although_they_have_no_view(tmp_path: Path) -> None:
    work = failing(tmp_path).work
    report = failure_report(work)
    first = [min(row.candidate_id for row in scored(work, dimension)) for dimension in DIMENSIONS]
    listed = [row for row in report.rows if row.file.startswith("tests/")]
    assert [(row.file, row.row_id) for row in listed] == [
        (f"tests/{dimension}.parquet", id) for dimension, id in zip(DIMENSIONS, first, strict=True)
    ]
    assert {row.reason for row in listed} == {"bad_request: content filter"}
    found = of_stage(work, "select")
    assert (found.name, found.count, found.final) == ("house/vectors", 2, 0) and str(found).endswith(RETRIED)
    assert report.without_ok == ()


def scored(work: Work, dimension: str) -> list[Validation]:
    rows = work.run.read(Validation, f"validations/{dimension}.parquet")
    return [row for row in rows if row.score is not None]


def test_an_embedding_that_a_retry_has_brought_is_no_failure_any_more(tmp_path: Path) -> None:
    run = failing(tmp_path)
    answered = Run(run.work)
    answered.writer = StoreWriter(answered.folder, 2, "retry", Mode.ONLINE)
    for shard in run.work.shards():
        if shard.stage == "select":
            for _, call in call_stage(run.work, shard).requests(run.work.tasks(shard)):
                answered.answer(shard, call)
    answered.writer.flush()
    assert "select" not in {failed.stage for failed in failure_report(run.work).failed}


def test_no_retry_is_promised_for_rows_that_tests_are_chosen_without(tmp_path: Path) -> None:
    run = failing(tmp_path)
    choosing = [shard for shard in run.work.shards() if shard.stage == "choose"]
    run.take(choosing[0])
    for stage in MAKING:
        found = of_stage(run.work, stage)
        assert 0 < found.final < found.count
        assert str(found).endswith(f"{RETRIED}, but for {found.final} that tests are chosen without")
    run.take(choosing[1])
    for stage in MAKING:
        found = of_stage(run.work, stage)
        assert found.final == found.count and "--retry-failed" not in str(found)
    run.all("respond")
    assert str(of_stage(run.work, "respond")).endswith(RETRIED)


def test_rows_that_only_another_model_answered_name_it_and_what_to_set(tmp_path: Path) -> None:
    house = {"kind": "openai", "url": "http://localhost:1/v1", "price": {"input": 1}, "models": {"a": {"reports": []}}}
    run = Run(work_of(tmp_path, providers={"house": house}, subjects=["house/a"]))
    run.all("respond")
    first, *_ = failure_report(run.work).without_ok
    assert "(24 substituted): answered by another-model, asked a; " in first
    assert "`reports`" in first and "`accept_substitutes: true`" in first
    for part in run.work.run.folder.list("responses"):
        unnamed = [replace(row, reason="answered by , asked a") for row in run.work.run.read(Response, part)]
        run.work.run.write(Response, part, unnamed)
    first, *_ = failure_report(run.work).without_ok
    assert "the replies name no model" in first and "`reports`" not in first
