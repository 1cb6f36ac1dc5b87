r"""Entry point for `ray job submit`: runs `hab run` on the cluster of the job.

    ray job submit --address http://HEAD:8265 --working-dir . --runtime-env jobs/runtime_env.yaml -- \
        python jobs/sweep.py jobs/quick.yaml --run s3://BUCKET/hab/runs/quick --store s3://BUCKET/hab/store --yes

Submit the same command again to resume, however the last job ended. The last line of the job's log gives the exit
status of `hab run` and its meaning; Ray also shows it in the message of a failed job.
"""

import sys

from hab_ray.cli.main import main

if __name__ == "__main__":
    main(["run", *sys.argv[1:]])
