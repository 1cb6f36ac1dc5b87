"""`hab rehearse` and `hab simulate` as a user runs them, through Ray and every vendor's protocol."""

import csv
import json
import re
import secrets
import shlex
import signal
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from hab_ray.analysis.evidence.making import fewer_tests
from hab_ray.cli.commands.preparing import simulate
from hab_ray.cli.commands.preparing.simulate import addresses
from hab_ray.location import Location
from hab_ray.results import open_run
from hab_ray.rows import State, Validation
from hab_ray.stages.views import validations_file
from hab_ray.storage.run import RunFolder
from tests.conftest import Desk, Vendors, ended

FRONTIER = yaml.safe_load((Path(__file__).parents[2] / "jobs/frontier.yaml").read_text())
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "XAI_API_KEY")


def fake_key() -> str:
    """A key that can be recognised wherever it turns up, and stands in no source."""
    return f"sk-{secrets.token_hex(24)}"


def traces(folder: Path, keys: list[str]) -> list[str]:
    """The files below a folder that hold one of the keys."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [str(path) for path in files if any(key.encode() in path.read_bytes() for key in keys)]


def test_frontier(desk: Desk) -> None:
    """Twenty subjects and three judges are recovered exactly, also behind a proxy and beside a file called types.py."""
    subjects, judges = FRONTIER["subjects"], FRONTIER["judges"]
    keys = {name: fake_key() for name in KEYS}
    desk.environment |= keys | dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    folder = desk.folder
    (folder / "types.py").write_text("raise SystemExit('imported in place of the standard library')")
    dimensions = ["correct_misinformation"]
    made = {"dimensions": dimensions, "tests": desk.seeds(dimensions, each=1)}
    path = desk.write("frontier", executor="local", mode="online", subjects=subjects, judges=judges, **made)
    done = desk.says("rehearse", path)
    assert len(subjects) == 20 and len(judges) == 3
    assert f"{20 * 4} of {20 * 4} scores by dimension" in done
    assert "the bills agree" in done and "80 simulated calls sent; no call was billed twice" in done
    assert re.search(r"simulated bill: \$0\.0*[1-9]", done)
    assert done.splitlines()[-1] == f"passed; next: hab plan {path}"
    run = folder / "runs/rehearsal-frontier"
    means = {row["mean"] for row in pq.read_table(run / "scores.parquet").to_pylist()}
    assert len(means) > 10
    assert traces(folder, list(keys.values())) == [] and not any(key in done for key in keys.values())


def test_answers_that_are_asked_for_twice_are_not_called_billed_twice(desk: Desk) -> None:
    made = {"tests": desk.seeds(["correct_misinformation"], each=1), "dimensions": ["correct_misinformation"]}
    asked = {"subjects": ["gpt-6-luna"], "judges": ["claude-sonnet-5-5"], "samples": 2}
    done = desk.says("rehearse", desk.write("twice", executor="local", mode="online", **asked, **made))
    assert "4 simulated calls sent; " in done and "the bills agree" in done and "billed more than once" not in done


def test_generated_tests(desk: Desk) -> None:
    """Misinformation candidates come in three parts, so that no mark of the simulator's own survives in them."""
    path = desk.write(
        "generated",
        executor="local",
        dimensions=["correct_misinformation", "encourage_learning"],
        generate={"model": "gpt-4.1", "candidates": 12},
        validate={"model": "claude-haiku-4-5", "keep": 8, "floor": 980},
        select={"embedding": "text-embedding-3-small", "tests": 8},
        subjects=["gemini-3.8-flash", "smollm2-135m"],
        judges=["gpt-6.1-terra"],
        samples=2,
    )
    done = desk.says("rehearse", path, "--seed", 3)
    assert "8 of 8 scores by dimension" in done
    made = r"\d+ of the 16 tests asked for were made from 24 candidates; dropped: \d+ with a score below 980"
    assert re.search(made, done), done
    run = open_run(Location.of(desk.folder / "runs/rehearsal-generated"))
    file = validations_file("encourage_learning")
    first, *others = RunFolder(run.location).read(Validation, file)
    RunFolder(run.location).write(Validation, file, [replace(first, state=State.UNREADABLE, score=None), *others])
    assert "24 candidates; dropped: 1 without a readable validation, " in fewer_tests(run)


def test_faults_and_a_judge_that_errs(desk: Desk) -> None:
    """Faults change no score; a judge that errs is noticed."""
    folder = desk.folder
    faults = folder / "faults.yaml"
    calls = [
        {"kind": "status", "status": 429, "retry_after_s": 0.1, "probability": 0.1, "first_attempts": 2},
        {"kind": "truncated", "probability": 0.1, "first_attempts": 1},
    ]
    faults.write_text(yaml.safe_dump({"calls": calls}))
    dimensions = ["defer_important_decisions", "encourage_learning"]
    path = desk.write(
        "hurt",
        executor="local",
        dimensions=dimensions,
        tests=desk.seeds(dimensions, each=5),
        subjects=["claude-haiku-5-5", "gpt-6-luna"],
        judges=["gemini-3.8-flash"],
    )
    done = desk.says("rehearse", path, "--faults", faults)
    assert "8 of 8 scores by dimension" in done
    lost = re.search(r"lost: \$(\d+\.\d{9}) in (\d+) calls", done)
    assert lost and float(lost[1]) > 0 and int(lost[2]) > 0
    wrong = desk.says("rehearse", path, "--judge-error", 0.5, status=1)
    recovered = re.search(r"(\d+) of 8 scores by dimension", wrong)
    assert recovered and int(recovered[1]) < 8
    assert "planted" in wrong and "the bills agree" in wrong and "passed" not in wrong
    assert re.search(r"FAILED: \d+ checks?: .*scores \(\d+ problems", wrong)


def test_refusals(desk: Desk) -> None:
    """A store of paid replies and a bad file of faults are refused."""
    paid = desk.folder / "store/replies/m/wal-000001-x.000001.arrow"
    paid.parent.mkdir(parents=True)
    paid.write_bytes(b"a paid reply")
    path = desk.write("s", executor="local", tests="seeds", subjects=["gpt-6-luna"], judges=["gpt-6-luna"])
    (desk.folder / "faults.yaml").write_text("calls: [{kind: sneeze, probability: 1}]\n")
    for option, value, word in (("--store", "store", "--store store"), ("--faults", "faults.yaml", "sneeze")):
        done = desk.says("rehearse", path, option, value, status=2)
        assert word in done and "Traceback" not in done
    assert not (desk.folder / "runs/rehearsal-s/replies").exists()


def test_a_rehearsals_answers_are_rated_like_a_runs(desk: Desk) -> None:
    """Ratings of a sheet of the rehearsal's are read by the next one; others are said to be left out."""
    dimensions = ["encourage_learning"]
    given = {"dimensions": dimensions, "tests": desk.seeds(dimensions, each=3)}
    path = desk.write("rated", executor="local", subjects=["gpt-6-luna"], judges=["gpt-4.1"], **given)
    (desk.folder / "ratings.csv").write_text("rater,dimension,subject,prompt,score\n")
    rated = yaml.safe_load(path.read_text()) | {"raters": ["ratings.csv"]}
    path.write_text(yaml.safe_dump(rated))
    assert "`raters:` is left out" in desk.says("rehearse", path)
    drawn = desk.says("annotate", "sheet", "runs/rehearsal-rated", "--out", "sheets", "--raters", 1, "--per-subject", 2)
    assert "give `hab rehearse` with the same options again" in drawn
    with (desk.folder / "sheets/R1.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = [row | {"issues": "none"} for row in csv.DictReader(file)]
    with (desk.folder / "ratings.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    figure = desk.folder / "runs/rehearsal-rated/figures/mine.svg"
    figure.parent.mkdir()
    figure.touch()
    rehearsed = desk.says("rehearse", path)
    assert "2 ratings by 1 rater" in rehearsed and figure.exists()
    assert rehearsed.splitlines()[-1] == "passed; next: hab agreement runs/rehearsal-rated"
    assert "rehearsal's simulated replies" in desk.says("run", path, "--run", "runs/rehearsal-rated", status=2)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder for a Ray session: its sockets' paths must be short."""
    with tempfile.TemporaryDirectory(prefix="hab-", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


OWN_RAY = (pytest.mark.long, pytest.mark.xdist_group("own ray"), pytest.mark.bench)


@pytest.mark.parametrize("executor", ["local", pytest.param("ray", marks=OWN_RAY)])
def test_keys_leave_no_trace(desk: Desk, vendor: Vendors, short_folder: Path, executor: str) -> None:
    """Ray's workers have their environment from a node of their own; one of the keys is refused.

    Of a job on a cluster with a server, `make test` looks for keys in `tests/cluster/test_jobs.py`.
    """
    keys = {f"FAKE_{name}": fake_key() for name in ("openai", "anthropic", "google")}
    sim = vendor(accounts={"google": {"keys": ["another"]}})
    bases = {"openai": "/openai/v1", "anthropic": "/anthropic", "google": "/google"}
    played = {"price": {"input": 0, "output": 0}, "models": {"claude-test": {"sampling": "fixed"}}}
    path = desk.write(
        "keys",
        executor=executor,
        dimensions=["encourage_learning"],
        tests=desk.tests(3),
        providers={
            name: {"kind": name, "url": sim.url + base, "key_env": f"FAKE_{name}", **played}
            for name, base in bases.items()
        },
        subjects=["openai/gpt-4.1", "anthropic/claude-test", "google/gemini-test"],
        judges=["openai/gpt-4.1-mini"],
    )
    desk.environment |= keys | {"RAY_ADDRESS": "", "RAY_TMPDIR": str(short_folder)}
    done = ended(desk.start_afresh("run", path, "--verbose"))
    assert done.returncode == 5 and "API_KEY_INVALID" in done.stdout, done.stdout
    billed = {model["account"]: model["billed"] for model in sim.meter()["models"]}
    assert billed["openai"] > 0 and billed["anthropic"] > 0
    assert not any(key in done.stdout for key in keys.values())
    assert traces(desk.folder, list(keys.values())) == []
    assert executor == "local" or traces(short_folder, list(keys.values())) == []


def test_the_simulator_in_the_foreground(desk: Desk) -> None:
    (desk.folder / "profile.yaml").write_text("accounts: {x/mine: {models: {m: {}}}}\n")
    there = replace(desk, environment={"PYTHONFAULTHANDLER": "1"})
    process = there.start_afresh("simulate", "--profile", "profile.yaml", "--seed", 7)
    assert process.stdout
    said = ""
    while "Ctrl-C" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    url = re.search(r"listens at (http://\S+?);", said)
    assert url and f"{url[1]}/anthropic" in said and f"{url[1]}/x/<name>/v1" in said
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello"}]}).encode()
    headers = {"Authorization": "Bearer any", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url[1]}/x/mine/v1/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=10) as response:
        assert json.load(response)["choices"][0]["message"]["content"]
    port = url[1].rpartition(":")[2]
    assert f"--port {port}" in desk.says("simulate", "--port", port, status=2)
    process.send_signal(signal.SIGINT)
    try:
        assert process.wait(timeout=60) == 0
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        raise AssertionError(process.communicate()[0]) from None  # where each thread stands


def test_a_restarted_simulator_has_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        monkeypatch.setattr(simulate, "PORT", held.getsockname()[1])
        assert simulate.usual_port() == 0
    assert simulate.usual_port() == simulate.usual_port() == simulate.PORT


def test_a_sweep_of_ones_own_against_the_simulator_from_init_to_rm(desk: Desk, vendor: Vendors) -> None:
    """The command that `hab simulate` prints, and what follows it in the README."""
    (command,) = [line for line in addresses(vendor().url) if "hab init" in line]
    chosen = ("--model", "gpt-6-luna", "--dimension", "encourage_learning", "--tests", "seeds", "--judge", "gpt-6-sol")
    made = desk.says(*shlex.split(command.partition("hab ")[2]), *chosen)
    assert "next: hab rehearse first.yaml, hab plan first.yaml" in made
    assert "24 calls to pay" in desk.says("plan", "first.yaml")
    written = desk.folder / "first.yaml"
    fewer = desk.seeds(["encourage_learning"], 2)
    written.write_text(written.read_text().replace("tests: seeds", f"tests: {fewer}"))
    assert "Simulated answers (" in desk.says("run", "first.yaml", "--yes")
    desk.says("rm", "runs/first", "--yes")
    assert not (desk.folder / "runs/first").exists()
