"""The entry point of `ray job submit`: `hab run` on the cluster the job runs on.

ray job submit --working-dir . -- python jobs/sweep.py jobs/demo.yaml
"""

from __future__ import annotations

import sys

from hab_ray.cli.main import app

if __name__ == "__main__":
    app(["run", *sys.argv[1:]], prog_name="jobs/sweep.py")
