"""A server that speaks the vendors' wire protocols: seeded replies, faults and a meter, no money."""

from hab_ray.simulator.process import SimulatorFailed, SimulatorProcess, simulator
from hab_ray.simulator.profile import Profile

__all__ = ["Profile", "SimulatorFailed", "SimulatorProcess", "simulator"]
