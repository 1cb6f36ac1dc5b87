"""`python -m hab_simulator`: run the simulator until it is ended or its parent goes."""

import argparse
import asyncio
import os
import signal
from pathlib import Path

from hab_simulator.app import simulator
from hab_simulator.process import end_with_parent, parent_gone, publish
from hab_simulator.profile import Profile, load_profile


async def _run(profile: Profile, port: int, ready: Path | None, parent: int) -> None:
    asked_to_end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked_to_end.set)
    async with simulator(profile, port) as url:
        if ready is not None:
            publish(ready, url)
        print(url, flush=True)
        reasons = [asyncio.create_task(reason) for reason in (asked_to_end.wait(), parent_gone(parent))]
        _, others = await asyncio.wait(reasons, return_when=asyncio.FIRST_COMPLETED)
        for other in others:
            other.cancel()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m hab_simulator", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 takes a free one")
    parser.add_argument("--ready", type=Path, help="file that receives {url, pid} once it listens")
    parser.add_argument("--profile", type=Path, help="YAML or JSON file of settings")
    parser.add_argument("--seed", type=int, help="overrides the profile's seed")
    parser.add_argument("--parent", type=int, default=os.getppid(), help="end when this parent process goes")
    asked = parser.parse_args()
    end_with_parent(asked.parent)
    profile = load_profile(asked.profile) if asked.profile else Profile()
    if asked.seed is not None:
        profile = profile.model_copy(update={"seed": asked.seed})
    asyncio.run(_run(profile, asked.port, asked.ready, asked.parent))


if __name__ == "__main__":
    main()
