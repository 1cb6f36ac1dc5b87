"""`hab_ray.run` and `hab_ray.plan` as a script or a notebook calls them."""

import os
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

import hab_ray
from hab_ray.catalog.models import Model, Purpose
from hab_ray.config.sections import ParamOverrides
from hab_ray.config.sweep import Sweep
from hab_ray.engine.descriptors import MAX_OPEN_FILES
from hab_ray.errors import ConfigError, EngineBroke, Exit, StoreHeld
from hab_ray.executors.local import LocalExecutor
from hab_ray.executors.online import RunSetup
from hab_ray.planning.preflight import prepare
from hab_ray.progress import Progress
from hab_ray.results import Run, progress
from hab_ray.stopping import Stop
from hab_ray.storage.local import LocalFolder
from hab_ray.sweep.public import keys_of
from hab_ray.sweep.session import Session, spending
from tests.conftest import MADE, Desk, Vendor, Vendors, ended, until

DIMENSIONS = ["ask_clarifying_questions", "correct_misinformation"]
CALLS_BEFORE_CTRL_C = 6
Keys = dict[str, Any]


@pytest.fixture
def sim(vendor: Vendors) -> Vendor:
    return vendor(latency={"kind": "fixed", "value_s": 0.05})


@pytest.fixture
def keys(desk: Desk, sim: Vendor) -> Keys:
    """The keys of a small sweep, as a script would write them."""
    places = {name: str(desk.folder / name) for name in ("run", "store")}
    path = desk.sweep(
        "public", sim.url, executor="local", dimensions=DIMENSIONS, tests=desk.seeds(DIMENSIONS, 4), **places
    )
    return dict(yaml.safe_load(path.read_text()))


def received(sim: Vendor) -> int:
    return int(sim.meter()["received"])


def status(run: Run) -> int:
    """How the run's last process ended."""
    found = progress(run)
    assert found and found.end
    return found.end.status


def started_script(desk: Desk) -> subprocess.Popen[str]:
    """A script that runs the sweep, in a process of its own."""
    (desk.folder / "script.py").write_text('import hab_ray\nhab_ray.run("public.yaml")\n')
    return desk.forks.start("script", [], desk.folder, desk.whole_environment)


def test_a_run_that_has_ended_claims_no_folder(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same process, another machine's writes are seen at once."""
    changes: list[str] = []
    monkeypatch.setattr(LocalFolder, "claim", lambda _: changes.append("claim"))
    monkeypatch.setattr(LocalFolder, "release", lambda _: changes.append("release"))
    hab_ray.run(keys)
    assert changes == ["claim", "claim", "release", "release"]


async def test_a_sweep_is_run_while_an_event_loop_runs_and_again_without_a_call(keys: Keys, sim: Vendor) -> None:
    """As in a notebook, whose cells are executed within a loop and show what their last line gives."""
    run = hab_ray.run(keys)
    assert repr(run) == f"Run(location={run.location!r})"
    assert status(run) == Exit.COMPLETE and received(sim) > 0
    assert run.verdicts().num_rows == run.responses().num_rows == 2 * run.tests().num_rows > 0
    assert set(run.scores(judge="panel")["subject"].to_pylist()) == {"sim/alpha", "beta-kind"}
    sent = received(sim)
    again = hab_ray.run(Sweep.model_validate(keys))
    assert again.scores().equals(run.scores()) and received(sim) == sent


def test_ctrl_c_ends_a_run_which_goes_on_when_it_is_run_again(keys: Keys, sim: Vendor) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.calls >= CALLS_BEFORE_CTRL_C and not interrupted:
            interrupted.append(progress.calls)
            os.kill(os.getpid(), signal.SIGINT)

    sim.post("/_faults", [{"kind": "delay", "seconds": 0.3, "probability": 1}])
    interrupted: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        hab_ray.run(keys, watch=interrupt)
    assert signal.getsignal(signal.SIGINT) is before and status(hab_ray.open_run(keys["run"])) == Exit.INTERRUPTED
    sent = received(sim)
    assert sent >= CALLS_BEFORE_CTRL_C
    sim.post("/_faults", [])
    run = hab_ray.run(keys)
    assert status(run) == Exit.COMPLETE and run.verdicts().num_rows == 2 * run.tests().num_rows
    assert received(sim) > sent and sim.meter()["billed_more_than_once"]["bodies"] == 0


def test_a_script_that_is_told_to_end_waits_for_its_open_calls(keys: Keys, desk: Desk, sim: Vendor) -> None:
    """As a closed terminal tells it, often twice."""
    sim.post("/_faults", [{"kind": "delay", "seconds": 2, "probability": 1}])
    script = started_script(desk)
    until(lambda: sim.meter()["in_flight"], script)
    for _ in range(2):
        script.send_signal(signal.SIGHUP)
        time.sleep(0.05)
    assert ended(script).returncode != 0 and status(hab_ray.open_run(keys["run"])) == Exit.INTERRUPTED
    sim.post("/_faults", [])
    assert status(hab_ray.run(keys)) == Exit.COMPLETE and sim.meter()["billed_more_than_once"]["bodies"] == 0


def test_a_second_signal_ends_a_script_at_once_and_the_store_is_free(keys: Keys, desk: Desk, sim: Vendor) -> None:
    sim.post("/_faults", [{"kind": "delay", "seconds": 18, "probability": 1}])
    script = started_script(desk)
    until(lambda: sim.meter()["in_flight"], script)
    script.send_signal(signal.SIGTERM)
    time.sleep(1)
    assert script.poll() is None
    script.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert "KeyboardInterrupt" in ended(script).stdout and time.monotonic() - began < 10
    with held(keys):
        pass


def test_a_scripts_own_handler_of_a_signal_is_kept_and_its_error_stops_the_run(keys: Keys, sim: Vendor) -> None:
    def leave(*_: object) -> None:
        raise SystemExit(3)

    def terminate(progress: Progress) -> None:
        if progress.calls >= CALLS_BEFORE_CTRL_C and not sent:
            sent.append(progress.calls)
            os.kill(os.getpid(), signal.SIGTERM)

    sent: list[int] = []
    before = signal.signal(signal.SIGTERM, leave)
    try:
        with pytest.raises(SystemExit):
            hab_ray.run(keys, watch=terminate)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert status(hab_ray.open_run(keys["run"])) == Exit.INTERRUPTED


def test_a_complete_run_is_repeated_without_keys(keys: Keys, sim: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does an executor open connections that need the missing keys."""
    needed: list[list[str]] = []

    def noting(setup: RunSetup, wake: Callable[[], None]) -> LocalExecutor:
        needed.append(list(setup.needed()))
        return LocalExecutor(setup, wake)

    monkeypatch.setattr("hab_ray.sweep.run.ONLINE", {"local": noting})
    monkeypatch.setenv("SIM_KEY", "set")
    account = keys["providers"]["sim"] | {"key_env": "SIM_KEY"}
    run = hab_ray.run(keys | {"providers": {"sim": account}})
    sent = received(sim)
    monkeypatch.delenv("SIM_KEY")
    ended = {"lifecycle": {"ends": "2026-01-01", "why": "the vendor's page"}}
    models = account["models"] | dict.fromkeys(("alpha", "beta", "judge"), ended)
    again = hab_ray.run(keys | {"providers": {"sim": account | {"models": models}}})
    assert status(again) == Exit.COMPLETE and received(sim) == sent and again.scores().equals(run.scores())
    assert needed == [["sim"], []]


def test_tests_that_could_not_be_chosen_are_chosen_once_what_prevented_it_is_put_right(
    desk: Desk, sim: Vendor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is paid for twice, also in the folder of a version that froze the empty choice and went on."""
    monkeypatch.setattr(Model, "is_itself", lambda self, _: self.entry.purpose is not Purpose.EMBEDDING)
    places = {name: str(desk.folder / name) for name in ("run", "store")}
    path = desk.sweep("public", sim.url, executor="local", dimensions=DIMENSIONS[:1], **places)
    keys = yaml.safe_load(path.read_text())
    run = hab_ray.run(keys)
    assert status(run) == Exit.UNANSWERED and run.tests().num_rows == 0
    assert "vectors: 5 substituted" in caplog.text and "set `accept_substitutes: true`" in caplog.text
    work, _ = prepare(Sweep.model_validate(keys), datetime.now(UTC))
    for shard in work.shards():
        if shard.stage in ("respond", "judge"):
            assert work.written(shard) is None
            work.write(shard, [])
    run = hab_ray.run(keys | {"accept_substitutes": True})
    assert status(run) == Exit.COMPLETE and run.tests().num_rows == 2
    assert run.verdicts().num_rows == 2 * run.tests().num_rows and sim.meter()["billed_more_than_once"]["bodies"] == 0


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_lost_replies_are_told(is_interrupted: bool, keys: Keys, sim: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a bucket does once a session token has expired. The next run pays for them again."""
    put, refused = LocalFolder.put, set[str]()

    def refusing(folder: LocalFolder, name: str, data: bytes) -> None:
        if name.startswith(("replies/", "lost/")):
            refused.add(name.partition("/")[0])
            raise ConfigError("s3://b: these credentials have expired [ExpiredToken]")
        put(folder, name, data)

    def interrupt(progress: Progress) -> None:
        if is_interrupted and progress.calls >= CALLS_BEFORE_CTRL_C:
            raise KeyboardInterrupt

    keys["providers"]["sim"]["price"] = {"input": 1, "output": 1}
    monkeypatch.setattr(LocalFolder, "put", refusing)
    monkeypatch.setattr(LocalFolder, "put_new", refusing)
    with pytest.raises(ConfigError, match="ExpiredToken") as raised:
        hab_ray.run(keys | {"budget_usd": 50}, watch=interrupt)
    assert refused == {"replies", "lost"}
    (note,) = (note for note in raised.value.__notes__ if "could not be written" in note)
    assert "the next run sends the calls again and pays for them again" in note


def test_a_run_in_another_thread_than_the_main_one_leaves_signals_and_no_thread(keys: Keys) -> None:
    runs: list[Run] = []
    before = set(threading.enumerate())
    thread = threading.Thread(target=lambda: runs.append(hab_ray.run(keys)))
    thread.start()
    thread.join()
    assert [status(run) for run in runs] == [Exit.COMPLETE]
    for left in set(threading.enumerate()) - before:
        left.join(5)
        assert not left.is_alive(), left.name


def test_a_run_in_another_thread_is_stopped_by_what_watches_it(keys: Keys, sim: Vendor) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.calls >= CALLS_BEFORE_CTRL_C:
            raise KeyboardInterrupt

    sim.post("/_faults", [{"kind": "delay", "seconds": 0.3, "probability": 1}])
    with ThreadPoolExecutor(1) as pool, pytest.raises(KeyboardInterrupt):
        pool.submit(hab_ray.run, keys, watch=interrupt).result()
    assert status(hab_ray.open_run(keys["run"])) == Exit.INTERRUPTED


def test_what_watches_can_neither_break_nor_hold_up_a_run(keys: Keys, caplog: pytest.LogCaptureFixture) -> None:
    def broken(progress: Progress) -> None:
        raise OSError("no space left on the screen")

    assert status(hab_ray.run(keys, watch=broken)) == Exit.COMPLETE
    assert caplog.text.count("no space left on the screen") == 1
    seen, is_over = [], threading.Event()

    def stuck(progress: Progress) -> None:
        seen.append(progress)
        is_over.wait()

    again = {**keys, **{name: f"{keys[name]}-again" for name in ("run", "store")}}
    assert status(hab_ray.run(again, watch=stuck)) == Exit.COMPLETE and len(seen) == 1
    is_over.set()


def test_wrong_keys_are_named_before_anything_is_sent(keys: Keys, sim: Vendor) -> None:
    for call in (hab_ray.run, hab_ray.plan):
        with pytest.raises(ConfigError, match=r"sweep: .*subjcts"):
            call({**keys, "subjcts": []})
        with pytest.raises(ConfigError, match="no_such"):
            call({**keys, "dimensions": ["no_such"]})
    assert received(sim) == 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (None, "sweep: is of type NoneType; pass the path of a file"),
        (b"sweep.yaml", "sweep: is of type bytes"),
        ("x" * 300, "x: cannot be read: File name too long"),
        ("x\ud800", "is not a path: it holds .* incomplete"),
        ({"run": "x" * 256}, "File name too long. Name another path for `run:`"),
        ({"store": "x\ud800"}, "sweep: store: holds half of a character"),
        ({"tests": "x" * 5000}, "sweep: tests: there is no file xxx"),
        ({"rubrics": "x" * 5000}, "sweep: rubrics: there is no folder xxx"),
        ({"variants": {"judges": [{"name": "v", "rubrics": "\ud800"}]}}, "judges.0.rubrics: holds half of a character"),
    ],
)
def test_what_is_no_sweep_or_no_path_is_one_of_our_errors(keys: Keys, given: Any, says: str) -> None:
    for call in (hab_ray.run, hab_ray.plan):
        with pytest.raises(ConfigError, match=says):
            call({**keys, **given} if isinstance(given, dict) else given)


@pytest.mark.parametrize(
    ("update", "says"),
    [
        ({"samples": 0}, "samples: must be more than 0"),
        ({"mode": "bogus"}, "mode: must be 'auto'"),
        ({"sample": 3}, "sample: unknown key"),
        ({"providers": {"sim": 3}}, "providers.sim: "),
    ],
)
def test_a_changed_copy_of_a_sweep_is_checked_like_a_file(keys: Keys, update: Keys, says: str) -> None:
    with pytest.raises(ConfigError, match=f"sweep: {says}"):
        hab_ray.plan(Sweep.model_validate(keys).model_copy(update=update))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"model": 3}, "subjects.0.model: must be text; put it in quotes"),
        ({"modle": "sim/beta"}, "subjects.0.modle: unknown key"),
        ({"params": ParamOverrides().model_copy(update={"max_tokens": -1})}, "subjects.0.params.max_tokens: "),
    ],
)
def test_a_changed_copy_of_a_section_is_checked_like_a_file(keys: Keys, changed: Keys, says: str) -> None:
    sweep = Sweep.model_validate(keys)
    subjects = (sweep.subjects[0].model_copy(update=changed), *sweep.subjects[1:])
    with pytest.raises(ConfigError, match=f"sweep: {says}"):
        hab_ray.plan(sweep.model_copy(update={"subjects": subjects}))


@pytest.mark.parametrize("name", ["compare", "frontier", "judge-bridge", "paper", "rehearsal"])
def test_a_shipped_sweep_made_in_python_stays_the_same_sweep(name: str) -> None:
    sweep = Sweep.model_validate(yaml.safe_load(Path(f"jobs/{name}.yaml").read_text()))
    assert Sweep.model_validate(keys_of(sweep)) == sweep


def test_a_changed_copy_of_a_sweep_takes_what_a_file_takes(keys: Keys) -> None:
    sweep = Sweep.model_validate(keys | MADE | {"tests": None})
    assert hab_ray.plan(sweep) == hab_ray.plan(keys | MADE | {"tests": None})
    copy = sweep.model_copy(update={"subjects": ["sim/alpha"], "run": f"{keys['run']}-2"})
    assert hab_ray.plan(copy) == hab_ray.plan(keys | MADE | {"tests": None, "subjects": ["sim/alpha"]})


def test_a_plan_without_a_key_is_shown_and_a_run_refused(keys: Keys, caplog: pytest.LogCaptureFixture) -> None:
    keys["providers"]["sim"]["key_env"] = "NO_SUCH_KEY"
    assert hab_ray.plan(keys).total.calls > 0 and "NO_SUCH_KEY is not set" in caplog.text
    with pytest.raises(ConfigError, match="NO_SUCH_KEY is not set"):
        hab_ray.run(keys)


def test_a_run_that_could_not_be_completed_says_why(keys: Keys, caplog: pytest.LogCaptureFixture) -> None:
    providers = {"sim": {**keys["providers"]["sim"], "price": {"input": 1000, "output": 1000}}}
    run = hab_ray.run({**keys, "providers": providers, "budget_usd": 0.001})
    assert status(run) == Exit.BUDGET and Exit.BUDGET.meaning in caplog.text
    caplog.clear()
    hab_ray.run({**keys, "providers": providers})
    assert not caplog.text


def test_a_full_disk_is_one_of_our_errors_with_its_remedy_and_the_same_call_goes_on(keys: Keys) -> None:
    """A limit on the size of files stands for the full disk; Python ignores its signal."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, before[1]))
    try:
        with pytest.raises(EngineBroke, match=r"run/sweep.yaml: cannot be written: File too large. Free space"):
            hab_ray.run(keys)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert status(hab_ray.run(keys)) == Exit.COMPLETE


def test_the_limit_of_open_files_is_raised(keys: Keys) -> None:
    """Each call in flight needs one, and Python starts with 256 on some systems."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        hab_ray.run(keys)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(before[1], MAX_OPEN_FILES), before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_results_that_cannot_be_written_are_told_with_the_remedy(keys: Keys, desk: Desk) -> None:
    hab_ray.run(keys)
    shutil.rmtree(desk.folder / "run" / "report")
    (desk.folder / "run" / "report").write_text("in the way")
    with pytest.raises(ConfigError, match="a file is where a folder is needed") as told:
        hab_ray.run(keys)
    assert any("`hab report " in note for note in told.value.__notes__)


def held(keys: Keys) -> AbstractContextManager[Session]:
    """The store of a sweep, held by this process."""
    return spending(prepare(Sweep.model_validate(keys), datetime.now(UTC))[0], Stop())


def test_a_store_that_is_held_is_refused(keys: Keys, sim: Vendor) -> None:
    with held(keys), pytest.raises(StoreHeld, match=f"held by process {os.getpid()} "):
        hab_ray.run(keys)
    assert received(sim) == 0


def test_ctrl_c_ends_the_wait_for_a_holder_that_may_be_dead(keys: Keys, desk: Desk) -> None:
    waiting = {**keys, "shared_filesystem": True, "lease": {"renew_s": 1, "lost_s": 20, "take_s": 60}}
    with held(waiting):
        shutil.copytree(desk.folder / "store", desk.folder / "copy")  # as a process leaves it that was killed
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        hab_ray.run({**waiting, "store": str(desk.folder / "copy")})
    assert 0.9 < time.monotonic() - began < 40 and not (desk.folder / "run").exists()
    assert len(list((desk.folder / "copy/lease").glob("*.json"))) == 1


def test_a_script_of_two_lines_makes_and_chooses_its_tests(desk: Desk, sim: Vendor) -> None:
    """It guards nothing by `if __name__ == "__main__"`: no process that is started for a part may run it again."""
    sweep = desk.sweep("made", sim.url, dimensions=DIMENSIONS[:1])
    (desk.folder / "script.py").write_text(f"import hab_ray\nprint(len(hab_ray.run({str(sweep)!r}).scores()))\n")
    done = ended(desk.forks.start("script", [], desk.folder, desk.whole_environment))
    assert (done.returncode, done.stdout) == (0, "8\n"), done.stdout  # of 2 subjects and 2 kinds of mean, overall too


def test_a_plan_counts_what_a_run_asks_and_sends_nothing(keys: Keys, desk: Desk, sim: Vendor) -> None:
    plans = [hab_ray.plan(given) for given in (desk.folder / "public.yaml", keys)]
    assert plans[0] == plans[1] and received(sim) == 0 and not (desk.folder / "run").exists()
    hab_ray.run(keys)
    done = hab_ray.plan(keys)
    assert plans[0].total.to_pay == received(sim) == done.total.reused and done.total.to_pay == 0
