"""The log of a run says each thing once, whenever it is asked."""

import logging
from dataclasses import replace

import pytest

from hab_ray.progress import Progress
from hab_ray.sweep.monitoring.log import LOG, RunLog
from tests.sweep.conftest import MakeBench


def test_a_note_that_comes_after_a_stop_is_logged(bench: MakeBench, caplog: pytest.LogCaptureFixture) -> None:
    log, before = RunLog("run", bench().shards), Progress("", 0.0, (), 0, 0, 0, notes=("early", "lab stopped"))
    with caplog.at_level(logging.INFO, logger=LOG.name):
        every = (before.notes, ("early", "late", "lab stopped"), ("early", "late", "lab stopped"))
        entries = [entry for notes in every for entry in log.entries(replace(before, notes=notes))]
    assert [one.getMessage() for one in entries if one.levelno == logging.WARNING] == ["early", "lab stopped", "late"]
