"""The reference: the same examination against a simulator in this process, in a temporary store."""

from datetime import datetime
from tempfile import TemporaryDirectory

from hab_ray.doctor.examination import Examination, Examined, Visit
from hab_ray.doctor.questions import questions
from hab_ray.doctor.tap import tapping
from hab_ray.engine.budget.budget import unlimited
from hab_ray.location import Location
from hab_ray.rehearse.profile import Play, profile_of
from hab_ray.rehearse.staging import at, staged
from hab_ray.stopping import Stop
from hab_ray.sweep.session import spending
from hab_ray.work import Work
from hab_simulator import simulator

# Long enough to poll a batch once before it ends.
TURNAROUND_S = 0.4
_WAIT_S = 60.0


async def at_simulator(work: Work, by_batch: bool, now: datetime) -> Examined:
    """Ask the simulator a sweep's questions; raise ConfigError if the sweep cannot be rehearsed."""
    with TemporaryDirectory(prefix="hab-doctor-") as folder:
        copy = staged(work.sweep, Location.of(folder) / "run", now, turnaround_s=TURNAROUND_S)
        with spending(copy, Stop()) as session:
            profile = profile_of(copy, Play(turnaround_s=TURNAROUND_S))
            async with simulator(profile) as url, tapping() as tap:
                copy = at(copy, url)
                addresses = {name: entry.url or "" for name, entry in copy.catalog.providers.items()}
                visit = Visit(copy, questions(copy), addresses.__getitem__, by_batch, _WAIT_S)
                return await Examination(visit, session, unlimited(), tap).run()
