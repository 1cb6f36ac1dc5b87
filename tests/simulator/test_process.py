"""The simulator as a process: its command line, its ready file, and that it ends with its parent."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
import pytest

from hab_simulator import Profile, SimulatorFailed, SimulatorProcess, load_profile

ROOT = Path(__file__).parents[2]


def wait_for(path: Path) -> dict[str, object]:
    end = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    found: dict[str, object] = json.loads(path.read_bytes())
    return found


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_start_and_stop() -> None:
    with SimulatorProcess.start(Profile(seed=4)) as running:
        with urlopen(f"{running.url}/_meter") as answer:
            assert json.load(answer)["received"] == 0
        assert psutil.pid_exists(running.pid)
    assert gone(running.pid)
    running.stop()


def test_it_outlives_its_own_files(tmp_path: Path) -> None:
    package, ready = tmp_path / "hab_simulator", tmp_path / "ready.json"
    shutil.copytree(ROOT / "hab_simulator", package)
    command = [sys.executable, "-P", "-m", "hab_simulator", "--ready", str(ready)]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            url = wait_for(ready)["url"]
            shutil.rmtree(package)
            for path in ("openai/v1", "anthropic/v1", "google/v1beta", "xai/v1", "x/mine/v1"):
                with pytest.raises(HTTPError) as refused:
                    urlopen(f"{url}/{path}/models")
                assert refused.value.code < 500, path
            headers = {"Authorization": "Bearer any"}
            body = json.dumps({"model": "gpt-6-luna", "messages": [{"role": "user", "content": "Hello"}]}).encode()
            with urlopen(Request(f"{url}/openai/v1/chat/completions", body, headers)) as answer:
                assert json.load(answer)["choices"]
        finally:
            process.terminate()


def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    command = [sys.executable, "-m", "hab_simulator", "--port", "0", "--ready", str(ready), "--seed", "3"]
    script = f"import subprocess, time; subprocess.Popen({command!r}); time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.DEVNULL)
    pid = wait_for(ready)["pid"]
    assert isinstance(pid, int) and not gone(pid)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    end = time.monotonic() + 5
    while not gone(pid):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_it_does_not_outlive_a_parent_that_went_before() -> None:
    command = [sys.executable, "-m", "hab_simulator", "--parent", "1"]
    late = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert late.returncode == 1 and "the process 1 that started the simulator is gone" in late.stderr


def test_a_failed_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SimulatorFailed, match="did not listen within"):
        SimulatorProcess.start(Profile(), timeout_s=0.01)
    monkeypatch.setattr(sys, "executable", "/bin/ls")
    with pytest.raises(SimulatorFailed, match=r"ended with status 2 .*\n.*invalid option -- 'P'"):
        SimulatorProcess.start(Profile())


def test_profiles_load_from_yaml_and_json(tmp_path: Path) -> None:
    profile = Profile.model_validate(
        {
            "seed": 7,
            "accounts": {"x/groq": {"keys": ["k"], "models": {"llama*": {"price": {"input": "0.1"}}}}},
            "latency": {"kind": "fixed", "value_s": 0.5},
            "faults": [{"kind": "hang", "probability": 0.5}],
        }
    )
    path = tmp_path / "profile.json"
    path.write_text(profile.model_dump_json())
    assert load_profile(path) == profile
    path.write_text("seed: 7\nfaults:\n  - {kind: reset, probability: 0.1, billed: true}\n")
    assert load_profile(path).faults[0].probability == 0.1
    path.write_text("")
    assert load_profile(path) == Profile()
