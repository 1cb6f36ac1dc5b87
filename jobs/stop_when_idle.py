"""Terminates this EC2 instance once its Ray job server has been idle for some minutes; for the head of cluster.yaml.

    python jobs/stop_when_idle.py --region us-east-1 --minutes 30

Its instance profile must allow ec2:TerminateInstances, which Ray's autoscaler needs anyway. A job server that does not
answer counts as idle, since a head without one is useless.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any
from urllib.request import Request, urlopen

METADATA = "http://169.254.169.254/latest"
LOOK_EVERY_S = 30.0
ANSWER_S = 10.0


def wait_until_idle(is_busy: Callable[[], bool], idle_s: float, look_every_s: float = LOOK_EVERY_S) -> None:
    """Return once `is_busy` has been false for `idle_s` seconds."""
    busy_at = time.monotonic()
    while time.monotonic() - busy_at < idle_s:
        time.sleep(min(look_every_s, idle_s))
        if is_busy():
            busy_at = time.monotonic()


def has_jobs(address: str) -> bool:
    """Return whether a job is pending or running."""
    from ray.job_submission import JobSubmissionClient

    try:
        jobs = JobSubmissionClient(address).list_jobs()
    except Exception as error:  # Ray raises many unrelated types
        print(f"the job server does not answer: {error}", flush=True)
        return False
    return any(not job.status.is_terminal() for job in jobs)


def this_instance(metadata: str = METADATA) -> str:
    """Return the id of this EC2 instance, from the metadata service (IMDSv2)."""
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    with urlopen(Request(f"{metadata}/api/token", headers=lifetime, method="PUT"), timeout=ANSWER_S) as answer:
        token = answer.read().decode()
    named = Request(f"{metadata}/meta-data/instance-id", headers={"X-aws-ec2-metadata-token": token})
    with urlopen(named, timeout=ANSWER_S) as answer:
        return str(answer.read().decode())


def terminate(client: Any, instance: str) -> None:
    """Terminate an instance."""
    client.terminate_instances(InstanceIds=[instance])


def main() -> None:
    """Wait until the cluster is idle, then terminate this instance."""
    import boto3

    parser = argparse.ArgumentParser(description="Terminate this EC2 instance once its Ray cluster is idle.")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--region")
    parser.add_argument("--address", default="http://127.0.0.1:8265")
    given = parser.parse_args()
    instance = this_instance()
    wait_until_idle(lambda: has_jobs(given.address), 60 * given.minutes)
    print(f"no job for {given.minutes:g} minutes: terminating {instance}", flush=True)
    terminate(boto3.client("ec2", region_name=given.region), instance)


if __name__ == "__main__":
    main()
