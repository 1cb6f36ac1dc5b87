"""Drives one run under its lease: signals, budget, the reconcile loop, the drain, the final views."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256

from hab_ray.catalog.models import folder_name
from hab_ray.catalog.prices import Mode
from hab_ray.cluster.executor import RayExecutor
from hab_ray.cluster.metrics import RunMetrics
from hab_ray.config.sweep import spending_limit
from hab_ray.engine.books import open_batches, retried_since
from hab_ray.errors import Exit, HabError, Interrupted, LeaseStale, exit_of
from hab_ray.executors.batch import BatchExecutor, BatchSetup, nth_part
from hab_ray.executors.cells import CELLS
from hab_ray.executors.choice import choose_executor
from hab_ray.executors.local import LocalExecutor, LocalWorkers
from hab_ray.executors.online import OnlineFactory, RunSetup
from hab_ray.executors.pending import Pending
from hab_ray.executors.protocol import ChannelEnded, CountersRead, Service
from hab_ray.executors.serving import Endpoints
from hab_ray.executors.settling import WorkerContext
from hab_ray.given.rows import given_file
from hab_ray.given.sample import describe_sample
from hab_ray.progress import RunEnd
from hab_ray.providers.access import has_secrets
from hab_ray.rows import ChosenTest, Response
from hab_ray.stages.views import responses_file, tests_file
from hab_ray.stopping import LATE_S
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease.lease import UNCLEAN_WAIT_S
from hab_ray.storage.lease.watches import STALE_CHECK_S, wait_until_held
from hab_ray.storage.record import read_record
from hab_ray.storage.run import TEXTS
from hab_ray.sweep.declaring import declare
from hab_ray.sweep.dispatching import DriverContext
from hab_ray.sweep.driver import Driver
from hab_ray.sweep.monitoring.announcing import Announcer
from hab_ray.sweep.monitoring.counters import RunCounters
from hab_ray.sweep.monitoring.log import RunLog
from hab_ray.sweep.monitoring.reporting import Reporter
from hab_ray.sweep.options import Options
from hab_ray.sweep.raters import place_raters
from hab_ray.sweep.routing import Router
from hab_ray.sweep.session import Session
from hab_ray.sweep.shards import Shards, ShardStatus
from hab_ray.visible import counted, usd
from hab_ray.work import Work, given_rows

ONLINE: Mapping[str, OnlineFactory] = {"local": LocalExecutor, "ray": RayExecutor}
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
        return _Run(session, options, stack).run()


class _Run:
    """A run's driver and what it works with. `stack` closes the services and local model servers."""

    def __init__(self, session: Session, options: Options, stack: ExitStack) -> None:
        """Build everything without starting anything."""
        self._session, self._options, self._wake = session, options, threading.Event()
        self._work, self._lease, self._stop = session.work, session.lease, session.stop
        work, lease = session.work, session.lease
        self._endpoints = Endpoints(work, stack)
        path = work.sweep.store.absolute()
        folder = open_folder(path)
        epochs = session.earlier | {lease.epoch}
        risk = _risk(work, options)
        self._pending = pending = Pending(
            work.run_path, lease.epoch, sample_seed=None if risk is None else work.sweep.seed
        )
        self._left_open = open_batches(folder, session.earlier)
        failures_since = lease.epoch if options.retry_failed else retried_since(folder, self._left_open)
        site = WorkerContext(work, path, failures_since, pending)
        shards = Shards(work)
        self._counters = counters = RunCounters(shards.all, epochs)
        self._budget = budget = session.run_budget(spending_limit(work.sweep))
        announcer = Announcer(options.watch)
        stack.callback(announcer.close)
        log = RunLog(str(work.sweep.run_folder), shards)
        self._reporter = reporter = Reporter(work, shards, counters, budget, announcer, _metrics(work, shards), log)
        record, limit = read_record(work.run_path), work.sweep.time_limit
        deadline = record.started + limit if record and limit else None
        setup = RunSetup(
            site=site,
            lease=lease,
            budget=budget,
            stop=session.stop,
            url=self._url,
            needed=lambda: _providers_online(work, shards),
            not_before=0.0 if lease.clean else time.monotonic() + UNCLEAN_WAIT_S,
            verbose=options.verbose,
        )
        part = nth_part(1.0, len(epochs))
        self._batches = batches = BatchExecutor(
            BatchSetup(setup, epochs, deadline, options.detach, risk, part), self._wake.set
        )
        executor = choose_executor(work, os.environ).executor
        is_by_batch = all(work.mode(shard) == "batch" for shard in work.shards() if shard.spec.makes_calls)
        if executor == "local" or is_by_batch:  # only this process writes to the run and the store
            for claimed in (folder, work.run.folder):
                claimed.claim()
                stack.callback(claimed.release)
        online = ONLINE[executor](setup, self._wake.set)
        self._local = local = LocalWorkers(site, self._wake.set)
        self._services = services = (online, batches, local)
        for service in services:
            stack.callback(service.close)
        self._driver = Driver(
            work,
            shards,
            counters,
            Router(work, shards, counters, batches.held, deadline, lambda: datetime.now(UTC)),
            DriverContext(
                executors={Mode.ONLINE: online, Mode.BATCH: batches},
                workers=lambda: online.workers or local,
                services=services,
                files=pending,
                clock=time.monotonic,
                wait=self._wait,
                check=partial(wait_until_held, setup.guard()),
                keep=lambda: budget.keep_lost(counters.online()),
                chosen=options.chosen,
                report=reporter.report,
            ),
        )
        self._store = site.open_store()

    def _url(self, provider: str) -> str:
        """Return a provider's URL. That may start a local model's server, which a signal interrupts."""
        with self._stop.immediate():
            return self._endpoints.url(provider)

    def _wait(self, seconds: float) -> None:
        """Sleep for up to `seconds`, or until a service has an event."""
        self._wake.wait(seconds)
        self._wake.clear()

    def run(self) -> RunEnd:
        """Reconcile, drain, settle and compact. After a signal, only drain."""
        stop = self._stop
        with stop.last_words(self._write_off), stop.deferred(self._send_nothing_more, self._options.drain_s + LATE_S):
            try:
                self._pending.discard_all()
                self._write_given_rows()
                if note := declare(self._work, self._store, datetime.now(UTC)):  # before any call is sent
                    self._counters.notes.append(note)
                self._open_books()
                self._reporter.report()
                self._batches.resume()
                self._driver.reconcile(self._options.detach)
            except (Interrupted, KeyboardInterrupt):
                self._drain()
                return self._reporter.end(Exit.INTERRUPTED)
            except Exception as error:
                with suppress(OSError, HabError):  # the first error says more
                    self._drain()
                self._note_stops(error)
                with suppress(OSError, HabError):
                    self._reporter.report_last(exit_of(error))
                self._raise_if_lease_lost()
                raise
            self._drain()
        if stop.requested:
            return self._reporter.end(Exit.INTERRUPTED)
        try:
            self._check_lease()
            self._driver.settle_rest(self._local)
            self._pending.discard_all()
            self._check_lease()
            self._counters.notes += place_raters(self._work, self._options.with_names)
            self._compact()
            if self._reporter.exit() is Exit.COMPLETE:
                self._work.run.folder.clear(CELLS)
            return self._reporter.end(self._reporter.exit())
        except KeyboardInterrupt:
            return self._reporter.end(Exit.INTERRUPTED)
        except Exception as error:
            self._reporter.report_last(exit_of(error))
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
        """Write the sweep's given tests and responses as views, and its own texts, that the run does not have yet.

        Ratings are joined to the present answers now, and to all answers at the end.
        """
        run, given = self._work.run, given_rows(self._work)
        for dimension, tests in given.tests.items():
            if run.count(tests_file(dimension)) is None:
                run.write(ChosenTest, tests_file(dimension), tests)
        keep_own_texts(self._work)
        for (subject, dimension), rows in given.responses.items():
            if run.count(responses_file(subject, dimension)) != len(rows):  # another number of `samples`
                run.write(Response, responses_file(subject, dimension), rows)
        place_raters(self._work, self._options.with_names)
        self._work.given.forget()
        record = read_record(self._work.run_path)
        if note := describe_sample(self._work.sweep.responses, record.drawn if record else {}):
            self._counters.notes.append(note)

    def _open_books(self) -> None:
        if stranded := self._budget.open_books(self._session.earlier, self._session.released_up_to, self._work.models):
            self._counters.notes.append(
                f"{usd(stranded)} of what counts as spent was granted before an unclean end and is not "
                "accounted for; if the vendors' bills show that it was not spent, release it with `hab budget release "
                f"{self._work.run_path}`"
            )

        used = {folder_name(model.entry.provider) for model in self._work.models.values()}
        self._counters.notes += [
            f"batch {batch.name} ({counted(batch.intent.rows, 'row')} of {batch.intent.model}, at most "
            f"{usd(batch.intent.most)}) is open, and this sweep no longer uses the provider "
            f"{batch.provider}: what the vendor answers of it is charged, and collected only once a model of it, under "
            "that name, is in the sweep"
            for batch in self._left_open
            if folder_name(batch.provider) not in used
        ]

    def _send_nothing_more(self) -> None:
        """Stop all executors from sending new requests. Safe in any thread."""
        for service in self._services:
            service.stop(self._options.drain_s)

    def _drain(self) -> None:
        """Wait for calls in flight while the drain lasts, store their replies, and write off the rest."""
        drain_s = max(0.0, self._options.drain_s - self._stop.since_s)
        end_services(
            self._services, self._counters, drain_s, self._report_draining, clock=time.monotonic, wait=self._wait
        )
        try:
            self._budget.keep_lost(self._counters.online())
        except Exception as error:
            self._note_stops(error)
            raise

    def _note_stops(self, error: Exception) -> None:
        """Add to an error why providers were stopped: perhaps that replies could not be written."""
        for who, why in self._counters.stops.items():
            error.add_note(f"{who} was stopped: {why}")

    def _write_off(self) -> None:
        self._budget.write_off(self._counters.online())

    def _report_draining(self, left_s: float) -> None:
        draining = self._counters.draining(left_s)
        self._reporter.report(draining if draining.calls else None)

    def _compact(self) -> None:
        self._batches.keep_closed()
        for model in self._work.models:
            self._store.compact(model, self._lease.epoch)


def _metrics(work: Work, shards: Shards) -> RunMetrics:
    calling = (state for state in shards.all if state.shard.spec.makes_calls)
    providers = {(state.shard.stage, state.shard.name): shards.provider(state) for state in calling}
    return RunMetrics(str(work.sweep.run_folder), providers, lambda: datetime.now(UTC))


def _risk(work: Work, options: Options) -> float | None:
    """Return the run's risk, or None if batches reserve the maximum cost of their calls.

    With `--detach` they do: the process exits before the first wave shows what calls cost.
    """
    limit = spending_limit(work.sweep)
    is_likely = limit is not None and limit.reserve == "likely" and not options.detach
    return limit.risk if limit and is_likely else None


def _providers_online(work: Work, shards: Shards) -> list[str]:
    """Return the providers of unfinished online calls; servers that `hab` starts come last, as they start slowly.

    A provider whose key is not set here has no open calls, or preflight would have refused the run.
    """
    calling = [state for state in shards.all if state.shard.spec.makes_calls]
    unfinished = [state for state in calling if state.status is not ShardStatus.COMPLETE]
    entries, asked = work.catalog.providers, [state for state in unfinished if work.mode(state.shard) != "batch"]
    providers = {name for name in map(shards.provider, asked) if has_secrets(entries[name], os.environ)}
    return sorted(providers, key=lambda name: (entries[name].serve, name))


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
        with suppress(OSError, HabError):  # a disk too full for a report still has reserved space for incoming replies
            report(max(0.0, ends_at - clock()))
        if under_way:
            wait(LOOK_EVERY_S)
    for channel in under_way:
        if channel.mode is Mode.ONLINE:  # an open batch is in the ledger, with its reservation
            counters.write_off(channel)


def keep_own_texts(work: Work) -> None:
    """Write the texts that a run's folder does not hold yet, each under its digest in the record."""
    for text in _own_texts(work):
        if not work.run.has(file := f"{TEXTS}/{sha256(text).hexdigest()}"):
            work.run.folder.put(file, text)


def _own_texts(work: Work) -> Iterator[bytes]:
    if work.sweep.rubrics:
        yield work.prompts.text
        yield "\n".join(work.themes).encode()
        yield from (rubric.canonical for rubric in work.rubrics.values())
    yield from (rubric.canonical for rubrics in work.wordings.values() for rubric in rubrics.values())
    yield from (given_file(variant.tests) for variant in work.sweep.variants.subjects if variant.tests is not None)
