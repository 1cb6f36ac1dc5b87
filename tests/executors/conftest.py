"""A run that can be settled: a small sweep, its store and its pending files."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from hab_ray.calls import Call, Finish, Outcome, Reply, Usage
from hab_ray.catalog.prices import Mode
from hab_ray.executors.pending import Pending
from hab_ray.executors.settling import WorkerContext
from hab_ray.rows import ChosenTest
from hab_ray.storage.folder import open_folder
from hab_ray.storage.replies.store import StoreWriter
from hab_ray.work import Work, given_tests
from tests.sweep.conftest import work_of

EPOCH = 3
NOW = datetime(2026, 11, 22, tzinfo=UTC)


def site_of(folder: Path) -> WorkerContext:
    """A run with the rubrics' seeds as tests, nothing answered."""
    site = begun(work_of(folder, store=folder / "store"))
    for dimension, tests in given_tests(site.work).items():
        site.work.run.write(ChosenTest, f"tests/{dimension}.parquet", tests)
    return site


def begun(work: Work, kind: type[WorkerContext] = WorkerContext) -> WorkerContext:
    """A run without a row."""
    return kind(work, work.sweep.store, 0, Pending(work.run_path, EPOCH))


@pytest.fixture
def site(tmp_path: Path) -> WorkerContext:
    return site_of(tmp_path)


def reply(call: Call, text: str = "I would weigh both sides with you.") -> Reply:
    """An answer to a call."""
    return Reply(call.key, Finish.OK, Usage(1, 0, 0, 1), 5, call.model.split("/")[-1], "", "", NOW, text)


def put(site: WorkerContext, model: str, outcomes: list[Outcome]) -> None:
    """Put outcomes into the store."""
    writer = StoreWriter(open_folder(site.store), EPOCH, f"test-{len(outcomes)}", Mode.ONLINE)
    for outcome in outcomes:
        writer.add(model, outcome)
    writer.flush()
