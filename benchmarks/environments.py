"""Python environments for programs that nobody here wrote, apart from this project's own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path


def environment(folder: Path, packages: Sequence[str]) -> Path:
    """The interpreter of an environment with these packages, made below `folder` unless it is there already.

    Raises:
        subprocess.CalledProcessError: they could not be installed.
    """
    place = folder / f"{packages[0].partition('=')[0]}-{sha256(' '.join(packages).encode()).hexdigest()[:8]}"
    python, done = place / "bin" / "python", place / "installed"
    if done.exists():
        return python
    shutil.rmtree(place, ignore_errors=True)
    uv = shutil.which("uv")
    if uv:
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, place], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *packages], check=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        quiet = ["--quiet", "--quiet", "--disable-pip-version-check"]
        subprocess.run([python, "-m", "pip", "install", *quiet, *packages], check=True)
    done.touch()
    return python
