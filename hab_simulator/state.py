"""What a running simulator knows and counts. `app` answers calls by it, `control` shows and changes it."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from hab_simulator.asks import MeantReply
from hab_simulator.batch.clock import VendorClock
from hab_simulator.batch.jobs import Job
from hab_simulator.batch.service import BatchService
from hab_simulator.batch.spool import Entry
from hab_simulator.faults import FaultPlan
from hab_simulator.limits import RateLimits
from hab_simulator.meter import Meter
from hab_simulator.profile import Profile
from hab_simulator.truth.answers import Mind
from hab_simulator.truth.planted import Truth


class SimulatorState:
    """The state of one simulator. `clock` gives monotonic seconds."""

    def __init__(self, profile: Profile, clock: Callable[[], float]) -> None:
        self.profile = profile
        self._folder = TemporaryDirectory(prefix="hab-simulator-", dir=profile.folder)
        seed = profile.seed
        self.meter = Meter()
        self.plan = FaultPlan(seed, profile.faults)
        self.mind = Mind(seed, Truth(seed, profile.planted))
        self.limiter = RateLimits(clock, lambda: datetime.now(UTC))
        self._billed: Counter[str] = Counter()
        vendor_clock = VendorClock(datetime.now(UTC).timestamp(), profile.speed, clock)
        folder = Path(self._folder.name) / "batches"
        self.batches = BatchService(profile, self.mind, vendor_clock, folder, self._charge_line, self.exhausted)

    def close(self) -> None:
        """End the batches and delete what is on disk."""
        self.batches.close()
        self._folder.cleanup()

    def bill(self, account: str) -> None:
        """Count a billed call against the account's quota."""
        self._billed[account] += 1

    def exhausted(self, account: str) -> bool:
        """Whether an account has used up its quota."""
        quota = self.profile.account(account).quota_calls
        return quota is not None and self._billed[account] >= quota

    def hear(self, exchange: MeantReply | None) -> None:
        if exchange is not None:
            self.mind.truth.heard.add(exchange)

    def _charge_line(self, job: Job, entry: Entry) -> None:
        """Count a line of a batch that was done, charged and delivered."""
        if entry.bill is not None:
            self.bill(job.account)
            self.meter.record_line(job.account, entry.path, entry.model, entry.label, entry.bill)
        self.hear(entry.exchange)
