"""`hab demo`: which weights it takes, what it shows at its end."""

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hab_ray.cli.commands.running import demo
from hab_ray.cli.commands.running.demo import LARGE, NEEDED, NEXT, SMALL, judged_answer, next_steps, program, too_small
from hab_ray.cli.main import app
from hab_ray.config.sweep import load_sweep
from hab_ray.local import free_memory, known_weights
from hab_ray.location import Location
from hab_ray.results import open_run
from hab_ray.rubric import load_rubrics
from hab_ray.stages.prompts.wording import load_prompts
from hab_ray.sweep.start import DEMO_NOTICES
from tests.conftest import Desk, Vendors
from tests.small_runs import HOSTILE, Shape, write_run

ROOT = Path(__file__).parents[2]


def system(root: Path, available_kib: int | None, bound: str | None = None, used: int = 0) -> Path:
    """A /proc and /sys that say so."""
    if available_kib is not None:
        (root / "proc").mkdir()
        (root / "proc/meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable:   {available_kib} kB\n")
    if bound is not None:
        (root / "sys/fs/cgroup").mkdir(parents=True)
        (root / "sys/fs/cgroup/memory.max").write_text(f"{bound}\n")
        (root / "sys/fs/cgroup/memory.current").write_text(f"{used}\n")
    return root


@pytest.mark.parametrize(
    ("available_kib", "bound", "used", "free"),
    [
        (1000, None, 0, 1_024_000),
        (1000, "max", 5, 1_024_000),
        (1000, "600000", 100_000, 500_000),
        (None, "600000", 100_000, 500_000),
        (None, None, 0, None),
    ],
)
def test_free_memory_is_the_least_of_what_the_system_and_the_container_leave(
    tmp_path: Path, available_kib: int | None, bound: str | None, used: int, free: int | None
) -> None:
    assert free_memory(system(tmp_path, available_kib, bound, used)) == free


@pytest.mark.parametrize(
    ("memory", "disk", "is_here", "why"),
    [
        (NEEDED, NEEDED, False, None),
        (NEEDED - 1, NEEDED, False, "of memory are free"),
        (None, NEEDED, False, None),
        (NEEDED, NEEDED - 1, False, "of disk are free"),
        (NEEDED, NEEDED - 1, True, None),
    ],
)
def test_large_weights_are_taken_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int | None, disk: int, is_here: bool, why: str | None
) -> None:
    monkeypatch.setattr(demo, "free_memory", lambda: memory)
    monkeypatch.setattr(demo, "free_disk", lambda folder: disk)
    if is_here:
        (tmp_path / known_weights()[LARGE.weights].file).touch()
    told = too_small(tmp_path)
    assert (told is None) if why is None else (told and why in told)


@pytest.mark.parametrize("size", [LARGE, SMALL])
def test_a_demo_runs_every_stage_on_the_weights_it_fetches_and_says_what_they_can_tell(size: demo.Size) -> None:
    sweep = load_sweep(ROOT / size.sweep)
    assert sweep.generate and sweep.validation != "off" and sweep.select and len(sweep.subjects) == 2
    assert str(sweep.store) == f"{sweep.run_folder}/store" != "store"
    chat = {sweep.catalog.find(name).weights for name in sweep.model_names()} - {None}
    assert chat == {size.weights} and size.weights in DEMO_NOTICES


def test_the_judge_is_shown_verdicts_and_no_form_that_it_could_copy() -> None:
    """So small a model repeats a form with placeholders; what is asked of it besides is worded as everywhere."""
    sweep = load_sweep(ROOT / LARGE.sweep)
    assert sweep.rubrics
    own, built_in = load_prompts(sweep.rubrics), load_prompts()
    for mine, others in ((own.generate, built_in.generate), (own.validation, built_in.validation)):
        assert (mine.system, mine.user) == (others.system, others.user)
    for rubric in load_rubrics().values():
        shown = own.judge.fill_system({"rubric": rubric})
        verdicts = [json.loads(line) for line in re.findall(r"^Verdict: (.*)$", shown, re.MULTILINE)]
        assert [tuple(verdict["issues"]) for verdict in verdicts] == [e.issues for e in rubric.judging.examples]
        assert len(verdicts) == shown.count('"assessment"') > 1


def test_the_answer_shown_has_its_issues_in_the_rubrics_words(tmp_path: Path) -> None:
    write_run(tmp_path / "run", Shape(text=HOSTILE, dimensions=("encourage_learning",)))
    run = open_run(Location.of(tmp_path / "run"))
    shown = list(judged_answer(run))
    text = " ".join(" ".join(shown).split())
    verdicts = run.verdicts().to_pylist()
    (title,) = [rubric.title for rubric in run.rubrics.values()]
    issues = {issue.letter: issue for issue in run.rubrics["encourage_learning"].judging.issues}
    lowest = min(v["score"] for v in verdicts if v["issues"])
    letters = next(v["issues"] for v in verdicts if v["issues"] and v["score"] == lowest)
    assert title in text and f"{lowest / 10:.2f}" in text
    assert all(
        f"{letter} (-{issues[letter].deduction}): {' '.join(issues[letter].text.split())}" in text for letter in letters
    )
    assert not any(hidden in text for hidden in "\u2028\u202e\x00")


@pytest.mark.parametrize(("share", "is_said"), [(0.5, False), (1.0, True)])
def test_a_cut_answer_is_shown_only_if_all_are_and_said_to_be_cut(tmp_path: Path, share: float, is_said: bool) -> None:
    write_run(tmp_path / "run", Shape(cut=share, dimensions=("encourage_learning",), tests=30))
    assert ("(cut at " in "\n".join(judged_answer(open_run(Location.of(tmp_path / "run"))))) is is_said


def test_nothing_is_shown_of_a_run_without_a_readable_verdict(tmp_path: Path) -> None:
    write_run(tmp_path / "run", Shape(fail=1.0))
    assert list(judged_answer(open_run(Location.of(tmp_path / "run")))) == []


def test_it_ends_with_the_board_an_answer_and_what_comes_next(desk: Desk, vendor: Vendors) -> None:
    """A sweep of one's own under the demo's name is taken, so that this one asks a simulator."""
    sim = vendor()
    own = desk.folder / SMALL.sweep
    own.parent.mkdir()
    desk.sweep("demo-small", sim.url, executor="local", dimensions=["encourage_learning"]).rename(own)
    done = desk.says("demo", "--small")
    places = [done.index(part) for part in ("it cannot judge", "overall", "report:", "One answer", "next: ")]
    assert places == sorted(places)
    assert done.count("\nnext: ") == 3


@pytest.mark.parametrize("arguments", [arguments for arguments, _ in NEXT])
def test_what_comes_next_is_a_command_with_files_that_are_there(arguments: str) -> None:
    name, *files = arguments.split()
    assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0
    assert all((ROOT / file).is_file() for file in files)


def test_what_comes_next_is_found_by_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """After `make demo` no environment is active, and `hab` is on no path."""
    folder = Path(sys.executable).parent
    monkeypatch.chdir(folder.parent)
    for path, begins in ((str(folder), "next: hab init "), ("/nowhere", f"next: {folder.name}/hab init ")):
        monkeypatch.setenv("PATH", path)
        assert next_steps(program())[1].startswith(begins)
    assert (folder / "hab").is_file()
