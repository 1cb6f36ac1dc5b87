"""xAI's wire protocol."""

from hab_simulator.playing import SimulatedVendor
from hab_simulator.xai.batch import handle
from hab_simulator.xai.online import XaiOnline

VENDOR = SimulatedVendor(XaiOnline(), handle)
