"""Drives one run under its lease: signals, budget, the reconcile loop, the drain, the final views."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime

from hab_ray.catalog.prices import NANO, Mode
from hab_ray.errors import Exit, Interrupted, LeaseStale, exit_of
from hab_ray.executors.cells import CELLS
from hab_ray.executors.protocol import ChannelEnded, CountersRead, Service
from hab_ray.given.sample import describe_sample
from hab_ray.progress import RunEnd
from hab_ray.rows import ChosenTest, Response
from hab_ray.stages.views import responses_file, tests_file
from hab_ray.stopping import LATE_S
from hab_ray.storage.lease.watches import STALE_CHECK_S, wait_until_held
from hab_ray.storage.record import read_record
from hab_ray.sweep.assembly import RunComponents, build_run
from hab_ray.sweep.declaring import declare
from hab_ray.sweep.monitoring.counters import RunCounters
from hab_ray.sweep.options import Options
from hab_ray.sweep.raters import place_raters
from hab_ray.sweep.session import Session
from hab_ray.work import given_rows

LOST_LEASE_KNOWN_WITHIN_S = 5.0
GRACE_S = 3.0
LOOK_EVERY_S = 0.1


def drive(session: Session, options: Options) -> RunEnd:
    """Run a sweep until it is complete or nothing more can be done.

    Raises:
        HabError: the run cannot continue (lost lease, missing key, damaged file, dead Ray process); the drain has
            stored the replies of calls in flight.
    """
    with ExitStack() as stack:
        return _Run(session, options, build_run(session, options, stack)).run()


class _Run:
    def __init__(self, session: Session, options: Options, parts: RunComponents) -> None:
        self._session, self._options, self._parts = session, options, parts
        self._work, self._lease, self._stop = session.work, session.lease, session.stop

    def run(self) -> RunEnd:
        """Reconcile, drain, settle and compact. After a signal, only drain."""
        stop, parts = self._stop, self._parts
        with stop.last_words(self._write_off), stop.deferred(self._send_nothing_more, self._options.drain_s + LATE_S):
            try:
                parts.pending.discard_all()
                self._write_given_rows()
                if note := declare(self._work, parts.store, datetime.now(UTC)):  # before any call is sent
                    parts.counters.notes.append(note)
                self._open_books()
                parts.reporter.report()
                parts.batches.resume()
                parts.driver.reconcile(self._options.detach)
            except (Interrupted, KeyboardInterrupt):
                self._drain()
                return parts.reporter.end(Exit.INTERRUPTED)
            except Exception as error:
                with suppress(OSError):  # the first error says more
                    self._drain()
                for who, why in parts.counters.stops.items():
                    error.add_note(f"{who} was stopped: {why}")
                with suppress(OSError):
                    parts.reporter.report_last(exit_of(error))
                self._raise_if_lease_lost()
                raise
            self._drain()
        if stop.requested:
            return parts.reporter.end(Exit.INTERRUPTED)
        try:
            self._check_lease()
            parts.driver.settle_rest(parts.local)
            parts.pending.discard_all()
            self._check_lease()
            parts.counters.notes += place_raters(self._work, self._options.with_names)
            self._compact()
            if parts.reporter.exit() is Exit.COMPLETE:
                self._work.run.folder.clear(CELLS)
            return parts.reporter.end(parts.reporter.exit())
        except KeyboardInterrupt:
            return parts.reporter.end(Exit.INTERRUPTED)
        except Exception as error:
            parts.reporter.report_last(exit_of(error))
            raise

    def _check_lease(self) -> None:
        wait_until_held(self._lease.watch().check)

    def _raise_if_lease_lost(self) -> None:
        """Report a lost lease instead of the errors that it causes, as when the process was suspended for long.

        Raises:
            LeaseLost: another driver holds the store.
        """
        give_up_at, watch = time.monotonic() + LOST_LEASE_KNOWN_WITHIN_S, self._lease.watch()
        while time.monotonic() < give_up_at:
            with suppress(LeaseStale):
                return watch.check()
            time.sleep(STALE_CHECK_S)

    def _write_given_rows(self) -> None:
        """Write the sweep's given tests and responses as views, unless the run has them already.

        Ratings are joined to the present answers now, and to all answers at the end.
        """
        run, given = self._work.run, given_rows(self._work)
        for dimension, tests in given.tests.items():
            if run.count(tests_file(dimension)) is None:
                run.write(ChosenTest, tests_file(dimension), tests)
        for (subject, dimension), rows in given.responses.items():
            if run.count(responses_file(subject, dimension)) is None:
                run.write(Response, responses_file(subject, dimension), rows)
        place_raters(self._work, self._options.with_names)
        self._work.given.forget()
        record = read_record(self._work.run_path)
        if note := describe_sample(self._work.sweep.responses, record.drawn if record else {}):
            self._parts.counters.notes.append(note)

    def _open_books(self) -> None:
        parts = self._parts
        stranded = parts.budget.open_books(self._session.earlier, self._session.released_up_to, self._work.models)
        if stranded:
            parts.counters.notes.append(
                f"${stranded / NANO:.4f} of what counts as spent was granted before an unclean end and is not "
                "accounted for; if the vendors' bills show that it was not spent, release it with `hab budget release "
                f"{self._work.run_path}`"
            )

    def _send_nothing_more(self) -> None:
        """Stop all executors from sending new requests. Safe in any thread."""
        for service in self._parts.services:
            service.stop(self._options.drain_s)

    def _drain(self) -> None:
        """Wait for calls in flight while the drain lasts, store their replies, and write off the rest."""
        parts = self._parts
        drain_s = max(0.0, self._options.drain_s - self._stop.since_s)
        end_services(
            parts.services, parts.counters, drain_s, self._report_draining, clock=time.monotonic, wait=parts.wait
        )
        parts.budget.keep_lost(parts.counters.online())

    def _write_off(self) -> None:
        self._parts.budget.write_off(self._parts.counters.online())

    def _report_draining(self, left_s: float) -> None:
        draining = self._parts.counters.draining(left_s)
        self._parts.reporter.report(draining if draining.calls else None)

    def _compact(self) -> None:
        self._parts.batches.keep_closed()
        for model in self._work.models:
            self._parts.store.compact(model, self._lease.epoch)


def end_services(
    services: Sequence[Service],
    counters: RunCounters,
    limit_s: float,
    report: Callable[[float], None],
    clock: Callable[[], float],
    wait: Callable[[float], None],
) -> None:
    """End all services of a run within `limit_s`; call `report` with the seconds left.

    Channels that have not ended by then are abandoned. What they reserved for open calls counts as spent, because the
    cost of those calls will never be known. `clock` returns monotonic seconds.
    """
    ends_at = clock() + limit_s
    for service in services:
        service.stop(limit_s)
    under_way = {channel for service in services for channel in service.end()}
    while under_way and clock() <= ends_at + GRACE_S:
        for event in [event for service in services for event in service.poll()]:
            match event:  # nothing is settled or dispatched any more
                case CountersRead(channel, counted):
                    counters.update(channel, counted)
                case ChannelEnded(channel):
                    under_way.discard(channel)
        with suppress(OSError):  # a disk too full for a report still has reserved space for incoming replies
            report(max(0.0, ends_at - clock()))
        if under_way:
            wait(LOOK_EVERY_S)
    for channel in under_way:
        if channel.mode is Mode.ONLINE:  # an open batch is in the ledger, with its reservation
            counters.write_off(channel)
