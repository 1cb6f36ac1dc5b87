"""Asks a model 100 questions through bespokelabs-curator; run by `foreign_clients` with an interpreter that has it.

Arguments: a JSON object with `model`, `url`, `rows`, `batch` and `folder`. Prints
`answered: N`.
"""

from __future__ import annotations

import json
import sys

from bespokelabs import curator


def main() -> None:
    """Ask, and count the answers that have a text."""
    given = json.loads(sys.argv[1])
    parameters = {"base_url": given["url"], "max_retries": 1, "require_all_responses": False}
    if given["batch"]:
        parameters |= {"batch_size": given["rows"], "batch_check_interval": 1}
    model = curator.LLM(
        model_name=given["model"],
        backend="openai",
        batch=given["batch"],
        backend_params=parameters,
        generation_params={"max_tokens": 800},
    )
    questions = [f"Question {n}: what would you ask first?" for n in range(given["rows"])]
    answers = model(questions, working_dir=given["folder"])
    found = answers.dataset if hasattr(answers, "dataset") else answers
    print("answered:", sum(bool(row["response"]) for row in found))


if __name__ == "__main__":
    main()
