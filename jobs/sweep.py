r"""The entry point of `ray job submit`: `hab run` on the cluster that the job runs on.

    ray job submit --address http://HEAD:8265 --working-dir . --runtime-env jobs/runtime_env.yaml -- \
        python jobs/sweep.py jobs/quick.yaml --run s3://BUCKET/hab/runs/quick --store s3://BUCKET/hab/store --yes

The same line submitted again goes on where the last job ended, however that was. The last line of the job's log, which
Ray also keeps in the message of a job that failed, says with which exit status `hab run` ended and what it means.
"""

from __future__ import annotations

import sys

from hab_ray.cli.main import main

if __name__ == "__main__":
    main(["run", *sys.argv[1:]])
