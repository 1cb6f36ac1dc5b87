"""Drives one run from its lease to its end: signals, books, the reconcile loop, the drain, the last views."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial

from hab_ray.catalog.prices import NANO
from hab_ray.errors import Exit, Interrupted, LeaseStale, exit_of
from hab_ray.executors.cells import CELLS
from hab_ray.given.sample import sample_told
from hab_ray.progress import RunEnd
from hab_ray.rows import ChosenTest, Response
from hab_ray.stages.views import responses_file, tests_file
from hab_ray.stopping import LATE_S
from hab_ray.storage.lease.watches import STALE_CHECK_S, wait_until_held
from hab_ray.storage.record import read_record
from hab_ray.sweep.assembly import RunComponents, build_run
from hab_ray.sweep.declaring import declare
from hab_ray.sweep.ending import end_services
from hab_ray.sweep.options import Options
from hab_ray.sweep.raters import place_raters
from hab_ray.sweep.session import Session
from hab_ray.work import given_rows

LOST_KNOWN_WITHIN_S = 5.0


def drive(session: Session, options: Options) -> RunEnd:
    """Run a sweep as far as it goes.

    Raises:
        HabError: the run cannot go on (lease lost, a key missing, a damaged file, a process of Ray that died); what
            was in flight is in the store.
    """
    with ExitStack() as stack:
        return _Run(session, options, build_run(session, options, stack)).run()


class _Run:
    def __init__(self, session: Session, options: Options, parts: RunComponents) -> None:
        self._session, self._options, self._parts = session, options, parts
        self._work, self._lease, self._stop = session.work, session.lease, session.stop

    def run(self) -> RunEnd:
        """Reconcile, then end: on the first signal after the drain, without compaction and settling."""
        stop, parts = self._stop, self._parts
        write_off = partial(parts.budget.write_off, parts.counters)
        with stop.last_words(write_off), stop.deferred(self._send_nothing_more, self._options.drain_s + LATE_S):
            try:
                parts.pending.discard_all()
                self._place_what_is_given()
                if note := declare(self._work, parts.store, datetime.now(UTC)):  # nothing has been asked yet
                    parts.counters.notes.append(note)
                self._open_books()
                parts.reporter.report()
                parts.batches.take_up()
                parts.driver.reconcile(self._options.detach)
            except (Interrupted, KeyboardInterrupt):
                self._drain()
                return parts.reporter.end(Exit.INTERRUPTED)
            except Exception as error:
                self._drain()
                parts.reporter.report_last(exit_of(error))
                self._must_not_be_lost()
                raise
            self._drain()
        if stop.requested:
            return parts.reporter.end(Exit.INTERRUPTED)
        try:
            self._must_hold()
            parts.driver.settle_rest(parts.local)
            parts.pending.discard_all()
            self._must_hold()
            parts.counters.notes += place_raters(self._work, self._options.people)
            self._compact()
            if parts.reporter.exit() is Exit.COMPLETE:
                self._work.run.folder.clear(CELLS)
            return parts.reporter.end(parts.reporter.exit())
        except KeyboardInterrupt:
            return parts.reporter.end(Exit.INTERRUPTED)
        except Exception as error:
            parts.reporter.report_last(exit_of(error))
            raise

    def _must_hold(self) -> None:
        """Check that views and parts of the store are still this process's to replace."""
        wait_until_held(self._lease.watch().check)

    def _must_not_be_lost(self) -> None:
        """After an error: a driver that was stopped for long finds much broken, and only the lost lease is the cause.

        Raises:
            LeaseLost: another driver has the store.
        """
        give_up, watch = time.monotonic() + LOST_KNOWN_WITHIN_S, self._lease.watch()
        while time.monotonic() < give_up:
            with suppress(LeaseStale):
                return watch.check()
            time.sleep(STALE_CHECK_S)

    def _place_what_is_given(self) -> None:
        """Put the sweep's own tests and responses where stages read them. A run that has some keeps them.

        Ratings are joined to the answers that are there, and once more to all of them at the end.
        """
        run, given = self._work.run, given_rows(self._work)
        for dimension, tests in given.tests.items():
            if run.count(tests_file(dimension)) is None:
                run.write(ChosenTest, tests_file(dimension), tests)
        for (subject, dimension), rows in given.responses.items():
            if run.count(responses_file(subject, dimension)) is None:
                run.write(Response, responses_file(subject, dimension), rows)
        place_raters(self._work, self._options.people)
        self._work.given.forget()
        record = read_record(self._work.run_path)
        if told := sample_told(self._work.sweep.responses, record.drawn if record else {}):
            self._parts.counters.notes.append(told)

    def _open_books(self) -> None:
        """Learn what the run has spent, and say what of it may be released."""
        parts = self._parts
        stranded = parts.budget.open_books(self._session.earlier, self._session.released_up_to, self._work.models)
        if stranded:
            parts.counters.notes.append(
                f"${stranded / NANO:.4f} of what counts as spent was granted before an unclean end and "
                f"is not accounted for; if the vendors' bills show that it was not spent: `hab budget release "
                f"{self._work.run_path}`"
            )

    def _send_nothing_more(self) -> None:
        """Have no executor begin a further request. For any thread."""
        for service in self._parts.services:
            service.stop(self._options.drain_s)

    def _drain(self) -> None:
        """Wait for what is in flight, as long as the drain allows, and keep it; write off what does not come."""
        parts = self._parts
        drain_s = max(0.0, self._options.drain_s - self._stop.since_s)
        end_services(
            parts.services, parts.counters, drain_s, self._report_draining, clock=time.monotonic, wait=parts.wake.wait
        )
        parts.budget.keep_lost(parts.counters)

    def _report_draining(self, left_s: float) -> None:
        at_stake = self._parts.counters.at_stake(left_s)
        self._parts.reporter.report(at_stake if at_stake.calls else None)

    def _compact(self) -> None:
        self._parts.batches.keep_closed()
        for model in self._work.models:
            self._parts.store.compact(model, self._lease.epoch)
