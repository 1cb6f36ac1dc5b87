"""OpenAI's wire protocol, and what speaks it."""

from functools import partial

from hab_simulator.openai.batch import handle
from hab_simulator.openai.batch_lines import OpenAiLines
from hab_simulator.openai.online import OpenAiOnline
from hab_simulator.playing import SimulatedVendor


def compatible(online: OpenAiOnline, lines: type[OpenAiLines] = OpenAiLines) -> SimulatedVendor:
    """A vendor that speaks OpenAI's protocol with differences, online and by batch."""
    return SimulatedVendor(online, partial(handle, lines(online)))


VENDOR = compatible(OpenAiOnline())
