"""Asks a model 100 questions through inspect-ai; run by `foreign_clients` with an interpreter that has inspect-ai.

Arguments: a JSON object with `model`, `url`, `rows`, `batch` and `folder`. Prints
`answered: N`.
"""

from __future__ import annotations

import json
import sys

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import BatchConfig, GenerateConfig
from inspect_ai.solver import generate


def main() -> None:
    """Ask, and count the answers that have a text."""
    given = json.loads(sys.argv[1])
    batch = BatchConfig(size=given["rows"], send_delay=2, tick=1) if given["batch"] else None
    (log,) = eval(
        Task(
            dataset=[Sample(input=f"Question {n}: what would you ask first?") for n in range(given["rows"])],
            solver=generate(),
            config=GenerateConfig(max_tokens=4000, batch=batch),
        ),
        model=given["model"],
        model_base_url=given["url"],
        log_dir=given["folder"],
        display="none",
        max_samples=given["rows"],
        max_connections=20,
        fail_on_error=False,
    )
    samples = log.samples or []
    for text in {sample.error.message for sample in samples if sample.error}:
        print(text[:500])
    print("answered:", sum(bool(sample.output and sample.output.completion) for sample in samples))


if __name__ == "__main__":
    main()
