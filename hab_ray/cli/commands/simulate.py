"""`hab simulate`: serve the vendors' protocols here."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.console import Console

from hab_ray.cli.ending import console, ends_with_status
from hab_ray.errors import ConfigError, Exit
from hab_ray.inputs.files import MEBIBYTE, BadInput, bytes_of, decoded
from hab_ray.inputs.yaml_text import yaml_file
from hab_ray.visible import one_line
from hab_simulator import Profile, Recorded, RecordingUnusable, parse_recording, replaying, simulator

_MAX_RECORDED_BYTES = 64 * MEBIBYTE

_BASES = {
    "OpenAI": "/openai/v1",
    "Anthropic": "/anthropic",
    "Gemini": "/google",
    "xAI": "/xai/v1",
    "any OpenAI-compatible endpoint": "/x/<name>/v1",
}
_OWN = "/_meter, /_truth, /_calls, /_requests, /_batches"


def serve(profile: Path | None, port: int, seed: int | None, console: Console, speed: float | None = None) -> Exit:
    """Serve until Ctrl-C; a seed or speed given here goes before the profile's.

    Raises:
        ConfigError: the profile cannot be used, or the port is taken.
    """
    chosen = _profile(profile)
    given = {name: value for name, value in (("seed", seed), ("speed", speed)) if value is not None}
    chosen = chosen.model_copy(update=given)
    try:
        asyncio.run(_serve(chosen, port, console))
    except OSError as error:
        raise ConfigError(f"--port {port}: cannot listen there: {error}; name another, or 0 for a free one") from None
    return Exit.COMPLETE


def serve_again(path: Path, port: int, console: Console) -> Exit:
    """Serve the answers in a file of `hab doctor --live` until Ctrl-C.

    Raises:
        ConfigError: the file cannot be used, or the port is taken.
    """
    recorded = _recording(path)
    try:
        asyncio.run(_serve_again(recorded, port, console))
    except OSError as error:
        raise ConfigError(f"--port {port}: cannot listen there: {error}; name another, or 0 for a free one") from None
    return Exit.COMPLETE


def _recording(path: Path) -> list[Recorded]:
    try:
        return parse_recording(decoded(bytes_of(path, _MAX_RECORDED_BYTES)))
    except (BadInput, RecordingUnusable) as error:
        raise ConfigError(one_line(f"--replay {path}: {error}; give a file that `hab doctor --live` wrote")) from None


async def _serve_again(recorded: list[Recorded], port: int, console: Console) -> None:
    asked_to_end = _asked_to_end()
    async with replaying(recorded, port) as url:
        console.print(f"{len(recorded)} recorded answers are served at {url}, to the same requests as then")
        for account in sorted({exchange.account for exchange in recorded}):
            console.print(f"  {account}: {url}/{account}", soft_wrap=True)
        console.print(f"the same sweep, asked again: hab doctor SWEEP --live --at {url}", soft_wrap=True)
        console.print("Ctrl-C ends it")
        await asked_to_end.wait()


def _profile(path: Path | None) -> Profile:
    if path is None:
        return Profile()
    try:
        return Profile.model_validate(yaml_file(path) or {})
    except BadInput as error:
        raise ConfigError(one_line(f"--profile {path}: {error}")) from None
    except ValidationError as error:
        lines = (one_line(f"--profile {path}: {'.'.join(map(str, e['loc']))}: {e['msg']}") for e in error.errors())
        raise ConfigError("\n".join(lines)) from None


def _asked_to_end() -> asyncio.Event:
    """Set once the user wants an end."""
    asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    return asked


async def _serve(profile: Profile, port: int, console: Console) -> None:
    asked_to_end = _asked_to_end()
    async with simulator(profile, port) as url:
        console.print(f"the simulator listens at {url}; any key is taken unless the profile lists some")
        for vendor, base in _BASES.items():
            console.print(f"  {vendor}: {url}{base}", soft_wrap=True)
        console.print(f"  what it counted: {url} + {_OWN}", soft_wrap=True)
        console.print("Ctrl-C ends it")
        await asked_to_end.wait()


@ends_with_status
def command(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0 takes a free one.")] = 0,
    profile: Annotated[Path | None, typer.Option(help="A YAML or JSON file of the simulator's settings.")] = None,
    seed: Annotated[int | None, typer.Option(help="The seed, instead of the profile's.")] = None,
    speed: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds of the batches' clock in one real second.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Serve the answers in a file of `hab doctor --live` instead.")
    ] = None,
) -> Exit:
    """Serve the vendors' protocols on this machine until Ctrl-C, for trying one's own client."""
    if replay is not None:
        if profile is not None or seed is not None or speed is not None:
            raise ConfigError("--replay: recorded answers know no --profile, --seed or --speed; leave them out")
        return serve_again(replay, port, console)
    return serve(profile, port, seed, console, speed)
