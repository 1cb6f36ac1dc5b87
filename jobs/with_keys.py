"""Runs a command with keys from AWS's parameter store in its environment; they appear in no file and no argument.

    python jobs/with_keys.py --region us-east-1 /hab/ -- ray start --head

Each parameter below the path becomes a variable named by its last part: /hab/OPENAI_API_KEY becomes OPENAI_API_KEY. A
secret of the Secrets Manager can be read as a parameter, too: see AWS's "Referencing Secrets Manager secrets".
RAY_AUTH_MODE is set to `token` if there is a RAY_AUTH_TOKEN, else to `disabled`.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any


def parameters(client: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the name and value of a variable for each parameter directly below a path."""
    for page in client.get_paginator("get_parameters_by_path").paginate(Path=path, WithDecryption=True):
        for parameter in page["Parameters"]:
            yield parameter["Name"].rsplit("/", 1)[-1], parameter["Value"]


def environment(found: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the command; variables that are already set take precedence."""
    mode = "token" if "RAY_AUTH_TOKEN" in {**found, **os.environ} else "disabled"
    return {"RAY_AUTH_MODE": mode, **found, **os.environ}


def main() -> None:
    """Replace this process by the command."""
    import boto3

    parser = argparse.ArgumentParser(description="Run a command with keys from AWS's parameter store.")
    parser.add_argument("--region")
    parser.add_argument("path", help="e.g. /hab/")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    found = dict(parameters(boto3.client("ssm", region_name=given.region), given.path))
    print(f"from {given.path}: {', '.join(sorted(found)) or 'nothing'}", file=sys.stderr, flush=True)
    os.execvpe(given.command[0], given.command, environment(found))


if __name__ == "__main__":
    main()
