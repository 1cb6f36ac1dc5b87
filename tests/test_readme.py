"""Every command of the README and of docs/, run or shown to be run by another test or by .ci/run."""

import json
import re
from pathlib import Path

import pytest

from hab_ray.config.sweep import load_sweep
from hab_ray.local import default_cache, pull
from hab_ray.results.run import Run
from hab_ray.rubric import load_rubrics
from tests.conftest import Desk, Vendors
from tests.small_runs import Shape, write_run

ROOT = Path(__file__).parent.parent
FEWER = 3
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))}
MAX_LINES, MAX_WORDS = 120, 15
OUR_WORDS = re.compile(r"\b(stranded|store store)\b")
ELSEWHERE = {
    "make demo": ".ci/run",
    "make test": ".ci/run",
    "git clone REPOSITORY hab_ray && cd hab_ray": "benchmarks/wheel.py",
    "uv tool install '.[figures]'": "benchmarks/wheel.py",
    "python3 -m venv .venv && . .venv/bin/activate && pip install '.[figures]'": "benchmarks/wheel.py",
    "hab init first.yaml": "tests/cli/test_starting.py",
    "hab rm": "tests/cli/test_runs.py",
    "hab run study.yaml": "tests/cli/test_people.py",
    "hab annotate": "tests/cli/test_people.py",
    "hab agreement": "tests/cli/test_people.py",
    "hab scores runs/rehearsal-small": "tests/cli/test_notebook.py",
    "hab figures runs/rehearsal-small": "tests/cli/test_notebook.py",
    "hab compare runs/study": "tests/cli/test_people.py",
    "hab compare runs/four published": "tests/cli/test_published.py",
    "hab export runs/first --format json --out more": "tests/cli/test_growing.py",
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
    "hab runs": "tests/cli/test_runs.py",
    "hab store gc": "tests/sweep/test_unused.py",
    "hab --install-completion": "tests/cli/test_main.py",
    "hab rehearse jobs/rehearsal.yaml": "test_the_rehearsal_at_the_papers_size_can_be_staged",
}
HERE = {
    "hab plan first.yaml",
    "hab doctor first.yaml",
    "hab run first.yaml",
    "hab status runs/first",
    "hab report runs/first",
    "hab scores runs/first --format markdown",
    "hab figures runs/first",
    "hab export runs/first --format hf --out first-data",
    "hab export runs/first --format csv --out first-data",
    "hab models gemini",
    "hab doctor jobs/small.yaml",
    "hab rubric check",
    "hab rubric check my_rubrics",
    "hab local pull smollm2-135m-instruct",
    "hab plan jobs/frontier.yaml",
    "hab plan jobs/frontier.yaml --long",
    "hab plan jobs/frontier.yaml --probe 3",
    "hab rehearse jobs/small.yaml",
    "hab simulate",
    "hab run jobs/quick.yaml --subject MODEL --judge MODEL",
}


def commands() -> list[str]:
    """What stands in the shell blocks of README and docs, without comments."""
    blocks = [block for page in PAGES.values() for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL)]
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
    """Every command of README and docs is run by a test or by .ci/run."""
    for command in commands():
        elsewhere = [place for start, place in ELSEWHERE.items() if command.startswith(start)]
        assert command in HERE or elsewhere, f"{command!r} is run by no test"
    ci = (ROOT / ".ci/run").read_text()
    assert "make demo" in ci and "make test" in ci


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    assert len(README.splitlines()) <= MAX_LINES
    for name, page in PAGES.items():
        folder = ROOT if name == "README.md" else ROOT / "docs"
        links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", page)]
        assert [link for link in links if link and "://" not in link and not (folder / link).exists()] == [], name


def test_words_of_our_own_come_with_the_glossary() -> None:
    glossary = PAGES["index.md"].partition("## Glossary")[2]
    assert 5 < len(re.findall(r"^\| (?!word|---)", glossary, re.MULTILINE)) <= MAX_WORDS
    for name, page in PAGES.items():
        if name not in ("index.md", "architecture.md"):  # which has one of its own
            assert "(index.md)" in page or not OUR_WORDS.search(page), name


@pytest.mark.long
def test_first_sweep(desk: Desk, vendor: Vendors) -> None:
    """As a reader of the README has it; planned as it is, run with a few of its tests against a simulator."""
    sweep = desk.folder / "first.yaml"
    sweep.write_text(sweep_in_readme("first"))
    plan = desk.says("plan", "first.yaml", status=2)
    assert "24 calls to pay" in plan and "OPENAI_API_KEY is not set" in plan
    at = {"openai": {"kind": "openai", "url": f"{vendor().url}/openai/v1", "priced_as": "openai"}}
    sweep.write_text(f"{with_fewer_tests(sweep)}mode: online\nproviders: {json.dumps(at)}\n")
    desk.says("doctor", "first.yaml")
    desk.says("run", "first.yaml", "--yes")
    desk.says("run", "first.yaml")  # nothing is left to pay, so nobody is asked
    assert f"respond  gpt-6-luna  {FEWER}" in re.sub(r" +", "  ", desk.says("status", "runs/first"))
    for form, out, file in (("csv", "first-data", "scores.csv"), ("hf", "first-hf", "evaluations.parquet")):
        desk.says("export", "runs/first", "--format", form, "--out", out)
        assert (desk.folder / out / file).is_file()
    scores = desk.says("scores", "runs/first", "--format", "markdown")
    assert "| gpt-6-luna |" in re.sub(r" +", " ", scores)
    desk.says("figures", "runs/first")
    assert "gpt-6-luna" in desk.says("report", "runs/first")


def test_commands_that_look_and_fetch(desk: Desk) -> None:
    weights = pull("smollm2-135m-instruct", cache=default_cache())
    assert str(weights) in desk.says("local", "pull", "smollm2-135m-instruct").replace("\n", "")
    assert desk.says("rubric", "check").count("sha256") == 8
    rubrics = desk.folder / "my_rubrics"
    rubrics.mkdir()
    (rubrics / "broken.yaml").write_text("id: other\n")
    assert "broken.yaml" in desk.says("rubric", "check", "my_rubrics", status=2)
    assert "calls to pay" in desk.says("plan", ROOT / "jobs/demo.yaml", "--model", weights)
    for more, told in (
        ((), "GEMINI_API_KEY is not set"),
        (("--long",), "smallest budget at which no call waits"),
        (("--probe", 3), "GEMINI_API_KEY is not set"),
    ):
        assert told in desk.says("plan", "jobs/frontier.yaml", *more, status=2)
    assert "gemini-3.8-flash" in desk.says("models", "gemini")
    assert "GEMINI_API_KEY" in desk.says("doctor", "jobs/small.yaml", status=2)


def test_asks_before_it_spends(desk: Desk, vendor: Vendors) -> None:
    """A sweep that costs money asks before it spends."""
    sim = vendor()
    sweep = desk.sweep("paid", sim.url, tests="seeds", generate=None, validate=None, select=None)
    sweep.write_text(sweep.read_text().replace("input: 0", "input: 1"))
    chosen = ["--subject", "sim/other", "--judge", "sim/judge"]
    done = desk.says("run", sweep, *chosen, status=2)
    assert "--yes" in done and "sim/other" in done
    assert sim.meter()["received"] == 0


def test_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python of README and results runs on a run of the first sweep's name."""
    write_run(tmp_path / "runs/first", Shape(dimensions=("encourage_learning",)))
    monkeypatch.chdir(tmp_path)
    blocks = [
        b for name in ("README.md", "results.md") for b in re.findall(r"```python\n(.*?)```", PAGES[name], re.DOTALL)
    ]
    assert len(blocks) == 2
    for block in blocks:
        found: dict[str, object] = {}
        exec(compile(block, "README.md", "exec"), found)
        assert isinstance(found["run"], Run) and found["run"].verdicts(dimension="encourage_learning").num_rows
