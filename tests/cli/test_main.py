"""What `hab` says of itself."""

from __future__ import annotations

from importlib.metadata import version

from typer.testing import CliRunner

from hab_ray.cli.main import app


def test_version() -> None:
    """The command, the package and its metadata name one version."""
    shown = CliRunner().invoke(app, ["--version"])
    assert shown.exit_code == 0
    assert shown.output == f"hab_ray {version('hab-ray')}\n"
