"""What a process loads that runs a few statements."""

import subprocess
import sys


def modules_after(statements: str) -> set[str]:
    """Return the modules that a new process has loaded after these statements."""
    code = f"{statements}\nimport sys; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())
