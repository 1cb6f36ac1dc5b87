"""`hab simulate`: serve simulated vendor APIs."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hab_ray.cli.ending import ends_with_status, say
from hab_ray.errors import ConfigError, Exit
from hab_ray.inputs.files import MEBIBYTE, BadInput, bytes_of, decoded
from hab_ray.rehearse.trouble import load_settings
from hab_ray.visible import one_line
from hab_simulator import Profile, Recorded, RecordingUnusable, parse_recording, replaying, simulator

PORT = 8099
_MAX_RECORDED_BYTES = 64 * MEBIBYTE

_BASES = {
    "OpenAI": "/openai/v1",
    "Anthropic": "/anthropic",
    "Gemini": "/google",
    "xAI": "/xai/v1",
    "any OpenAI-compatible endpoint": "/x/<name>/v1",
}
_CONTROL_PATHS = "/_meter, /_truth, /_calls, /_requests, /_batches"


def _recording(path: Path) -> list[Recorded]:
    try:
        return parse_recording(decoded(bytes_of(path, _MAX_RECORDED_BYTES)))
    except (BadInput, RecordingUnusable) as error:
        raise ConfigError(one_line(f"--replay {path}: {error}; give a file that `hab doctor --live` wrote")) from None


def _replay_lines(recorded: list[Recorded], url: str) -> Iterator[str]:
    yield f"replaying {len(recorded)} recorded answers at {url} to the requests they were recorded for"
    for account in sorted({exchange.account for exchange in recorded}):
        yield f"  {account}: {url}/{account}"
    yield f"to repeat the same sweep: hab doctor SWEEP --live --at {url}"


def addresses(url: str) -> Iterator[str]:
    """Yield the start-up lines of a simulator that listens at `url`."""
    yield f"the simulator listens at {url}; it accepts any key unless the profile lists some"
    for vendor, base in _BASES.items():
        yield f"  {vendor}: {url}{base}"
    yield f"  counters and truth: {url} + {_CONTROL_PATHS} (dollars are 0 for models without a `price` in the profile)"
    yield f"to try a sweep against it: hab init first.yaml --endpoint {url}{_BASES['OpenAI']} --like openai --key-env -"


def usual_port() -> int:
    """Return the port at which a restarted simulator is found again, or 0 if another process listens there."""
    with suppress(OSError), socket.create_server(("127.0.0.1", PORT)):
        return PORT
    say(f"port {PORT} is taken; using a free one")
    return 0


async def _serve(server: AbstractAsyncContextManager[str], lines: Callable[[str], Iterable[str]]) -> None:
    """Serve until SIGINT or SIGTERM, after printing `lines` of the server's URL."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with server as url:
        for line in (*lines(url), "Ctrl-C stops it"):
            say(line)
        await stopped.wait()


@ends_with_status
def command(
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="PORT", help=f"Port on 127.0.0.1, 0: any; by default {PORT} if free."),
    ] = None,
    profile: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A YAML or JSON file of the simulator's settings.")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="The seed, instead of the profile's.")] = None,
    speed: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="SECONDS", help="Seconds that pass for batches in one real second."),
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Replay the answers in a file written by `hab doctor --live`.")
    ] = None,
) -> Exit:
    """Serve the vendors' protocols on this machine until Ctrl-C, to try your own client against."""
    port = usual_port() if port is None else port
    given = {name: value for name, value in (("seed", seed), ("speed", speed)) if value is not None}
    if replay is None:
        settings = load_settings(Profile, "--profile", profile)
        server: AbstractAsyncContextManager[str] = simulator(settings.model_copy(update=given), port)
        lines: Callable[[str], Iterable[str]] = addresses
    elif profile is not None or given:
        raise ConfigError("--replay: --profile, --seed and --speed do not apply to recorded answers; leave them out")
    else:
        recorded = _recording(replay)
        server, lines = replaying(recorded, port), partial(_replay_lines, recorded)
    try:
        asyncio.run(_serve(server, lines))
    except OSError as error:
        raise ConfigError(f"--port {port}: cannot listen on it: {error}; give another, or 0 for a free one") from None
    return Exit.COMPLETE
