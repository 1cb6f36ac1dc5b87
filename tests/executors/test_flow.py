"""Calls that follow from durable rows: the same as settling finds once the source is complete."""

from dataclasses import replace

import pytest

from hab_ray.calls import Failure, Outcome
from hab_ray.engine.jobs import Job
from hab_ray.errors import EngineBroke, FailureKind
from hab_ray.executors.flow import DependentCalls
from hab_ray.executors.protocol import Dependent, Feed, Settle
from hab_ray.executors.settling import WorkerContext, settle_shard
from hab_ray.work import Shard
from tests.executors.conftest import put, reply
from tests.sweep.conftest import ONE

SOURCE, JUDGE = Shard("respond", "lab/a", ONE), Shard("judge", "lab/j", ONE, "lab/a")
FEED = Feed(0, SOURCE, (Dependent(1, JUDGE),))


def jobs_of(site: WorkerContext, shard: Shard, number: int, order: int) -> list[Job]:
    """The open calls that settling finds, with its view published."""
    found = settle_shard(site, Settle(order, number, shard), site.open_store())
    site.pending.publish(order, shard.file)
    return list(site.pending.jobs([found.spool])) if found.spool else []


def answered(jobs: list[Job]) -> list[tuple[Job, Outcome]]:
    return [(job, reply(job.call, f"answer {job.row_id}")) for job in jobs]


def test_what_flows_is_what_settling_finds(site: WorkerContext) -> None:
    durable = answered(jobs_of(site, SOURCE, 0, 1))
    flow = DependentCalls(site, "lane")
    flow.follow([FEED])
    spools = flow.handle(durable[:3]) + flow.handle(durable[3:])
    assert [(spool.stage, spool.provider, spool.model) for spool in spools] == [("judge", "lab", "lab/j")] * 2
    assert len({spool.file for spool in spools}) == 2
    flowed = list(site.pending.jobs(spools))
    put(site, "lab/a", [outcome for _, outcome in durable])
    jobs_of(site, SOURCE, 0, 2)
    found = jobs_of(site, JUDGE, 1, 3)
    assert [(job.shard, job.row_id, job.call.key) for job in flowed] == [
        (job.shard, job.row_id, job.call.key) for job in found
    ]


def test_a_row_that_says_nothing_gives_no_call(site: WorkerContext) -> None:
    jobs = jobs_of(site, SOURCE, 0, 1)
    failed = Failure(jobs[0].call.key, FailureKind.BAD_REQUEST, attempts=1, message="no")
    flow = DependentCalls(site, "lane")
    flow.follow([FEED])
    assert flow.handle([(jobs[0], failed)]) == []


def test_a_run_folder_that_has_gone_is_named(site: WorkerContext) -> None:
    durable = answered(jobs_of(site, SOURCE, 0, 1))
    site.work.run.remove()
    flow = DependentCalls(site, "lane")
    flow.follow([FEED])
    with pytest.raises(EngineBroke, match="moved, deleted or unmounted"):
        flow.handle(durable)


def test_rows_of_other_shards_and_asked_again_do_not_flow(site: WorkerContext) -> None:
    jobs = jobs_of(site, SOURCE, 0, 1)
    flow = DependentCalls(site, "lane")
    assert flow.handle(answered(jobs)) == []
    flow.follow([FEED])
    again = [Job(job.shard, job.row_id, job.call, task=None) for job in jobs]
    assert flow.handle(answered(again)) == []


def test_of_a_spool_only_the_shards_that_are_named_are_read(site: WorkerContext) -> None:
    durable = answered(jobs_of(site, SOURCE, 0, 1))
    flow = DependentCalls(site, "lane")
    other = Shard("judge", "lab/j", ONE, "lab/b")
    flow.follow([Feed(0, SOURCE, (Dependent(1, JUDGE), Dependent(2, other)))])
    (spool,) = flow.handle(durable)
    assert spool.calls == {1: len(durable), 2: len(durable)}
    assert {job.shard for job in site.pending.jobs([replace(spool, calls={2: len(durable)})])} == {2}
