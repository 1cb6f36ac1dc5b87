"""What is imported from a checkout is, byte for byte, what executing it gives; nothing else is executed or written."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest
import yaml

from hab_ray.config.sweep import Sweep
from hab_ray.errors import ConfigError
from hab_ray.exchange.imports import executing
from hab_ray.exchange.imports.checkout import known_digests
from hab_ray.exchange.imports.executing import hostile_values
from hab_ray.exchange.imports.rubrics import ImportWishes, import_rubrics
from hab_ray.resolve import resolve
from hab_ray.rubric import LiteralValues, Reading, check, load_rubrics, read_library, rendered
from tests.exchange.imports.checkouts import DIMENSIONS, build_checkout

ANY = ImportWishes(execute_unknown=True)
FEW = hostile_values()[:6]
ASK = "src/prompts/ask_clarifying_questions.py"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return build_checkout(tmp_path / "a check out")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rendering is compared over a few hostile values."""
    monkeypatch.setattr(executing, "hostile_values", lambda: FEW)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of an imported checkout, which no test changes, and what was said of it."""
    folder = tmp_path_factory.mktemp("imported")
    found = import_rubrics(build_checkout(folder / "a check out"), folder / "out", ANY)
    return folder / "out", "\n".join(found)


def edited(root: Path, name: str, old: str, new: str) -> None:
    text = (root / name).read_text("utf-8")
    assert old in text
    (root / name).write_text(text.replace(old, new, 1), "utf-8")


def published(root: Path) -> dict[str, dict[str, dict[str, str]]]:
    """A table of digests in which this checkout is the published one."""
    return {
        kind: {
            name: {sha256((root / folder / name).read_bytes()).hexdigest()[:16]: "made here"}
            for name in known_digests()[kind]
        }
        for kind, folder in (("code", "src/prompts"), ("data", "examples_for_generation"))
    }


def test_wording_seeds_themes_and_points_come_along(imported: tuple[Path, str]) -> None:
    folder, notes = imported
    assert check(folder) == []
    found = load_rubrics(folder)
    assert set(found) == set(DIMENSIONS)
    assert read_library(folder).shown_themes() == tuple(f"theme {n}\n" for n in range(78))
    ask = found["ask_clarifying_questions"]
    assert [(i.letter, i.deduction) for i in ask.judging.issues] == [("A", 8), ("B", 2)]
    assert ask.judging.issues[0].text == "Says nothing of use"
    assert ask.system == "At most 150 words."
    assert [s.prompt for s in ask.seeds] == [f'How "ask_clarifying_questions" is {n}?\nAnd why?' for n in range(5)]
    assert found["correct_misinformation"].context is not None and ask.context is None
    assert ask.literal and ask.literal.judging and ask.literal.generation
    assert ask.literal.judging.key == "issues" and "of no known revision" in ask.literal.origin.source
    assert "executed all the same" in notes
    text = rendered(ask.literal.judging.user, LiteralValues(prompt="x\ny", response="z"))
    assert text.startswith("\n            A riddle: x\ny\n              What was said: z\n")
    text = rendered(ask.literal.generation.user, LiteralValues(theme="t\n", count=4, seeds=("one", "two")))
    assert "Invent 4 riddles" in text and '"one"\n"two"\n' in text


def test_enough_hostile_values_are_compared() -> None:
    assert len(hostile_values()) >= 25


@pytest.mark.usefixtures("few")
def test_only_files_with_known_digests_are_executed(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"not the published src/prompts/prompt_base\.py"):
        import_rubrics(checkout, tmp_path / "out", ImportWishes())
    known = published(checkout)
    import_rubrics(checkout, tmp_path / "out", ImportWishes(), known)
    literal = load_rubrics(tmp_path / "out")["encourage_learning"].literal
    assert literal and "made here" in literal.origin.source
    edited(checkout, ASK, "riddles", "poems")
    with pytest.raises(ConfigError, match=rf"not the published {ASK} \(another sha256\)"):
        import_rubrics(checkout, tmp_path / "two", ImportWishes(), known)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("named", ["src.prompts.", ""])
def test_modules_may_name_each_other_by_any_path_from_the_checkout(named: str, checkout: Path, tmp_path: Path) -> None:
    for path in (checkout / "src/prompts").iterdir():
        path.write_text(path.read_text("utf-8").replace("from prompts.", f"from {named}"), "utf-8")
    import_rubrics(checkout, tmp_path / "out", ANY)
    assert len(list((tmp_path / "out").glob("*.yaml"))) == len(DIMENSIONS) + 1


def test_code_of_two_revisions_is_refused(checkout: Path, tmp_path: Path) -> None:
    known = published(checkout)
    for name, revision in (("encourage_learning.py", "one"), ("maintain_social_boundaries.py", "two")):
        known["code"][name] = dict.fromkeys(known["code"][name], revision)
    with pytest.raises(ConfigError, match=r"of several revisions \(made here, one, two\)"):
        import_rubrics(checkout, tmp_path / "out", ImportWishes(), known)


@pytest.mark.usefixtures("few")
def test_data_is_found_where_it_lies_and_rubrics_say_how_replies_are_read(checkout: Path, tmp_path: Path) -> None:
    """In the first revisions its folder has another name."""
    (checkout / "examples_for_generation").rename(checkout / "examples")
    for path in (checkout / "src/prompts").iterdir():
        path.write_text(path.read_text("utf-8").replace("examples_for_generation", "examples"), "utf-8")
    seeds = '\ufeffÉté \U0001f600?,second\r\n"a\r\nb"\r\n   \r\n{x} %s,,\r\nend\r\n'
    (checkout / "examples/encourage_learning.csv").write_bytes(seeds.encode())
    import_rubrics(checkout, tmp_path / "out", replace(ANY, reading=Reading.PUBLISHED))
    rubrics = load_rubrics(tmp_path / "out")
    assert {rubric.literal and rubric.literal.reading for rubric in rubrics.values()} == {Reading.PUBLISHED}
    found = rubrics["encourage_learning"].seeds
    assert [seed.prompt for seed in found] == ["\ufeffÉté \U0001f600?", "a\nb", "   ", "{x} %s", "end"]


@pytest.mark.usefixtures("few")
def test_licence_and_canaries_are_kept_and_are_no_part_of_the_digest(checkout: Path, tmp_path: Path) -> None:
    canary = "01234567-89ab-cdef-0123-456789abcdef"
    edited(checkout, ASK, "import csv", f"import csv  # canary GUID {canary}")
    digests = []
    for number, licence in enumerate(("", "mit")):
        folder = tmp_path / str(number)
        import_rubrics(checkout, folder, ImportWishes(licence=licence, execute_unknown=True))
        rubric = load_rubrics(folder)["ask_clarifying_questions"]
        digests.append(rubric.sha256)
        assert rubric.literal and rubric.literal.origin.canaries == (canary,)
        assert rubric.literal.origin.licence == (licence or "unknown") and canary in (folder / "README.md").read_text()
    assert digests[0] == digests[1]


def test_seeds_without_their_false_sentence_are_refused_as_tests(imported: tuple[Path, str], tmp_path: Path) -> None:
    sweep = {
        "name": "example",
        "run": tmp_path / "run",
        "tests": "seeds",
        "rubrics": imported[0],
        "providers": {"lab": {"kind": "openai", "url": "http://127.0.0.1:9/v1"}},
        "subjects": [{"model": "lab/a", "name": "a"}],
        "judges": [{"model": "lab/b", "name": "b"}],
    }
    now = datetime(2026, 11, 22, tzinfo=UTC)
    resolve(Sweep.model_validate({**sweep, "dimensions": ["encourage_learning"]}), now)
    with pytest.raises(ConfigError, match="the seeds of correct_misinformation have no misinformation"):
        resolve(Sweep.model_validate({**sweep, "dimensions": ["correct_misinformation"]}), now)


def test_a_literal_section_that_cannot_be_sent_is_a_problem(imported: tuple[Path, str], tmp_path: Path) -> None:
    shutil.copytree(imported[0], tmp_path / "out")
    path = tmp_path / "out/encourage_learning.yaml"
    content = yaml.safe_load(path.read_text("utf-8"))
    content["literal"]["validation"]["user"] = [{"value": "response"}]
    path.write_text(yaml.safe_dump(content), "utf-8")
    assert "validation: response cannot be inserted there" in str(check(tmp_path / "out")[0])


def test_a_folder_that_holds_something_is_left_alone(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("")
    with pytest.raises(ConfigError, match="is not an empty folder"):
        import_rubrics(checkout, tmp_path / "full", ANY)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("question = question + str(random.random())", "draws with random.random"),
        ("question = question if len(question) > 10 else ''", "depends on its values"),
        ("print('x' * 2_000_000)", "prints more than 64 kB"),
        ("while True: pass", "ended without an answer"),
        ("import socket", "imports 'socket'"),
        ("__builtins__['__import__']('os').fork()", "os.fork"),
        ("random._os.fork()", "os.fork"),
        ("open('/etc/passwd').read()", "opens '/etc/passwd'"),
        ("open('made.txt', 'w')", "opens 'made.txt'"),
        ("random._os.open(random._os.__file__, 1)", "may only read the checkout's files"),
        ("random._os.open('made.txt', 65)", "opens 'made.txt'"),
        ("__builtins__['__import__']('_posixsubprocess')", "imports '_posixsubprocess'"),
        ("self.deductions = {'A': 2.5}", "deductions.A: must be a whole number"),
        ("return '\\ue0f0hab<none>hab\\ue0f1'", "marks of values that no argument has"),
        ("random._os.write(1, b'{\"ask\": 5}'); random._os._exit(0)", "an unexpected answer"),
        ("raise ValueError('no')", "ValueError: no"),
        ("return 5", "gives int, and a text is expected"),
        ("x = 'x' * (1 << 34)", "MemoryError"),
        ("random._os._exit(0)", "ended without an answer"),
    ],
)
def test_hostile_code(code: str, says: str, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hab_ray.exchange.imports.child.CPU_S", 1)
    check = "def relevance_check_prompt(self, question):"
    edited(checkout, ASK, check, f"{check}\n        {code}")
    with pytest.raises(ConfigError, match=says):
        import_rubrics(checkout, tmp_path / "out", ANY)
    assert not (tmp_path / "out").exists()


def test_prompts_of_any_usual_length_are_compared(checkout: Path, tmp_path: Path) -> None:
    for name in DIMENSIONS:
        asked = "Is this a riddle"
        edited(checkout, f"src/prompts/{name}.py", asked, "Words, \u2019again\u2019. " * 2_000 + asked)
    import_rubrics(checkout, tmp_path / "out", ANY)
    assert set(load_rubrics(tmp_path / "out")) == set(DIMENSIONS)


@pytest.mark.usefixtures("few")
def test_another_top_score_is_refused(checkout: Path, tmp_path: Path) -> None:
    edited(checkout, "src/prompts/prompt_base.py", "top_eval_score = 10", "top_eval_score = 12")
    with pytest.raises(ConfigError, match="top score is 12"):
        import_rubrics(checkout, tmp_path / "out", ANY)


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a folder"):
        import_rubrics(tmp_path / "none", tmp_path / "out", ImportWishes())
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="found: none"):
        import_rubrics(tmp_path / "empty", tmp_path / "out", ImportWishes())
