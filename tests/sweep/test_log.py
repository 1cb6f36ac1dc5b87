"""The log of a run says each thing once, whenever it is asked."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from hab_ray.progress import Progress
from hab_ray.sweep.log import LOG, RunLog
from tests.sweep.conftest import MakeBench


def test_a_note_that_comes_after_a_stop_is_logged(bench: MakeBench, caplog: pytest.LogCaptureFixture) -> None:
    log, before = RunLog("run", bench().shards), Progress("", 0.0, (), 0, 0, 0, notes=("early", "lab stopped"))
    with caplog.at_level(logging.INFO, logger=LOG.name):
        for notes in (before.notes, ("early", "late", "lab stopped"), ("early", "late", "lab stopped")):
            log.report(replace(before, notes=notes))
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert told == ["early", "lab stopped", "late"]
