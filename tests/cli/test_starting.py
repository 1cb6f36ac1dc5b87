"""`hab init` and `hab sweeps`: from nothing to a sweep that can be planned."""

import errno
import os
import pty
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table
from typer.testing import CliRunner

import hab_ray
from hab_ray.cli.commands.preparing import init, sweeps
from hab_ray.cli.ending import console
from hab_ray.cli.main import app
from hab_ray.cli.prepare import Choices, prepare
from hab_ray.cli.questions import InitOptions
from hab_ray.cli.views.terminal import FILE_COLUMNS, TABLE_COLUMNS, Terminal, output, print_cells
from hab_ray.config.sweep import load_sweep
from hab_ray.drafting.shipped import shipped_sweeps
from hab_ray.errors import ConfigError, Exit
from hab_ray.location import Location
from hab_ray.planning.preflight import refuse_second_run
from hab_ray.storage.local import LocalFolder
from tests.conftest import Desk

SECRET = "-".join(["hab", "starting", "key", "0123456789abcdef"])
NOW = datetime(2026, 11, 26, tzinfo=UTC)
VERBS = ("rehearse", "plan", "run")
GATEWAY = InitOptions(
    model=["gpt-6-luna"],
    dimension=["encourage_learning"],
    tests="10",
    judge=["gpt-6.1-terra"],
    endpoint="https://gateway.example/v1",
    like="openai",
    key_env="GATEWAY_KEY",
)


def printed(file: Path, options: InitOptions) -> str:
    with console.capture() as captured:
        assert init.init_sweep(file, options) is Exit.COMPLETE
    return captured.get()


def test_a_gateway_needs_no_key_but_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = printed(Path("first.yaml"), GATEWAY)
    assert "gateway/gpt-4.1 writes and checks the tests, gateway/text-embedding-3-small compares them" in told
    assert "GATEWAY_KEY is not set" in told and "OPENAI_API_KEY" not in told
    sweep = load_sweep(Path("first.yaml"))
    assert all(name.startswith("gateway/") for name in sweep.model_names())
    assert sweep.budget_usd and 0.01 < sweep.budget_usd < 10


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (InitOptions(["gpt-6-luna"], ["all"], "seeds"), "--judge"),
        (InitOptions(["gpt-7-nova"], ["all"], "seeds", ["gpt-6.1-terra"]), "gpt-7-nova"),
        (InitOptions(["gemini-2.0-flash"], ["all"], "seeds", ["gpt-6.1-terra"]), "retired"),
        (InitOptions(["mine"], ["all"], "seeds", ["mine"], "http://127.0.0.1:9/v1"), "--price"),
        (InitOptions(["mine"], ["all"], "seeds", ["mine"], like="openai"), "--endpoint"),
        (replace(GATEWAY, model=["gpt-6-lunar"]), "gpt-6-lunar: .* did you mean gpt-6-luna"),
        (replace(GATEWAY, judge=["a-model-of-ours"]), "a-model-of-ours: .* --price"),
    ],
)
def test_nothing_is_written_that_cannot_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: InitOptions, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=named):
        init.init_sweep(Path("first.yaml"), changed)
    assert list(tmp_path.iterdir()) == []


def test_a_dimension_may_be_written_as_tables_print_it(tmp_path: Path) -> None:
    init.init_sweep(
        tmp_path / "first.yaml", replace(GATEWAY, dimension=["Encourage learning", "correct-misinformation"])
    )
    assert load_sweep(tmp_path / "first.yaml").dimensions == ("encourage_learning", "correct_misinformation")


def test_a_file_is_never_replaced(tmp_path: Path) -> None:
    file = tmp_path / "first.yaml"
    file.write_text("mine")
    with pytest.raises(ConfigError, match="the file exists"):
        init.init_sweep(file, GATEWAY)
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "file"), [("a b.yaml", "'a b.yaml'"), ("-x.yaml", "./-x.yaml"), ("d/c.yaml", "d/c.yaml")]
)
def test_suggestions_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, file: str) -> None:
    """Both on the terminal and at the head of the file, as a shell takes it."""
    monkeypatch.chdir(tmp_path)
    assert f"next: hab rehearse {file}, hab plan {file}, hab run {file}" in printed(Path(name), GATEWAY)
    head = Path(name).read_text().splitlines()[1:4]
    assert [line.startswith(f"#   hab {verb} {file}  ") for verb, line in zip(VERBS, head, strict=True)] == [True] * 3


def asked(folder: Path, answers: str, *arguments: str) -> str:
    """What `hab` says in a terminal where a user answers its questions."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "hab_ray.cli", *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")} | {"COLUMNS": "200"}
    with subprocess.Popen(command, cwd=folder, env=environment, stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        os.write(master, answers.encode())
        told = b""
        while True:
            try:
                read = os.read(master, 4096)
            except OSError:  # how Linux says that the other end is closed
                break
            told += read
        assert process.wait() == 0, told.decode()
    os.close(master)
    return told.decode()


def test_enter_takes_each_default_and_a_question_without_one_gives_examples(desk: Desk) -> None:
    told = asked(desk.folder, "\ngpt-6-luna\n\n\n\n", "init")
    assert "such as gpt-6-luna, claude-haiku-5-5" in told and "type at least one, such as gpt-6-luna" in told
    assert all(default in told for default in ("[all]:", "[seeds]:", "[gpt-6.1-terra]:"))
    sweep = load_sweep(desk.folder / "first.yaml")
    assert (sweep.dimensions, sweep.tests, sweep.judges[0].name) == ("all", "seeds", "gpt-6.1-terra")


def test_of_an_endpoint_that_is_given_no_question_asks_again(desk: Desk) -> None:
    url = ("--endpoint", "http://127.0.0.1:9/v1")
    told = asked(desk.folder, "\nclaude-haiku-5-5\n\n\n\n", "init", *url, "--like", "anthropic")
    assert "endpoint (separated by commas, such as claude-haiku-5-5, claude" in told and "gpt-" not in told
    assert "URL" not in told and "[claude-sonnet-5-5]:" in told
    told = asked(desk.folder, "\n\n0/0\nmine\n\n\nmine\n", "init", "own.yaml", *url)
    assert "URL" not in told and "by its own names" in told


def test_what_is_not_called_at_the_endpoint_is_said(desk: Desk) -> None:
    url, file = "http://127.0.0.1:9/v1", desk.folder / "own.yaml"
    models = InitOptions(["gpt-4o", "openai/gpt-6-luna"], ["all"], "seeds", ["gpt-6.1-terra"], url, price="0/0")
    told = printed(file, models)
    assert [subject.model for subject in load_sweep(file).subjects] == ["endpoint/gpt-4o", "openai/gpt-6-luna"]
    for name in ("openai/gpt-6-luna", "gpt-6.1-terra"):
        assert f"{name} is called at openai, not at {url}; write endpoint/{name} for" in told
    assert "gpt-4o is called" not in told
    assert "is called at" not in printed(desk.folder / "gateway.yaml", replace(GATEWAY, judge=["gpt-6-luna"]))


def test_an_embedding_model_elsewhere_is_said_with_what_to_write(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    file = desk.folder / "own.yaml"
    told = printed(file, InitOptions(["m"], ["all"], "5", ["m"], "http://127.0.0.1:9/v1", price="0/0"))
    assert "is called at openai; if the endpoint has an embedding model, write `embedding: endpoint/NAME`" in told
    models = "    models: {emb: {purpose: embedding}}"
    text = file.read_text().replace("text-embedding-3-small", "endpoint/emb")
    text = text.replace("  endpoint:", f"  endpoint:\n{models}")
    file.write_text(text)
    assert {name.partition("/")[0] for name in load_sweep(file).model_names()} == {"endpoint"}
    assert "if the endpoint has" not in printed(desk.folder / "gateway.yaml", GATEWAY)


def test_each_question_takes_only_what_can_be_used(desk: Desk) -> None:
    """What cannot be is said at once, with nothing lost that was answered before; what is named twice counts once.

    Keys come from .env, which stays the only file that has them.
    """
    (desk.folder / ".env").write_text(f"OPENAI_API_KEY={SECRET}\n")
    models, dimensions = "gpt-7-nova\nwordllama\ngpt-6-luna, gpt-6-luna\n", "all, some\nencourage_learning\n"
    tests = "0\n200000\nseeds\n"
    told = asked(desk.folder, f"{models}{dimensions}{tests}nobody\ngpt-6.1-terra\n", "init", "a b.yaml")
    wrong = ("unknown model 'gpt-7-nova'", "wordllama: only embeds texts", "no 'some'", "above 0", "the paper asks 500")
    places = [told.index(text) for text in (*wrong, "unknown model 'nobody': it is", "next: hab rehearse 'a b.yaml'")]
    assert places == sorted(places)
    sweep = load_sweep(desk.folder / "a b.yaml")
    assert sweep.subject_names == ("gpt-6-luna",) and sweep.dimensions == ("encourage_learning",)
    assert "a b.yaml: written; planned at $" in told and "is not set" not in told
    assert "24 calls to pay" in desk.says("plan", "a b.yaml")
    holding = [path.name for path in desk.folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert holding == [".env"]


def test_an_address_is_checked_where_it_is_asked_for_and_a_model_by_what_is_there(desk: Desk) -> None:
    url = "http://127.0.0.1:9/v1"
    wrong = f"localhost:80/v1\nhttp://\nhttp://me:{SECRET}@localhost/v1\n{url}, gpt-6-luna\n"
    told = asked(
        desk.folder, f"{wrong}{url}\nopenai\n-\ngpt-6-lunar\ngpt-6-luna\nall\nseeds\nnobody\ngpt-6.1-terra\n", "init"
    )
    said = ("begins with http://", "is not a web address", "or password", "address of an endpoint alone")
    places = [told.index(text) for text in (*said, "did you mean gpt-6-luna", "nobody: the catalogue", "next: hab")]
    assert places == sorted(places)
    assert SECRET not in (desk.folder / "first.yaml").read_text()


def test_no_columns_are_not_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, width in (("0", FILE_COLUMNS), ("", FILE_COLUMNS), ("50", 50)):
        monkeypatch.setenv("COLUMNS", columns)
        assert output().width == width


def test_without_a_terminal_the_options_are_named(desk: Desk) -> None:
    assert "--model, --dimension, --tests, --judge" in desk.says("init", status=2)


def test_of_env_only_lines_of_keys_must_be_right(desk: Desk) -> None:
    (desk.folder / ".env").write_text("not a variable\n")
    desk.says("sweeps", "compare")
    (desk.folder / ".env").write_text(f"not a variable\nOPENAI_API_KEY=two {SECRET}\n")
    broken = desk.says("sweeps", "compare", status=2)
    assert ".env: line 2" in broken and SECRET not in broken


def test_an_env_that_may_not_be_read_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read it nevertheless, so opening it fails here for anybody."""
    opened = Path.open

    def refused(file: Path, *how: Any, **more: Any) -> Any:
        if file.name == ".env":
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(file, *how, **more)

    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("LAB_KEY=1\n")
    monkeypatch.setattr(Path, "open", refused)
    done = CliRunner().invoke(app, ["sweeps", "--help"])
    assert done.exit_code == 0 and "Show the sweeps" in done.stdout
    assert done.stderr.splitlines() == [".env: cannot be read: Permission denied; its keys are not set"]


def test_an_empty_key_is_as_one_that_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose files often pass on variables that their host lacks; an empty proxy is meant."""
    monkeypatch.setenv("LAB_KEY", "")
    monkeypatch.setenv("HTTPS_PROXY", "")
    (tmp_path / "e").write_text(f"LAB_KEY={SECRET}\nHTTPS_PROXY=http://127.0.0.1:9\n")
    assert CliRunner().invoke(app, ["--env-file", str(tmp_path / "e"), "sweeps", "compare"]).exit_code == 0
    assert (os.environ["LAB_KEY"], os.environ["HTTPS_PROXY"]) == (SECRET, "")


def test_sweeps_that_ship(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the paper's size take seconds to price; the others are enough here."""
    shown = [each for each in shipped_sweeps() if each.name in ("compare", "demo", "quick", "judge-bridge-full")]
    monkeypatch.setattr(sweeps, "shipped_sweeps", lambda: shown)
    monkeypatch.setattr(console, "width", 40)
    done = CliRunner().invoke(app, ["sweeps"])
    assert done.exit_code == Exit.COMPLETE
    assert "jobs/compare.yaml: 4 x 50 x 6, 2 judges, $1" in done.output
    assert "jobs/judge-bridge-full.yaml: needs files, `hab plan`\n" in done.output
    assert ", free\n    The demo (`hab demo`): every step of" in done.output
    assert "$0." in done.output and "A first real result for cents:" in done.output
    monkeypatch.setattr(sweeps, "shipped_sweeps", lambda: shown[:1])
    monkeypatch.setattr(console, "width", 4)
    assert CliRunner().invoke(app, ["sweeps"]).exit_code == Exit.COMPLETE


def test_a_narrow_terminal_shows_names_whole(tmp_path: Path) -> None:
    console = Terminal(width=40)
    table = Table("model", "online $", "what it is for", box=None, pad_edge=False)
    table.add_row("gpt-6.1-terra-2026-11-20", "0.1/0.5", " ".join(["many words"] * 9))
    with console.capture() as captured:
        print_cells(table, console)
    lines = captured.get().splitlines()
    assert "gpt-6.1-terra-2026-11-20  0.1/0.5" in lines[1] and max(map(len, lines)) == TABLE_COLUMNS


def test_a_run_beside_its_sweep_is_not_begun_anew_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed(Path("first.yaml"), GATEWAY)
    (tmp_path / "runs/first").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    sweep = Path("../first.yaml")
    prepare(sweep, Choices(), NOW)
    (tmp_path / "runs/first/sweep.yaml").write_text("{}")
    for start in (partial(prepare, sweep, Choices(), NOW), partial(hab_ray.plan, sweep)):
        with pytest.raises(ConfigError, match="every call again; work in"):
            start()
    prepare(sweep, Choices(run=Location("runs/first")), NOW)

    def forbidden(self: LocalFolder, name: str) -> bool:
        raise PermissionError(13, "Permission denied", str(self.root / name))

    with monkeypatch.context() as patched:
        patched.setattr(LocalFolder, "exists", forbidden)
        refuse_second_run(load_sweep(sweep), sweep)  # somebody else's run, which this user cannot continue
