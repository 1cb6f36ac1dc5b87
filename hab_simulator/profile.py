"""The profile: every setting of the simulator as one tree, readable from YAML or JSON.

An account that the profile does not name behaves as the real vendor does (`vendors.yaml`); an unnamed
account under /x/<name> is a lenient OpenAI-compatible endpoint that serves any model.
"""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import Field, model_validator

from hab_simulator.accounts import OPENAI, SimulatedAccount, vendors
from hab_simulator.batch.faults import BatchFault
from hab_simulator.batch.settings import BatchSettings
from hab_simulator.faults import Fault
from hab_simulator.latency import Latency, NoLatency
from hab_simulator.settings import Settings
from hab_simulator.truth.planted import Planted


class Profile(Settings):
    """All settings of one simulator.

    `batch` holds for accounts that say nothing of their own. `speed` is how many seconds pass on the clock that
    batches go by while one really passes. `folder` is where the simulator makes its own for files and batches
    (default: the system's temporary folder). It listens on `host` alone. `keep_bodies` keeps each request's body for
    `GET /_calls`.
    """

    seed: int = 0
    accounts: dict[str, SimulatedAccount] = Field(default_factory=dict)
    latency: Latency = NoLatency()
    faults: tuple[Fault, ...] = ()
    planted: Planted = Planted()
    batch: BatchSettings = BatchSettings()
    batch_faults: tuple[BatchFault, ...] = ()
    speed: float = Field(default=1.0, gt=0)
    folder: Path | None = None
    keep_bodies: bool = False
    host: str = "127.0.0.1"

    @model_validator(mode="after")
    def _names(self) -> Profile:
        for name, account in self.accounts.items():
            if name not in vendors() and not name.startswith("x/"):
                known = ", ".join(sorted(vendors()))
                raise ValueError(f"accounts.{name}: unknown account; write one of {known}, or x/<name>")
            if account.kind not in (None, self.kind(name)):
                raise ValueError(f"accounts.{name}.kind: is {self.kind(name)}; name the account x/<name> for another")
        return self

    def account(self, name: str) -> SimulatedAccount:
        """The account of this name: as the profile says, else as the vendor is, else lenient."""
        return self.accounts.get(name) or vendors().get(name) or SimulatedAccount()

    def kind(self, name: str) -> str:
        """The protocol of the account of this name: the vendor's, else as the profile says, else OpenAI's."""
        known = vendors().get(name) or self.account(name)
        return known.kind or OPENAI


def load_profile(path: Path) -> Profile:
    """Read a profile from a YAML or JSON file. Raises pydantic.ValidationError, which names what is wrong."""
    return Profile.model_validate(yaml.safe_load(path.read_text("utf-8")) or {})
