"""The entry point of `ray job submit`: `hab run` on the cluster the job runs on.

ray job submit --working-dir . -- python jobs/sweep.py jobs/demo.yaml

`ray job stop` sends SIGTERM and, 3 s later, SIGKILL: set RAY_JOB_STOP_WAIT_TIME_S=30 where the cluster is started, so
that open calls have their time to be answered.
"""

from __future__ import annotations

import sys

from hab_ray.cli.main import main

if __name__ == "__main__":
    main(["run", *sys.argv[1:]])
