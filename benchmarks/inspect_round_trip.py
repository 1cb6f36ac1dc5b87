"""A run exported as Inspect logs and read back by the package inspect-ai: are counts and scores the same?

Run: python benchmarks/inspect_round_trip.py. inspect-ai comes into a virtual environment of its own: it pins packages
that the rest of the project has newer.
"""

import re
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
INSIDE = "--inside"


def in_an_environment_of_its_own() -> int:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin/python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"{ROOT}[inspect]"], check=True)
        return subprocess.run([python, __file__, INSIDE], cwd=ROOT, check=False).returncode


def samples_of(logs: list[Any]) -> list[tuple[str, Any]]:
    """Every sample with the name of its subject."""
    return [(log.eval.model, sample) for log in logs for sample in log.samples or ()]


def plain_run(text: str) -> str:
    """The longest run of letters and spaces in a text, which stands in JSON as it is."""
    runs: list[str] = re.findall("[A-Za-z ]+", text)
    return max(runs, key=len)


def scores_of(samples: list[tuple[str, Any]]) -> Counter[tuple[str, str, str, int, float]]:
    """Subject, rater, test, sample number and value of every score."""
    return Counter(
        (model, name, str(sample.id), sample.epoch - 1, score.as_float())
        for model, sample in samples
        for name, score in (sample.scores or {}).items()
    )


def round_trip() -> int:
    sys.path.insert(0, str(ROOT))
    from inspect_ai.log import list_eval_logs, read_eval_log

    from hab_ray.analysis.sources import Source, Texts
    from hab_ray.analysis.summary import summarise
    from hab_ray.exchange import Sharing, export, licensed
    from hab_ray.inputs.origin import Origin
    from hab_ray.report import write_scores
    from hab_ray.results import open_run
    from tests.small_runs import HOSTILE, Shape, write_run

    with tempfile.TemporaryDirectory() as folder:
        shape = Shape(judges=("strict", "mild"), samples=2, fail=0.2, cut=0.1, text=HOSTILE)
        run = open_run(write_run(Path(folder) / "run", shape).run_path)
        write_scores(summarise(run))
        export(run, "inspect", Path(folder) / "logs", "mit", licensed(run))
        logs = [read_eval_log(info) for info in list_eval_logs(str(Path(folder) / "logs"))]
        headers = [read_eval_log(info, header_only=True) for info in list_eval_logs(str(Path(folder) / "logs"))]
        means = {(row["subject"], row["dimension"]): row["mean"] for row in run.scores(judge="panel").to_pylist()}
        elsewhere = Origin(source="elsewhere")
        sources = (
            Source(Texts.QUERIES, run.dimensions, 0, elsewhere),
            Source(Texts.ANSWERS, run.subjects, 0, elsewhere),
        )
        export(run, "inspect", Path(folder) / "held", "mit", Sharing((), sources))
        held = [read_eval_log(info) for info in list_eval_logs(str(Path(folder) / "held"))]
        queries = {plain_run(row["prompt"]) for row in run.tests().to_pylist()}
        responses, verdicts = run.responses().to_pylist(), run.verdicts().to_pylist()
    samples = samples_of(logs)
    read = scores_of(samples)
    written = Counter(
        (row["subject"], row["judge"], row["test_id"], row["sample"], row["score"] / 10)
        for row in verdicts
        if row["score"] is not None
    )
    shown = {(log.eval.model, str(log.eval.dataset.name)): log.results.scores[0] for log in headers}
    tokens = sum(usage.total_tokens for log in headers for usage in log.stats.model_usage.values())
    asked, completed = (
        sum(getattr(log.results, name) for log in headers) for name in ("total_samples", "completed_samples")
    )
    rows = [*responses, *verdicts]
    texts = Counter((model, str(sample.id), sample.output.completion) for model, sample in samples)
    said = "".join(sample.model_dump_json() for _, sample in samples_of(held))
    checks = {
        f"{len(logs)} logs, one for each subject and dimension": len(logs) == len(run.subjects) * len(run.dimensions),
        f"{len(samples)} samples, one for each response": len(samples) == len(responses),
        f"{asked} samples asked for": asked == len(run.subjects) * len(run.dimensions) * shape.tests * shape.samples,
        f"{completed} samples completed, those without an error": completed
        == sum(row["state"] == "ok" for row in responses)
        < len(responses),
        f"{read.total()} scores equal": read == written,
        "the list shows the panel's mean": all(
            score.name == "panel" and score.metrics["mean"].value == means[log] for log, score in shown.items()
        ),
        f"{tokens} tokens, all that were used": tokens
        == sum(r["input_tokens"] + r["output_tokens"] for r in rows if r["input_tokens"] is not None),
        "texts of the responses equal": texts == Counter((r["subject"], r["test_id"], r["text"]) for r in responses),
        "scores are equal where texts are left out": scores_of(samples_of(held)) == written,
        f"{len(queries)} queries and all answers are left out": not any(text in said for text in queries),
        "samples name what is left out": said.count('"left_out":["queries","answers"]') == len(responses),
    }
    for what, holds in checks.items():
        print(f"{'PASS' if holds else 'FAIL'}: {what}")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(round_trip() if INSIDE in sys.argv else in_an_environment_of_its_own())
