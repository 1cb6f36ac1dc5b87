"""A server that speaks the vendors' wire protocols: seeded replies, faults and a meter, no money.

A `Profile` says how it plays: the accounts with their models, latency, faults, batches, and the truth planted in its
answers. `simulator` runs it in the present event loop, `SimulatorProcess` in a process of its own; `SimulatorClient`
reads what it counted and what was true. Everything is a function of the profile's seed and of what is asked.
"""

from hab_ray.simulator.accounts import (
    Kind,
    Service,
    SimulatedAccount,
    SimulatedModel,
    SimulatedPrice,
    SimulatedSampling,
    SimulatedThinking,
)
from hab_ray.simulator.app import simulator
from hab_ray.simulator.batch.faults import BatchFault
from hab_ray.simulator.batch.settings import BatchSettings, LineFaults
from hab_ray.simulator.client import (
    CheckedQuery,
    Manner,
    MeterReading,
    MissingEvidence,
    SimulatorClient,
    TrueAnswer,
    TrueVerdict,
    WrittenQueries,
)
from hab_ray.simulator.embedding import embed
from hab_ray.simulator.exchanges import fingerprint
from hab_ray.simulator.faults import Fault
from hab_ray.simulator.imported import GivenTest, Place, PlantedForm, exactly, mark_of_given
from hab_ray.simulator.judging import PlantedIssue, spaced
from hab_ray.simulator.latency import FixedLatency, Latency, LognormalLatency, NoLatency
from hab_ray.simulator.malformed import Malformed
from hab_ray.simulator.planted import Planted, PlantedDimension, PlantedSubject
from hab_ray.simulator.process import SimulatorFailed, SimulatorProcess
from hab_ray.simulator.profile import Profile, load_profile
from hab_ray.simulator.replay import Recorded, RecordingUnusable, load_recording, parse_recording, replaying

__all__ = [
    "BatchFault",
    "BatchSettings",
    "CheckedQuery",
    "Fault",
    "FixedLatency",
    "GivenTest",
    "Kind",
    "Latency",
    "LineFaults",
    "LognormalLatency",
    "Malformed",
    "Manner",
    "MeterReading",
    "MissingEvidence",
    "NoLatency",
    "Place",
    "Planted",
    "PlantedDimension",
    "PlantedForm",
    "PlantedIssue",
    "PlantedSubject",
    "Profile",
    "Recorded",
    "RecordingUnusable",
    "Service",
    "SimulatedAccount",
    "SimulatedModel",
    "SimulatedPrice",
    "SimulatedSampling",
    "SimulatedThinking",
    "SimulatorClient",
    "SimulatorFailed",
    "SimulatorProcess",
    "TrueAnswer",
    "TrueVerdict",
    "WrittenQueries",
    "embed",
    "exactly",
    "fingerprint",
    "load_profile",
    "load_recording",
    "mark_of_given",
    "parse_recording",
    "replaying",
    "simulator",
    "spaced",
]
