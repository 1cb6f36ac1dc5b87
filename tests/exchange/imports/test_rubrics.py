"""What is imported from a checkout is, byte for byte, what executing it gives; nothing else is executed or written."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.checkout import known_digests
from hab_ray.exchange.imports.executing import hostile_values
from hab_ray.exchange.imports.rubrics import Wanted, import_rubrics
from hab_ray.rubric import LiteralValues, Reading, check, load_rubrics, load_themes, rendered
from tests.exchange.imports.checkouts import DIMENSIONS, build_checkout

ANY = Wanted(execute_unknown=True)
ASK = "src/prompts/ask_clarifying_questions.py"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return build_checkout(tmp_path / "a check out")


def edited(root: Path, name: str, old: str, new: str) -> None:
    text = (root / name).read_text("utf-8")
    assert old in text
    (root / name).write_text(text.replace(old, new, 1), "utf-8")


def test_wording_seeds_themes_and_points_come_along(checkout: Path, tmp_path: Path) -> None:
    notes = "\n".join(import_rubrics(checkout, tmp_path / "out", ANY).notes)
    assert check(tmp_path / "out") == []
    found = load_rubrics(tmp_path / "out")
    assert set(found) == set(DIMENSIONS)
    assert load_themes(tmp_path / "out") == tuple(f"theme {n}\n" for n in range(78))
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


def test_how_replies_are_read_is_written_into_every_rubric(checkout: Path, tmp_path: Path) -> None:
    import_rubrics(checkout, tmp_path / "out", Wanted(execute_unknown=True, reading=Reading.PUBLISHED))
    found = [rubric.literal for rubric in load_rubrics(tmp_path / "out").values() if rubric.literal]
    assert found and {literal.reading for literal in found} == {Reading.PUBLISHED}


def test_enough_hostile_values_are_compared() -> None:
    assert len(hostile_values()) >= 25


def test_only_files_with_known_digests_are_executed(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"not the published src/prompts/prompt_base\.py"):
        import_rubrics(checkout, tmp_path / "out", Wanted())
    known = {
        kind: {
            name: {sha256((checkout / folder / name).read_bytes()).hexdigest()[:16]: "made here"}
            for name in known_digests()[kind]
        }
        for kind, folder in (("code", "src/prompts"), ("data", "examples_for_generation"))
    }
    import_rubrics(checkout, tmp_path / "out", Wanted(), known)
    literal = load_rubrics(tmp_path / "out")["encourage_learning"].literal
    assert literal and "made here" in literal.origin.source
    edited(checkout, ASK, "riddles", "poems")
    with pytest.raises(ConfigError, match=rf"not the published {ASK} \(another sha256\)"):
        import_rubrics(checkout, tmp_path / "two", Wanted(), known)


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
        ("raise ValueError('no')", "ValueError: no"),
        ("return 5", "gives int, and a text is expected"),
        ("x = 'x' * (1 << 34)", "MemoryError"),
        ("random._os._exit(0)", "ended without an answer"),
    ],
)
def test_code_that_does_more_than_prompts_is_refused(
    code: str, says: str, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hab_ray.exchange.imports.child.CPU_S", 2)
    edited(
        checkout,
        ASK,
        "def relevance_check_prompt(self, question):",
        f"def relevance_check_prompt(self, question):\n        {code}",
    )
    with pytest.raises(ConfigError, match=says):
        import_rubrics(checkout, tmp_path / "out", ANY)
    assert not (tmp_path / "out").exists()


def test_another_top_score_is_refused(checkout: Path, tmp_path: Path) -> None:
    edited(checkout, "src/prompts/prompt_base.py", "top_eval_score = 10", "top_eval_score = 12")
    with pytest.raises(ConfigError, match="top score is 12"):
        import_rubrics(checkout, tmp_path / "out", ANY)


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no folder"):
        import_rubrics(tmp_path / "none", tmp_path / "out", Wanted())
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="found: none"):
        import_rubrics(tmp_path / "empty", tmp_path / "out", Wanted())
