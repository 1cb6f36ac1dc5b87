"""What many tests need: a simulator of its own, sweeps against it, and `hab` as a user runs it."""

import gc
import json
import logging
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, settings

from hab_ray.location import Location
from hab_ray.rubric import load_rubrics
from hab_ray.storage.folder import Folder, open_folder
from hab_ray.work import Work
from hab_simulator import Profile
from tests.distributions import Distributions, forget_installed
from tests.forking import Forks, ForkServer, share_tls_contexts, write_soon
from tests.ray_cluster import HEADER, KEY, RayCluster
from tests.sampling import EVERY_KILL, SAMPLE
from tests.seaweed import SeaweedFS, seaweed
from tests.small_runs import MakeRun, Shape, write_run

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


OF_RAY = {"cluster_desk", "job_cluster", "ray_address"}
OF_LOCAL_MODEL = {"server", "weights"}
OF_S3 = {"s3_server", "bucket"}
REHEARSED_ONCE = {"chosen", "crossed", "rough", "sound", "twice"}
OF_PROCESSES = {*OF_RAY, *OF_LOCAL_MODEL, *OF_S3, "desk", "vendor", "forks"}
STARTS_WITHIN_S = 240.0
ON_A_PAR = {"RAY_worker_niceness": "0"}  # Ray's 15 gives its workers a thirtieth of a core where others are busy
BUCKET = "hab-tests"
ORDER_SEED = os.environ.get("HAB_TEST_ORDER_SEED")
SHARED_SERVER = pytest.StashKey[ForkServer]()
MADE = {
    "generate": {"model": "sim/gen", "candidates": 6, "per_call": 3},
    "validate": {"model": "sim/val", "keep": 5},
    "select": {"embedding": "sim/emb", "tests": 2},
}


def pytest_sessionstart() -> None:
    """Heed hang-ups and Ctrl-C, so that what is started here does too: all inherit what `nohup` and `&` ignore."""
    write_soon()
    share_tls_contexts()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """What is collected and imported stays, so that the garbage collector need not look through it again and again."""
    gc.disable()
    yield
    gc.enable()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave `make bench` what is its own, mark what starts processes and what needs Ray, and sort by duration.

    With `-n`, tests of one group go one after the other in one process, so that there is one Ray, one local model, one
    S3 server and one of each rehearsal that many tests look at; the longest begin first, so that no process is left
    alone with one at the end. With HAB_TEST_ORDER_SEED files, and tests within each, come in a random order.
    """
    left = [item for item in items if item.get_closest_marker("bench") and not EVERY_KILL]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & OF_PROCESSES or "local" in item.path.relative_to(item.config.rootpath).parts:
            item.add_marker(pytest.mark.integration)
        if fixtures & OF_RAY:
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.xdist_group("job cluster" if "job_cluster" in fixtures else "ray"))
        elif fixtures & OF_LOCAL_MODEL:
            item.add_marker(pytest.mark.xdist_group("local model"))
        elif fixtures & OF_S3:
            item.add_marker(pytest.mark.xdist_group("s3"))
        elif rehearsed := fixtures & REHEARSED_ONCE:
            item.add_marker(pytest.mark.xdist_group(min(rehearsed)))
    if ORDER_SEED:
        random = Random(ORDER_SEED)
        files = {path: random.random() for path in sorted({item.path for item in items})}
        items.sort(key=lambda item: (files[item.path], random.random()))
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    order = ("cluster", "long", "integration")
    return next((n for n, mark in enumerate(order) if item.get_closest_marker(mark)), len(order))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which kills were tried and in which order the tests came, so that a failure can be had again."""
    terminalreporter.write_line(SAMPLE)
    if ORDER_SEED:
        terminalreporter.write_line(f"a random order of tests: HAB_TEST_ORDER_SEED={ORDER_SEED}")


@dataclass
class Vendor:
    """A running simulator and its meter."""

    url: str
    process: subprocess.Popen[str]

    def stop(self) -> None:
        """End it and wait until it is gone; a second call does nothing."""
        if self.process.returncode is None:
            self.process.terminate()
            self.process.communicate(timeout=STARTS_WITHIN_S)

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path) as response:
            return json.load(response)

    def post(self, path: str, body: object) -> None:
        """Change faults or quotas."""
        urllib.request.urlopen(self.url + path, json.dumps(body).encode()).close()

    def meter(self) -> dict[str, Any]:
        return dict(self.get("/_meter"))

    def received(self, model: str) -> int:
        return sum(m["received"] for m in self.meter()["models"] if m["model"] == model)

    def billed_once(self, lines: int) -> bool:
        """Whether so many lines of batches were billed, and nothing twice."""
        meter = self.meter()
        return (meter["batch"]["lines_billed"], meter["billed_more_than_once"]["bodies"]) == (lines, 0)

    def requests(self) -> list[dict[str, Any]]:
        """Every HTTP request of whatever kind in order of arrival, with the wall time of its arrival."""
        return list(self.get("/_requests"))

    def calls(self) -> list[dict[str, Any]]:
        """Every call in order of arrival."""
        return list(self.get("/_calls"))


Vendors = Callable[..., Vendor]


@pytest.fixture
def vendor(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vendors]:
    """Starts simulators, each a process of its own."""
    running: list[Vendor] = []

    def start(**profile: Any) -> Vendor:
        folder = tmp_path_factory.mktemp("simulator")
        running.append(started_simulator(forks, folder, Profile.model_validate({"folder": folder, **profile})))
        return running[-1]

    yield start
    for simulator in running:
        simulator.stop()


def started_simulator(forks: Forks, folder: Path, profile: Profile) -> Vendor:
    """A simulator that listens, forked: its imports are done."""
    settings, ready = folder / "profile.json", folder / "ready.json"
    settings.write_text(profile.model_dump_json(), "utf-8")
    process = forks.start("hab_simulator", ["--profile", str(settings), "--ready", str(ready)], folder, os.environ)
    end = time.monotonic() + STARTS_WITHIN_S
    while not ready.exists():
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(0.01)
    return Vendor(json.loads(ready.read_bytes())["url"], process)


@dataclass
class Desk:
    """A folder a user works in: sweep files are written here and `hab` is run here."""

    folder: Path
    forks: Forks
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def whole_environment(self) -> dict[str, str]:
        """What `hab` finds in its environment."""
        return dict(os.environ) | self.environment

    def sweep(self, name: str, url: str, account: Mapping[str, object] | None = None, /, **changes: Any) -> Path:
        """A small sweep against a simulator, with keys of its account and top-level keys changed.

        It makes its tests unless some are given.
        """
        sim = {
            "kind": "openai",
            "url": f"{url}/x/sim/v1",
            "limits": {"concurrent": 8, "patience_s": 4, "timeout_s": 20},
            "price": {"input": 0, "output": 0},
            "models": {"emb": {"purpose": "embedding"}, "gen": {"schema_bounds": ["lists"]}},
            **(account or {}),
        }
        sweep: dict[str, Any] = {
            "name": name,
            **({} if changes.get("tests") or changes.get("responses") else MADE),
            "providers": {"sim": sim},
            "subjects": ["sim/alpha", {"model": "sim/beta", "name": "beta-kind", "system": "Be kind."}],
            "judges": ["sim/judge"],
            **changes,
        }
        return self.write(**sweep)

    def tests(self, count: int) -> str:
        """A file of so many tests, whose ids are t0, t1 and so on."""
        prompts = {f"t{n}": f"How do I solve task {n} myself?" for n in range(count)}
        rows = ({"id": id, "dimension": "encourage_learning", "prompt": prompt} for id, prompt in prompts.items())
        return str(self.lines("tests.jsonl", rows))

    def seeds(self, dimensions: Collection[str], each: int) -> str:
        """A file of so many of the rubrics' own queries in each dimension."""
        seeds = ((name, seed) for name in dimensions for seed in load_rubrics()[name].seeds[:each])
        rows = ({"dimension": name, "prompt": seed.prompt, "context": seed.context or ""} for name, seed in seeds)
        return str(self.lines("tests.jsonl", rows))

    def lines(self, name: str, rows: Iterable[Mapping[str, object]]) -> Path:
        """A file of rows, each a line of JSON."""
        path = self.folder / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def write(self, name: str, **keys: Any) -> Path:
        """A sweep file of these keys; None leaves one out."""
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump({k: v for k, v in {"name": name, **keys}.items() if v is not None}))
        return path

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """`hab` as a process of its own, forked: its imports are done."""
        return self.forks.start("hab_ray.cli", [str(each) for each in arguments], self.folder, self.whole_environment)

    def start_afresh(self, *arguments: object) -> subprocess.Popen[str]:
        """`hab` as a new interpreter and the leader of a process group, as a user's shell starts it."""
        return subprocess.Popen(
            [sys.executable, "-m", "hab_ray.cli", *map(str, arguments)],
            cwd=self.folder,
            env=self.whole_environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def hab(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run `hab` to its end; what it printed is in `stdout`."""
        return ended(self.start(*arguments))

    def says(self, *arguments: object, status: int = 0) -> str:
        """What `hab` prints, which must end with this status."""
        done = self.hab(*arguments)
        assert done.returncode == status, done.stdout
        return done.stdout


def until(
    what: Callable[[], object],
    process: subprocess.Popen[str] | None = None,
    within_s: float = STARTS_WITHIN_S,
    every_s: float = 0.02,
) -> None:
    """Wait for something that happens soon, and before the process ends. What costs CPU is asked for less often."""
    end = time.monotonic() + within_s
    while not what():
        if process is not None and process.poll() is not None:
            raise AssertionError(process.communicate())
        assert time.monotonic() < end, "it did not happen"
        time.sleep(every_s)


def ended(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    """A process at its end; what it printed is in `stdout`."""
    output, _ = process.communicate(timeout=840)
    return subprocess.CompletedProcess(process.args, process.returncode, output)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Have the processes of `pytest -n` share one server that forks."""
    node.workerinput["forks"] = _shared_server(node.config).forks.place


def _shared_server(config: pytest.Config) -> ForkServer:
    if SHARED_SERVER not in config.stash:
        config.stash[SHARED_SERVER] = new_fork_server()
        config.add_cleanup(config.stash[SHARED_SERVER].close)
    return config.stash[SHARED_SERVER]


def new_fork_server() -> ForkServer:
    return ForkServer(dict(os.environ) | _of_ray())


def _of_ray() -> dict[str, str]:
    """The environment of whatever joins the tests' Ray, or starts it."""
    from hab_ray.cluster.session import QUIET

    return {**QUIET, **ON_A_PAR, "RAY_AUTH_MODE": "disabled"}


@pytest.fixture(scope="session")
def forks(request: pytest.FixtureRequest) -> Iterator[Forks]:
    """The server that forks: the one all processes of `pytest -n` share, else one of this process's own."""
    shared = getattr(request.config, "workerinput", {}).get("forks")
    if shared:
        yield Forks(shared)
        return
    server = new_fork_server()
    yield server.forks
    server.close()


@pytest.fixture
def desk(tmp_path: Path, forks: Forks) -> Desk:
    return Desk(tmp_path, forks)


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """One Ray for all tests that need it; `hab` joins it as it joins a cluster."""
    os.environ.update(_of_ray())
    import ray

    for chances in (2, 1, 0):  # Ray gives a node 30 s to start, also on a machine that is busy with other things
        try:
            context = ray.init(include_dashboard=False, num_cpus=2, log_to_driver=False, logging_level=logging.ERROR)
            break
        except Exception:
            ray.shutdown()
            if not chances:
                raise
    yield str(context.address_info["gcs_address"])  # type: ignore[attr-defined]
    ray.shutdown()


@pytest.fixture(scope="session")
def job_cluster(s3_server: SeaweedFS, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    """One Ray cluster with a job server for all tests that need one, of one node, to which a test may add others.

    The nodes have what is in buckets, a key in a file and a header's value in their environment.
    """
    from hab_ray.cluster.session import QUIET

    file = tmp_path_factory.mktemp("secrets") / "key"
    file.write_text(f"{KEY}\n")
    ours = {"HAB_TEST_KEY_FILE": str(file), "HAB_TEST_TEAM": HEADER, "RAY_metrics_report_interval_ms": "500"}
    cache = {"HAB_CACHE": str(tmp_path_factory.mktemp("cache"))}
    cluster = RayCluster.start(1, dict(os.environ) | s3_server.environment() | cache | ours | QUIET | ON_A_PAR)
    yield cluster
    cluster.stop()


ON_RAY = (pytest.mark.cluster, pytest.mark.integration, pytest.mark.xdist_group("ray"), pytest.mark.bench)


@pytest.fixture(params=["local", pytest.param("ray", marks=ON_RAY)])
def either_desk(request: pytest.FixtureRequest, desk: Desk) -> Desk:
    """A desk whose `hab` makes online calls in its own process, then one whose `hab` joins the tests' Ray."""
    if request.param == "ray":
        desk.environment["RAY_ADDRESS"] = request.getfixturevalue("ray_address")
    return desk


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFS]:
    """One S3 server for all tests of this process that need it."""
    with seaweed(tmp_path_factory.mktemp("s3")) as server:
        server.new_bucket(BUCKET)
        yield server


@pytest.fixture
def bucket(s3_server: SeaweedFS, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An address on the S3 server that nobody wrote to, with what boto3 needs in the environment.

    This node has kept nothing of what is in buckets.
    """
    monkeypatch.setenv("HAB_CACHE", str(tmp_path_factory.mktemp("cache")))
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{secrets.token_hex(6)}"


ON_S3 = (pytest.mark.integration, pytest.mark.xdist_group("s3"))


@pytest.fixture(params=["disk", pytest.param("s3", marks=ON_S3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """A place that nobody wrote to: on local disk, then in a bucket."""
    if request.param == "disk":
        return Location.of(tmp_path / "store")
    return Location.of(request.getfixturevalue("bucket"))


@pytest.fixture
def folder(place: Location) -> Folder:
    """An empty folder, on local disk and in a bucket."""
    return open_folder(place)


@pytest.fixture
def cluster_desk(desk: Desk, ray_address: str) -> Desk:
    """A desk whose `hab` joins the tests' Ray."""
    desk.environment["RAY_ADDRESS"] = ray_address
    return desk


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Writes a run folder of a shape and gives its work."""
    return lambda shape: write_run(tmp_path / "run", shape)


@pytest.fixture
def work(make_run: MakeRun) -> Work:
    """A complete run of two subjects, two dimensions and a judge."""
    return make_run(Shape())


@pytest.fixture
def distributions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Distributions]:
    site = tmp_path / "site"
    site.mkdir()
    known = set(sys.modules)
    monkeypatch.syspath_prepend(site)
    yield Distributions(site)
    for name in set(sys.modules) - known:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(site):
            del sys.modules[name]
    forget_installed()
