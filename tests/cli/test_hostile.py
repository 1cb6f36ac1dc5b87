"""Hostile texts from vendors, models, names and files through every command: none crashes it, none gets out raw."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from hab_ray.calls import has_visible_text
from hab_ray.cli.main import app
from hab_ray.cli.views.terminal import Terminal
from hab_ray.cli.views.view import View
from hab_ray.config.sweep import MAX_PROBLEMS
from hab_ray.progress import Progress, StageProgress
from hab_ray.rubric import load_rubrics
from hab_ray.visible import hides_something, one_line
from tests.cli.hostile_vendor import HostileVendor, hostile_vendor
from tests.hostile import TEXTS, raw_in

DIMENSION = "encourage_learning"
GROUPS = [" | ".join(text[:60] for text in TEXTS[n : n + 8]) for n in range(0, len(TEXTS), 8)]
NAMES = [text for text in TEXTS if len(text) <= 200 and text.strip() and not hides_something(text)]

pytestmark = pytest.mark.xdist_group("hostile")  # one process makes the run that all look at


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder to work in."""
    folder = tmp_path_factory.mktemp("desk")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


def hab(*arguments: object) -> tuple[int, str]:
    """`hab` in this process: its exit status, and what it printed, which is checked."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert raw_in(done.output) == []
    return done.exit_code, done.output


def write_sweep(folder: Path, name: str, **changes: Any) -> Path:
    batch = {"price": {"input": 1, "output": 1}, "batch": {"discount": 0.5}, "batches": {"poll_s": 0.02}}
    providers = {
        account: {"kind": "openai", "url": f"{url}/v1", **batch} for account, url in changes.pop("accounts", {}).items()
    }
    given = {"name": name, "mode": "batch", "dimensions": [DIMENSION], "providers": providers, **changes}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(given))
    return path


def hostile_rubric(folder: Path) -> Path:
    """A folder with a rubric of hostile texts; what YAML cannot hold at all is left out."""
    text = "\n".join(text for text in TEXTS if len(text) < 200 and max(text, default="") < "\ud800")
    rubric = load_rubrics()[DIMENSION].model_dump(mode="json", exclude_none=True)
    rubric |= {"title": text, "definition": text}
    rubric["judging"]["notes"] = [{"text": text}]
    for issue in rubric["judging"]["issues"]:
        issue["text"] = text
    rubrics = folder / "own"
    rubrics.mkdir()
    (rubrics / f"{DIMENSION}.yaml").write_text(yaml.safe_dump(rubric))
    return rubrics


@pytest.fixture(scope="module")
def vendor() -> Iterator[HostileVendor]:
    with hostile_vendor(TEXTS, GROUPS) as line:
        yield line


@pytest.fixture(scope="module")
def run(desk: Path, vendor: HostileVendor) -> Path:
    """A run of a whole sweep against the hostile vendor, by batch."""
    tests = desk / "tests.jsonl"
    prompts = [text if has_visible_text(text) else f"{text}?" for text in TEXTS]
    rows = [{"id": f"{n} {text[:50]}", "dimension": DIMENSION, "prompt": text} for n, text in enumerate(prompts)]
    tests.write_text("".join(json.dumps(row) + "\n" for row in rows))
    closed = {f"closed-{n}": f"{vendor.url}/closed-{n}" for n in range(len(GROUPS))}
    accounts = {name: f"{vendor.url}/{name}" for name in ("answers", "rows", "fails")}
    sweep = write_sweep(
        desk,
        "campaign",
        accounts=accounts | closed,
        rubrics=str(hostile_rubric(desk)),
        tests="tests.jsonl",
        subjects=["answers/[/red]", "rows/x[/red]", "fails/[/]", *(f"{name}/[/{name}]" for name in closed)],
        judges=["answers/judge"],
    )
    status, checked = hab("rubric", "check", "own")
    assert status == 0, checked
    status, planned = hab("plan", sweep)
    assert status == 0 and "rows/x[/red]" in planned, planned
    status, output = hab("run", sweep, "--yes")
    assert status == 5, output
    assert output.count("was stopped: HTTP 401 invalid_api_key: ") == len(GROUPS)
    assert "report: " in output and "is in an unknown state: " in output
    assert vendor.answered >= 3 * len(TEXTS)
    return desk / "runs/campaign"


def test_enough_texts() -> None:
    assert len(TEXTS) >= 60 and len(NAMES) >= 20 and len(set(TEXTS)) == len(TEXTS)
    assert all(text.isprintable() or raw_in(one_line(text)) == [] for text in TEXTS)


def test_status_and_batches_of_a_run_with_hostile_answers(run: Path) -> None:
    status, output = hab("status", run)
    assert status == 0 and "answers/[/red]" in output and output.count("stopped: HTTP 401") >= len(GROUPS)
    status, output = hab("batches", "list", run)
    assert status == 0 and "rows/x[/red]" in output
    for name in ("answers/000001", "rows/000001", "fails/000001"):
        assert hab("batches", "show", run, name)[0] == 0
    assert hab("batches", "cancel", run, "no [/such] \x1b[31mbatch")[0] == 2


def test_no_file_of_a_run_holds_a_raw_control_character(run: Path) -> None:
    logs = [path for path in (run / "log").rglob("*") if path.suffix in (".json", ".jsonl", ".log")]
    events = list((run.parent.parent / "store/ledger").rglob("*.json"))
    assert len(logs) >= 2 and len(events) >= 8
    for path in logs + events:
        assert raw_in(path.read_text(encoding="utf-8")) == [], path
    lines = (run / "log/unanswered.jsonl").read_text().split("\n")[:-1]
    told = [json.loads(line) for line in lines]
    assert len(told) >= len(GROUPS) * len(TEXTS)
    assert all(set(row) == {"file", "row_id", "reason"} and "\n" not in row["reason"] for row in told)


def test_the_report_shows_hostile_texts_and_does_nothing(run: Path) -> None:
    html = (run / "report/index.html").read_text(encoding="utf-8")
    assert "<script" not in html and "<img" not in html and "<h1>gone" not in html and "<svg" not in html
    assert html.count("</body>") == 1 and html.count("</style>") == 1
    assert "&lt;script&gt;alert(1)" in html and "{{ 7*7 }}" in html and "[U+202E]gnp.exe" in html
    assert {found for found in raw_in(html)} <= {"U+200B", "U+200D", "U+FEFF", "U+00AD", "U+E0041", "U+E0042"}


def test_names_are_shown_as_they_are_or_refused(desk: Path, vendor: HostileVendor) -> None:
    accounts = {"answers": f"{vendor.url}/answers"}
    subjects = [{"model": f"answers/{name.strip()}", "name": name} for name in NAMES]
    sweep = write_sweep(desk, "named", accounts=accounts, tests="seeds", subjects=subjects, judges=["answers/[/b]"])
    status, output = hab("plan", sweep)
    unbroken = "".join(output.split())
    assert status == 0 and all("".join(one_line(name).split()) in unbroken for name in NAMES)
    hidden = [text for text in TEXTS if len(text) <= 200 and hides_something(text) and max(text) < "\ud800"]
    subjects = [{"model": "answers/a", "name": name} for name in hidden]
    sweep = write_sweep(desk, "hidden", accounts=accounts, tests="seeds", subjects=subjects, judges=["answers/j"])
    status, output = hab("plan", sweep)
    assert status == 2 and output.count("cannot be seen") == len(hidden) == output.count("\n")
    for bad in ({"\x1b[31m": {"kind": "openai"}}, {"a\nb: all is well": {"kind": "openai"}}):
        sweep = write_sweep(desk, "provider", tests="seeds", subjects=["a/b"], judges=["a/b"])
        sweep.write_text(yaml.safe_dump(yaml.safe_load(sweep.read_text()) | {"providers": bad}))
        status, output = hab("plan", sweep)
        assert status == 2 and "cannot be seen" in output


def test_keys_of_files_that_are_not_known_forge_no_line(desk: Path) -> None:
    unknown = [text for text in TEXTS if max(text) < "\ud800" and len(text) < 200]
    path = desk / "unknown.yaml"
    path.write_text(yaml.safe_dump({"name": "n", "subjects": ["a"], "judges": ["a"]} | dict.fromkeys(unknown, 1)))
    status, output = hab("plan", path)
    listed = min(len(unknown), MAX_PROBLEMS)
    more = f"and {len(unknown) - listed:,} more\n"
    assert status == 2 and output.endswith(more) and listed < len(unknown)
    assert output.count("unknown key") == listed == output.count("\n") - 1


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_the_live_view_shows_any_note_and_name(text: str) -> None:
    class Screen(StringIO):
        def isatty(self) -> bool:
            return True

    screen, terminal = Screen(), Terminal(width=100)
    terminal.file = screen
    view = View(terminal)
    stage = StageProgress("respond", text[:500], 5, 1, 1, 1)
    with view.shown():
        view.update(Progress("now", 1.0, (stage,), 1, 0, 1, (text,)))
    terminal.print(text[:500])
    hostile = [found for found in raw_in(screen.getvalue()) if found != "U+001B"]
    assert set(hostile) <= {"U+000D"}
    assert not any(
        sequence in screen.getvalue() for sequence in ("\x1b]", "\x1bP", "\x1bc", "\x1b(", "\x1b[6n", "\x1b[8m")
    )


def test_a_terminal_without_unicode_ends_no_command(run: Path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "LANG": "C", "LC_ALL": "C"}
    hab = [sys.executable, "-m", "hab_ray.cli", "status", str(run)]
    done = subprocess.run(hab, capture_output=True, env=environment, timeout=60)
    assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr
    assert raw_in(done.stdout.decode("ascii")) == []
