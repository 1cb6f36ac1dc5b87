"""Every command of the README, run or shown to be run by another test or by .ci/run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from hab_ray.config import load_sweep
from hab_ray.local import default_cache, pull
from hab_ray.results.run import Run
from hab_ray.rubric import load_rubrics
from tests.conftest import Desk, Vendor
from tests.small_runs import Shape, write_run

ROOT = Path(__file__).parent.parent
FEWER = 3
README = (ROOT / "README.md").read_text(encoding="utf-8")
ELSEWHERE = {
    "make demo": ".ci/run",
    "make test": ".ci/run",
    "ray job submit": "tests/cluster/test_jobs.py",
    "hab run SWEEP.yaml": "tests/cli/test_batches.py",
    "hab batches": "tests/cli/test_batches.py",
    "hab doctor jobs/small.yaml --live --batch": "tests/cli/test_doctor.py",
    "hab plan jobs/judge-bridge.yaml": "tests/cli/test_bridge.py",
    "hab rehearse jobs/judge-bridge.yaml": "tests/cli/test_bridge.py",
    "hab run jobs/judge-bridge.yaml": "tests/cli/test_bridge.py",
    "hab import rubrics CHECKOUT": "tests/exchange/imports/test_rubrics.py",
    "hab import responses published && hab import verdicts published": "tests/cli/test_bridge.py",
    "hab rehearse jobs/experiments/seventh-dimension.yaml": "tests/rehearse/test_experiments.py",
    "hab rehearse jobs/rehearsal.yaml": "test_the_rehearsal_at_the_papers_size_can_be_staged",
}
HERE = {
    "hab run first.yaml",
    "hab status runs/first",
    "hab report runs/first",
    "hab export runs/first --format hf --out first-data",
    ".venv/bin/hab run jobs/demo.yaml --model PATH.gguf",
    "hab models gemini",
    "hab doctor jobs/small.yaml",
    "hab rubric check",
    "hab rubric check my_rubrics",
    "hab local pull smollm2-135m-instruct",
    "hab plan jobs/frontier.yaml",
    "hab plan jobs/frontier.yaml --probe 3",
    "hab rehearse jobs/small.yaml",
    "hab simulate",
    "hab run jobs/quick.yaml --subject MODEL --judge MODEL",
}


def commands() -> list[str]:
    """What stands in the README's shell blocks, without comments."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = (line.split("#")[0].strip() for block in blocks for line in block.splitlines())
    return [line for line in lines if line]


def sweep_in_readme(name: str) -> str:
    blocks = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    return str(next(block for block in blocks if block.startswith(f"name: {name}")))


def with_fewer_tests(sweep: Path) -> str:
    """A sweep's text that names a file with the first of its seed queries, written beside it."""
    dimension = load_sweep(sweep).dimensions[0]
    seeds = load_rubrics()[dimension].seeds[:FEWER]
    tests = sweep.with_name("tests.jsonl")
    tests.write_text("".join(json.dumps({"dimension": dimension, "prompt": seed.prompt}) + "\n" for seed in seeds))
    return sweep.read_text().replace("tests: seeds", f"tests: {tests.name}")


def test_commands_are_run() -> None:
    """Every command of the README is run by a test or by .ci/run."""
    for command in commands():
        elsewhere = [place for start, place in ELSEWHERE.items() if command.startswith(start)]
        assert command in HERE or elsewhere, f"README.md: {command!r} is run by no test"
    ci = (ROOT / ".ci/run").read_text()
    assert "make demo" in ci and "make test" in ci


@pytest.mark.long
@pytest.mark.xdist_group("own ray")
@pytest.mark.timeout(1500)
def test_first_sweep(desk: Desk) -> None:
    """As a reader of the README has it; planned whole, run with a few of its tests."""
    sweep = desk.folder / "first.yaml"
    sweep.write_text(sweep_in_readme("first"))
    plan = desk.hab("plan", sweep)
    assert plan.returncode == 0 and "24 calls to pay" in plan.stdout
    sweep.write_text(with_fewer_tests(sweep))
    done = desk.hab(*shlex.split("run first.yaml"))
    assert "measure nothing" in done.stdout and "unreadable verdicts: smollm2-135m" in done.stdout
    none_is_read = f"judge: none of the {FEWER} rows" in done.stdout  # as a rule: its judge copies the template
    assert done.returncode == (5 if none_is_read else 0), done.stdout
    status = desk.hab(*shlex.split("status runs/first"))
    assert status.returncode == 0 and f"respond  smollm2-135m  {FEWER}" in re.sub(r" +", "  ", status.stdout)
    export = desk.hab(*shlex.split("export runs/first --format hf --out first-data"))
    assert export.returncode == 0 and (desk.folder / "first-data/evaluations.parquet").is_file(), export.stdout
    report = desk.hab(*shlex.split("report runs/first"))
    assert report.returncode == 0 and "smollm2-135m" in report.stdout


def test_commands_that_look_and_fetch(desk: Desk) -> None:
    weights = pull("smollm2-135m-instruct", cache=default_cache())
    assert str(weights) in desk.hab("local", "pull", "smollm2-135m-instruct").stdout.replace("\n", "")
    assert desk.hab("rubric", "check").stdout.count("sha256") == 8
    rubrics = desk.folder / "my_rubrics"
    rubrics.mkdir()
    (rubrics / "broken.yaml").write_text("id: other\n")
    checked = desk.hab("rubric", "check", "my_rubrics")
    assert checked.returncode == 2 and "broken.yaml" in checked.stdout
    demo = ROOT / "jobs/demo.yaml"
    plan = desk.hab("plan", demo, "--model", weights)
    assert plan.returncode == 0 and "calls to pay" in plan.stdout
    assert "GEMINI_API_KEY is not set" in desk.hab("plan", "jobs/frontier.yaml").stdout
    models = desk.hab("models", "gemini")
    assert models.returncode == 0 and "gemini-3.8-flash" in models.stdout
    doctor = desk.hab("doctor", "jobs/small.yaml")
    assert doctor.returncode == 2 and "GEMINI_API_KEY" in doctor.stdout
    probe = desk.hab("plan", "jobs/frontier.yaml", "--probe", 3)
    assert probe.returncode == 2 and "GEMINI_API_KEY is not set" in probe.stdout


def test_asks_before_it_spends(desk: Desk, vendor: Callable[..., Vendor]) -> None:
    """A sweep that costs money asks before it spends."""
    sim = vendor()
    sweep = desk.sweep("paid", sim.url, tests="seeds", generate=None, validate=None, select=None)
    sweep.write_text(sweep.read_text().replace("input: 0", "input: 1"))
    chosen = ["--subject", "sim/other", "--judge", "sim/judge"]
    done = desk.hab("run", sweep, *chosen)
    assert done.returncode == 2 and "--yes" in done.stdout and "sim/other" in done.stdout
    assert sim.meter()["received"] == 0


def test_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's Python runs on a run of its first sweep's name."""
    write_run(tmp_path / "runs/first", Shape(dimensions=("encourage_learning",)))
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    for block in blocks:
        found: dict[str, object] = {}
        exec(compile(block, "README.md", "exec"), found)
        assert isinstance(found["run"], Run) and found["run"].verdicts(dimension="encourage_learning").num_rows
