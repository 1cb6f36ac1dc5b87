"""A sweep against the simulator, and what it recovered of the truth planted there.

`staging` turns a sweep into the same sweep at the simulator, `profile` tells the simulator what to play, `place`
keeps simulated replies apart from paid ones, `truth` asks it what was true, `perform` puts it together.
"""

from hab_ray.rehearse.perform import Rehearsal, perform
from hab_ray.rehearse.place import Place, refuse_simulated
from hab_ray.rehearse.profile import Play
from hab_ray.rehearse.staging import SIMULATED, staged
from hab_ray.rehearse.trouble import Trouble, load_trouble
from hab_ray.rehearse.truth import Cell

__all__ = [
    "SIMULATED",
    "Cell",
    "Place",
    "Play",
    "Rehearsal",
    "Trouble",
    "load_trouble",
    "perform",
    "refuse_simulated",
    "staged",
]
