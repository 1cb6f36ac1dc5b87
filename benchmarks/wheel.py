"""Builds wheel and sdist, installs each into an empty environment, and rehearses a sweep that ships.

    python -m benchmarks.wheel

Nothing of the checkout is on the path: what works here works from a package index. The wheel is installed without
extras, the sdist with those for figures. Prints how long each step takes and ends with status 1 where one fails.
"""

import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from benchmarks.campaigns import ROOT

COMMANDS = (("--version",), ("sweeps", "small"), ("rubric", "check"), ("rehearse", "jobs/small.yaml"))
FIGURES = ("figures", "runs/rehearsal-small")


def built(folder: Path) -> list[Path]:
    """The wheel and the sdist of the checkout."""
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return sorted(folder.iterdir())


def rehearsed(package: Path, folder: Path) -> bool:
    """Whether a package, installed into an environment of its own, does what the README says."""
    is_wheel = package.suffix == ".whl"
    wanted, commands = (str(package), COMMANDS) if is_wheel else (f"{package}[figures]", (*COMMANDS, FIGURES))
    home, work = folder / "venv", folder / "work"
    work.mkdir(parents=True)
    venv.create(home, with_pip=True)
    begun = time.monotonic()
    pip = [str(home / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted]
    subprocess.run(pip, check=True, cwd=work)
    print(
        f"{package.name}: {package.stat().st_size / 1e6:.1f} MB, installed in {time.monotonic() - begun:.0f} s",
        flush=True,
    )
    for arguments in commands:
        begun = time.monotonic()
        done = subprocess.run([str(home / "bin/hab"), *arguments], cwd=work, capture_output=True, text=True)
        print(f"  hab {' '.join(arguments)}: status {done.returncode}, {time.monotonic() - begun:.0f} s", flush=True)
        if done.returncode:
            print(done.stdout, done.stderr)
            return False
    return True


def main() -> int:
    """The exit status."""
    with tempfile.TemporaryDirectory() as folder:
        packages = built(Path(folder) / "dist")
        return 0 if all([rehearsed(package, Path(folder) / package.name) for package in packages]) else 1


if __name__ == "__main__":
    sys.exit(main())
