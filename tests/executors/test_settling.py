"""Settling a shard and computing one: what is written, spooled and counted."""

from dataclasses import replace
from importlib import import_module

import pytest

from hab_ray.errors import ConfigError
from hab_ray.executors.protocol import Settle, ShardSettled, Spool
from hab_ray.executors.settling import WorkerContext, settle_shard
from hab_ray.rows import Response
from hab_ray.stages import wiring
from hab_ray.stages.method.respond import RespondStage
from hab_ray.work import Shard, call_stage
from tests.distributions import Distributions
from tests.executors.conftest import put, reply
from tests.sweep.conftest import ONE

SHARD = Shard("respond", "lab/a", ONE)


def settled(site: WorkerContext, order: int = 1, skip: frozenset[str] = frozenset()) -> ShardSettled:
    return settle_shard(site, Settle(order, 7, SHARD, skip), site.open_store())


def spooled(site: WorkerContext) -> Spool:
    spool = settled(site).spool
    assert spool is not None
    return spool


def test_open_calls_are_spooled_and_come_back_as_they_were(site: WorkerContext) -> None:
    found = settled(site)
    expected = list(call_stage(site.work, SHARD).requests(site.work.tasks(SHARD)))
    assert found.spool and (found.total, found.rows, found.open) == (len(expected), 0, len(expected))
    assert found.first_asks == len(expected)
    jobs = list(site.pending.jobs([found.spool]))
    assert [(job.shard, job.row_id, job.call) for job in jobs] == [(7, row_id, call) for row_id, call in expected]
    assert site.pending.keys(found.spool) == [call.key for _, call in expected]
    assert site.pending.row_ids(found.spool) == [row_id for row_id, _ in expected]


def test_a_worker_writes_beside_the_view_and_the_driver_publishes_it(site: WorkerContext) -> None:
    first = next(site.pending.jobs([spooled(site)]))
    put(site, "lab/a", [reply(first.call)])
    found = settled(site, order=2)
    assert (found.rows, found.view) == (1, True) and site.work.run.count(SHARD.file) is None
    site.pending.publish(2, SHARD.file)
    assert [row.test_id for row in site.work.run.read(Response, SHARD.file)] == [first.row_id.partition("#")[0]]


def test_rows_that_the_run_gave_up_are_counted_and_not_spooled(site: WorkerContext) -> None:
    everything = settled(site)
    assert everything.spool
    skip = frozenset(site.pending.row_ids(everything.spool)[:2])
    found = settled(site, 2, skip)
    assert (found.given_up, found.open) == (2, everything.open - 2)
    assert settled(site, 3, frozenset(site.pending.row_ids(everything.spool))).spool is None


def test_a_complete_view_is_believed_unless_failures_are_retried(site: WorkerContext) -> None:
    jobs = list(site.pending.jobs([spooled(site)]))
    put(site, "lab/a", [reply(job.call) for job in jobs])
    assert not settled(site, 2).is_done
    site.pending.publish(2, SHARD.file)
    assert settled(site, 3).is_done
    assert not settled(replace(site, failures_since=9), 4).is_done


def test_rows_of_another_type_are_blamed_on_the_package_that_adds_their_stage(
    site: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = next(site.pending.jobs([spooled(site)]))
    put(site, "lab/a", [reply(first.call)])
    monkeypatch.setattr(RespondStage, "parse", lambda *_: {"text": "Yes."})
    with pytest.raises(TypeError, match="a row is a dict, not a Response"):
        settled(site, 2)
    monkeypatch.setattr(wiring, "packages", lambda: {"respond": "acme-rows 0.3"})
    with pytest.raises(ConfigError, match=r"acme-rows 0\.3 is broken: RespondStage\.parse has to return .*, not dict"):
        settled(site, 3)


def test_a_stage_that_ends_the_process_is_an_error_of_its_package(
    site: WorkerContext, distributions: Distributions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would end one thread, and the driver would wait for its rows forever."""
    code = "import sys\n\ndef parse(*_):\n    sys.exit('no word list')\n"
    distributions.install_modules("acme-hab", "0.3", {"acme_end": code}, {"hab_ray.formats": {"end": "acme_end:parse"}})
    put(site, "lab/a", [reply(next(site.pending.jobs([spooled(site)])).call)])
    monkeypatch.setattr(RespondStage, "parse", import_module("acme_end").parse)
    with pytest.raises(ConfigError, match=r"acme-hab 0\.3 \(acme_end\.py, line 4\) ended the process .*no word list"):
        settled(site, 2)


def test_files_of_dead_epochs_are_removed_by_the_holder(site: WorkerContext) -> None:
    settled(site)
    other = replace(site, pending=replace(site.pending, epoch=4))
    settled(other)
    site.pending.discard(1)
    assert [name.split("/")[1] for name in site.work.run.folder.list("pending")] == ["000004"] * 2
    other.pending.discard_all()
    assert not (site.work.run_path.path / "pending").exists()
