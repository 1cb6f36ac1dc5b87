"""`hab local`: download open-weight models."""

from typing import Annotated

import typer

from hab_ray.cli.ending import ends_with_status, say
from hab_ray.errors import ConfigError, Exit
from hab_ray.local import LocalError, default_cache, pull, sha256_of

command = typer.Typer(help="Download open-weight models to serve on this machine.", no_args_is_help=True)


@command.command("pull")
@ends_with_status
def pull_command(
    name: Annotated[str, typer.Argument(help="A known name, hf:<owner>/<repo>/<file>.gguf, or a .gguf file.")],
) -> Exit:
    """Download and verify weights, once per user."""
    try:
        path = pull(name, cache=default_cache())
    except LocalError as error:
        raise ConfigError(str(error)) from None
    say(str(path))
    say(f"sha256 {sha256_of(path)}")
    return Exit.COMPLETE
