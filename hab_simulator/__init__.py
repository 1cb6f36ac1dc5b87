"""A server that speaks the vendors' wire protocols: seeded replies, faults and a meter, no money.

A `Profile` says how it plays: the accounts with their models, latency, faults, batches, and the truth planted in its
answers. `simulator` runs it in the present event loop, `SimulatorProcess` in a process of its own; `SimulatorClient`
reads what it counted and what was true. Everything is a function of the profile's seed and of what is asked.
"""

from hab_simulator.accounts import (
    Service,
    SimulatedAccount,
    SimulatedModel,
    SimulatedPrice,
    SimulatedSampling,
    SimulatedThinking,
    vendors,
)
from hab_simulator.app import simulator
from hab_simulator.batch.faults import BatchFault
from hab_simulator.batch.settings import BatchSettings, LineFaults
from hab_simulator.client import (
    CheckedQuery,
    Manner,
    MeterReading,
    MissingEvidence,
    SimulatorClient,
    TrueAnswer,
    TrueVerdict,
    WrittenQueries,
)
from hab_simulator.exchanges import fingerprint
from hab_simulator.faults import Fault
from hab_simulator.latency import FixedLatency, Latency, LognormalLatency, NoLatency
from hab_simulator.process import SimulatorFailed, SimulatorProcess
from hab_simulator.profile import Profile, load_profile
from hab_simulator.replay import Recorded, RecordingUnusable, load_recording, parse_recording, replaying
from hab_simulator.truth.embedding import embed
from hab_simulator.truth.imported import GivenTest, Place, PlantedForm, exactly, mark_of_given
from hab_simulator.truth.judging import PlantedIssue, spaced
from hab_simulator.truth.malformed import Malformed
from hab_simulator.truth.planted import Planted, PlantedDimension, PlantedSubject, without_markers

__all__ = [
    "BatchFault",
    "BatchSettings",
    "CheckedQuery",
    "Fault",
    "FixedLatency",
    "GivenTest",
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
    "vendors",
    "without_markers",
]
