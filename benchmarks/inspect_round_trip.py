"""A run exported as Inspect logs and read back by the package inspect-ai: are counts and scores the same?

Run: python benchmarks/inspect_round_trip.py. inspect-ai comes into a virtual environment of its own: it pins packages
that the rest of the project has newer.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
INSIDE = "--inside"


def in_an_environment_of_its_own() -> int:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin/python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"{ROOT}[inspect]"], check=True)
        return subprocess.run([python, __file__, INSIDE], cwd=ROOT, check=False).returncode


def round_trip() -> int:
    sys.path.insert(0, str(ROOT))
    from inspect_ai.log import list_eval_logs, read_eval_log

    from hab_ray.exchange import export, licensed
    from hab_ray.results import open_run
    from tests.small_runs import HOSTILE, Shape, write_run

    with tempfile.TemporaryDirectory() as folder:
        shape = Shape(judges=("strict", "mild"), samples=2, fail=0.2, cut=0.1, text=HOSTILE)
        run = open_run(write_run(Path(folder) / "run", shape).run_path)
        export(run, "inspect", Path(folder) / "logs", "mit", licensed(run))
        logs = [read_eval_log(info) for info in list_eval_logs(str(Path(folder) / "logs"))]
        responses, verdicts = run.responses().to_pylist(), run.verdicts().to_pylist()
    samples = [(log.eval.model, sample) for log in logs for sample in log.samples or ()]
    read = Counter(
        (model, name, str(sample.id), sample.epoch - 1, score.as_float())
        for model, sample in samples
        for name, score in (sample.scores or {}).items()
    )
    written = Counter(
        (row["subject"], row["judge"], row["test_id"], row["sample"], row["score"] / 10)
        for row in verdicts
        if row["score"] is not None
    )
    texts = Counter((model, str(sample.id), sample.output.completion) for model, sample in samples)
    checks = {
        f"{len(logs)} logs, one for each subject and dimension": len(logs) == len(run.subjects) * len(run.dimensions),
        f"{len(samples)} samples, one for each response": len(samples) == len(responses),
        f"{read.total()} scores equal": read == written,
        "texts of the responses equal": texts == Counter((r["subject"], r["test_id"], r["text"]) for r in responses),
    }
    for what, holds in checks.items():
        print(f"{'PASS' if holds else 'FAIL'}: {what}")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(round_trip() if INSIDE in sys.argv else in_an_environment_of_its_own())
