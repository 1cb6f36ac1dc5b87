"""What the campaigns against a running `hab` share: sweeps against the simulator, processes, and files read back."""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import psutil
import yaml

from hab_ray.rubric import load_rubrics

MARK = "HAB_CAMPAIGN"
DIMENSIONS = ("correct_misinformation", "encourage_learning")
PRICE = {"input": 0.02, "output": 4.0}
SHORT = 40
MODELS = {"*": {"price": PRICE, "batch_price": PRICE}}
ONLINE, BATCHED = "x/sim", "anthropic"
_GONE_S, LOOK_S = 10.0, 0.2
ROOT = Path(__file__).parent.parent
HAB = (sys.executable, "-m", "hab_ray.cli")


Meter = Mapping[str, Any]


def get(url: str, path: str) -> Any:
    """What the simulator says at one of its own URLs."""
    with urllib.request.urlopen(url + path, timeout=30) as answer:
        return json.load(answer)


def charged(meter: Meter) -> int:
    """All that the vendors charged, online and by batch, in nano-dollars."""
    return int(meter["nanousd"] + meter["batch"]["nanousd"])


def sent(meter: Meter) -> int:
    """Calls received online and batches made."""
    return int(meter["received"]) + int(meter["batch"]["created"])


@dataclass(frozen=True)
class Ended:
    """A command that has ended: what it printed, seconds, and the largest PSS of a process, shared memory left out."""

    status: int
    printed: str
    cpu_s: float
    wall_s: float
    most_mib: float

    @property
    def figures(self) -> str:
        """What it took, in words."""
        return f"{self.wall_s:6.2f} s  {self.cpu_s:6.2f} s of CPU  {self.most_mib:6.0f} MiB"


class Watch:
    """What a process and all that it starts use, but the simulator, as it was last seen of each of them.

    Processes are known by pid and start, because pids come again. Memory is PSS without shared memory.
    """

    def __init__(self, process: psutil.Popen) -> None:
        self._process, self._cpu = process, dict[tuple[int, float], float]()
        self.largest_mib = self.together_mib = 0.0

    @property
    def cpu_s(self) -> float:
        return sum(self._cpu.values())

    def look(self) -> None:
        """Look at all of them."""
        sizes = [0.0]
        for one in self._tree():
            try:
                if "hab_simulator" not in one.cmdline():
                    self._cpu[one.pid, one.create_time()] = sum(one.cpu_times()[:2])
                    sizes.append(private_mib(one))
            except (psutil.Error, FileNotFoundError, ProcessLookupError, KeyError):
                continue
        self.largest_mib = max(self.largest_mib, *sizes)
        self.together_mib = max(self.together_mib, sum(sizes))

    def _tree(self) -> list[psutil.Process]:
        try:
            return [self._process, *self._process.children(recursive=True)]
        except psutil.Error:
            return []


def watched(
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    folder: Path = ROOT,
    within_s: float = inf,
    program: Sequence[str] = HAB,
) -> Ended:
    """Run `hab`, for so long at most, and look at all its processes but the simulator's."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = psutil.Popen(
            [*program, *arguments], cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        watch = Watch(process)
        while process.poll() is None and time.monotonic() < began + within_s:
            watch.look()
            time.sleep(LOOK_S)
        if process.poll() is None:
            process.kill()
        status, took_s = process.wait(), time.monotonic() - began
        output.seek(0)
        return Ended(status, output.read(), watch.cpu_s, took_s, watch.largest_mib)


def private_mib(process: psutil.Process) -> float:
    lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:]
    kib = {name: int(text.split()[0]) for name, _, text in (line.partition(":") for line in lines) if text}
    return (kib["Pss"] - kib["Pss_Shmem"]) / 1024


@dataclass(frozen=True)
class Modes:
    """How a sweep's two subjects and its judge are asked: `online` or `batch` each."""

    alpha: str
    beta: str
    judge: str


@dataclass(frozen=True)
class Shape:
    """A sweep: so many tests a dimension, so many rows a batch; `executor` is where its online calls are made."""

    modes: Modes
    tests: int
    rows: int
    concurrent: int = 8
    executor: str = "auto"


@dataclass
class Session:
    """A folder in which `hab` is run against one simulator; what it starts carries a mark in its environment."""

    folder: Path
    url: str
    mark: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def sweep(self) -> Path:
        return self.folder / "sweep.yaml"

    def write(self, shape: Shape, budget_usd: float | None) -> None:
        """Write the sweep file and its tests.

        Answers are cut at so few tokens that each costs nearly what is set aside for it: what a budget forgets, shows.
        """
        modes = shape.modes
        account = {
            "limits": {"concurrent": shape.concurrent, "patience_s": 20, "timeout_s": 60},
            "price": PRICE,
            "batch": {"discount": 0, "price": PRICE},
            "batches": {
                "rows": shape.rows,
                "poll_s": 0.2,
                "longest_poll_s": 0.2,
                "in_doubt_s": 1.0,
                "longest_s": 600.0,
            },
        }
        models = {"beta": {"sampling": "fixed"}}
        providers = {
            "sim": {"kind": "openai", "url": f"{self.url}/x/sim/v1", **account},
            "other": {"kind": "anthropic", "url": f"{self.url}/anthropic", "models": models, **account},
        }
        settings: dict[str, Any] = {
            "name": "campaign",
            "run": "run",
            "store": "store",
            "tests": "tests.jsonl",
            "dimensions": list(DIMENSIONS),
            "executor": shape.executor,
            "providers": providers,
            "subjects": [
                {"model": "sim/alpha", "name": "alpha", "mode": modes.alpha, "params": {"max_tokens": SHORT}},
                {"model": "other/beta", "name": "beta", "mode": modes.beta, "params": {"max_tokens": SHORT}},
            ],
            "judges": [{"model": "sim/judge", "name": "judge", "mode": modes.judge, "params": {"max_tokens": 400}}],
        }
        if budget_usd is not None:
            settings["budget_usd"] = budget_usd
        (self.folder / "tests.jsonl").write_text("".join(test_lines(shape.tests)))
        self.sweep.write_text(yaml.safe_dump(settings))

    def start(self) -> subprocess.Popen[str]:
        """`hab run` in a process group of its own, as a terminal starts it; what it prints is kept in `hab.log`."""
        environment = {**os.environ, MARK: self.mark, "RAY_AUTH_MODE": "disabled"}
        environment.pop("RAY_ADDRESS", None)
        with (self.folder / "hab.log").open("a") as log:
            return subprocess.Popen(
                [*HAB, "run", "--yes", "sweep.yaml"],
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                text=True,
            )

    def meter(self) -> Meter:
        return dict(get(self.url, "/_meter"))

    def log(self) -> str:
        """The end of what was printed."""
        return (self.folder / "hab.log").read_text(errors="replace")[-1500:]

    def processes(self) -> Iterator[psutil.Process]:
        """Everything alive that this session's runs have started, Ray's processes too."""
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    yield process
            except psutil.Error:
                continue

    def titled(self, titles: Sequence[str]) -> list[psutil.Process]:
        """Those whose title begins with one of these, such as `ray::Lane`."""
        found = []
        for process in self.processes():
            try:
                line = process.cmdline()
            except psutil.Error:
                continue
            if line and line[0].startswith(tuple(titles)):
                found.append(process)
        return found

    def tidy(self) -> None:
        """Wait a little for what a dead driver left behind, then end it."""
        left = list(self.processes())
        _, alive = psutil.wait_procs(left, _GONE_S)
        for process in alive:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue

    def money(self) -> dict[str, int]:
        """The run's money as its last progress has it, `{}` where it has none."""
        path = self.run / "log/progress.json"
        return dict(json.loads(path.read_bytes()).get("money") or {}) if path.exists() else {}


@contextmanager
def running(session: Session) -> Iterator[subprocess.Popen[str]]:
    """A run, of which nothing is left at the end."""
    process = session.start()
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        session.tidy()


def test_lines(count: int, dimensions: Sequence[str] = DIMENSIONS) -> Iterator[str]:
    """A file of so many tests in each dimension."""
    rubrics = load_rubrics()
    for name in dimensions:
        for number in range(count):
            seed = rubrics[name].seeds[number % len(rubrics[name].seeds)]
            prompt = f"{seed.prompt}\n(Wording {number}.)"
            yield json.dumps({"dimension": name, "prompt": prompt, "context": seed.context or ""}) + "\n"


def wait(process: subprocess.Popen[str], timeout_s: float) -> int | None:
    """The exit status, or None where the process does not end in time."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None


def until(session: Session, process: subprocess.Popen[str], count: Callable[[Meter], int], timeout_s: float) -> bool:
    """Whether the meter of a running process comes to count something in time."""
    end = time.monotonic() + timeout_s
    while process.poll() is None and time.monotonic() < end:
        if count(session.meter()):
            return True
        time.sleep(0.02)
    return False
