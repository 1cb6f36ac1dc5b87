"""Anthropic's wire protocol."""

from hab_simulator.anthropic import online
from hab_simulator.anthropic.batch import handle
from hab_simulator.playing import SimulatedVendor

VENDOR = SimulatedVendor(online, handle, lambda path: path.split("/")[:2] == ["messages", "batches"])
