"""What is imported from a checkout is, byte for byte, what executing that checkout gives.

The checkout is invented here; the tests execute it, `hab import` never does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from hab_ray.config import Sweep
from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.rubrics import Wanted, import_rubrics
from hab_ray.resolve import resolve
from hab_ray.rubric import LiteralValues, Reading, check, load_rubrics, load_themes, rendered

BASE = '''
"""The invented lab's base class."""
import textwrap
from textwrap import dedent

CLOSING = "\\nReply in the form " + '{{"deductions": ["letters"]}}'.format() + "."


def boxed(text, mark="="):
    line = mark + mark + mark
    return f"{line}\\n{text}\\n{line}"


class Base:
    tone = "curt"
    deductions = {}

    def subject_system_prompt(self):
        return " Be brief.\\n"

    def validation_prompt(self, question):
        return dedent(
            f"""
                Rate this from 1000 down ({self.tone}):
                {question}
                Put the total between <score> and </score>.
            """
        )
'''
PLANTS = '''
from lab.base import Base, CLOSING, boxed
import textwrap
import random

INTRO = """   Does the reply water the plant?
      A. It lets the plant dry out
      B. It waters too late
   """


class WaterThePlants(Base):
    """Plants are watered."""

    deductions = {"A": 10, "B": 4}
    tone = Base.tone + "ly"
    template = "Question: {q}\\nAnswer: {0!s}\\n{{braces}}"

    def __init__(self):
        with_path = "seeds/water_the_plants.csv"
        self.seeds = open(with_path).read()

    def get_evaluator_system_prompt(self):
        return textwrap.dedent(INTRO).strip() + CLOSING

    def get_evaluator_prompt(self, question, answer):
        text = self.template.format(answer, q=question)
        text += boxed(answer, mark="~")
        return textwrap.dedent(f"""
            {text}
            A costs {self.deductions["A"]:02d} points; {"yes" if self.tone else "no"}.
        """)

    def get_generator_prompt(self, seeds, theme, n=3):
        shown = "\\n".join(f"{i + 1}. {seed}" for i, seed in enumerate(seeds))
        more = ""
        for seed in seeds:
            more += f"<{seed}>"
        lines = ["first"]
        for number, seed in enumerate(seeds, 5):
            lines.append(f"[{number}] {seed}")
        return textwrap.dedent(f"""
            Write {n} more, about {theme}
            {shown}
            {more} {" | ".join(lines)}
        """).rstrip("\\n")
'''
ROCKS = """
import inspect
from .base import Base


class CountTheRocks(Base):
    penalties = {"A": {"points": 6, "what": "miscounts"}, "B": (2, "rounds")}

    SYSTEM = ("You count. "
              "Slowly.")
    evaluator_system_prompt = SYSTEM + '\\n"issues": ["A"]'

    def validation_prompt(self, paragraph, misinformation):
        return "P:" + paragraph + "|" + misinformation.strip(" .") + "\\u2028\\x85\\t <score>"

    def evaluation_prompt(self, question, response, misinformation):
        parts = [question, response]
        parts.append(misinformation)
        return "Count:\\n" + " / ".join(parts).strip() + " # { } % \\\\ [hab-fence-code]"

    def generation_prompt(self, example_1, example_2, theme):
        return "".join([example_2, theme, example_1])
"""
THEMES = "  late in autumn\n\nwith a dog \nwithout a line break"
SEEDS = 'question,note\n"  How wet, ""really""\nis it? ",x\nIs it dry?,y\n'
VALUES = [
    "plain",
    "  indented\n    more\n",
    "two\nlines",
    "\n\n",
    "{q} {0} <<<USER>>> \\",
    "é\u2028\x85 \r\n x",
    "[hab-fence-code]",
]


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """The invented checkout; importing it leaves nothing behind."""
    root = tmp_path / "checkout"
    for name, text in {
        "lab/__init__.py": "raise_if_imported = 0\n",
        "lab/base.py": BASE,
        "lab/plants.py": PLANTS,
        "lab/rocks.py": ROCKS,
        "seeds/water_the_plants.csv": SEEDS,
        "seeds/count_the_rocks.csv": SEEDS.replace("question", "paragraph"),
        "entropy_themes.txt": THEMES,
        "NOTES.md": "Canary: benchmark data, GUID 01234567-89ab-cdef-0123-456789ABCDEF, keep out\n",
        "old/broken.py": "print 'an unrelated file of Python 2'\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (root / "results.csv").write_bytes(b"of another program: \xff\xfe")
    yield root
    for name in [name for name in sys.modules if name.split(".")[0] == "lab"]:
        del sys.modules[name]


def executed(root: Path, module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(root))
    monkeypatch.chdir(root)
    return getattr(import_module(module), name)()


def edited(root: Path, name: str, old: str, new: str) -> None:
    path = root / name
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def test_prompts_are_what_executing_the_code_gives(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_rubrics(checkout, tmp_path / "out", Wanted())
    assert not [name for name in sys.modules if name.split(".")[0] == "lab"]
    found = load_rubrics(tmp_path / "out")
    plants, rocks = found["water_the_plants"], found["count_the_rocks"]
    assert plants.literal and rocks.literal
    first = executed(checkout, "lab.plants", "WaterThePlants", monkeypatch)
    second = executed(checkout, "lab.rocks", "CountTheRocks", monkeypatch)
    assert plants.literal.judging and plants.literal.validation and plants.literal.generation
    assert rocks.literal.judging and rocks.literal.validation and rocks.literal.generation
    assert plants.literal.judging.system == first.get_evaluator_system_prompt()
    assert rocks.literal.judging.system == second.evaluator_system_prompt
    assert plants.system == rocks.system == first.subject_system_prompt()
    for prompt, response in product(VALUES, VALUES):
        values = LiteralValues(prompt=prompt, response=response, context=response)
        assert rendered(plants.literal.judging.user, values) == first.get_evaluator_prompt(prompt, response)
        assert rendered(plants.literal.validation.user, values) == first.validation_prompt(prompt)
        assert rendered(rocks.literal.judging.user, values) == second.evaluation_prompt(prompt, response, response)
        assert rendered(rocks.literal.validation.user, values) == second.validation_prompt(prompt, response)


def test_queries_are_asked_for_as_the_code_does_with_the_line_break_of_the_theme(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_rubrics(checkout, tmp_path / "out", Wanted())
    with (checkout / "entropy_themes.txt").open(encoding="utf-8") as file:
        lines = file.readlines()
    themes = load_themes(tmp_path / "out")
    assert list(themes) == lines and themes[0].endswith("\n") and not themes[-1].endswith("\n")
    found = load_rubrics(tmp_path / "out")
    seeds = [seed.prompt for seed in found["water_the_plants"].seeds]
    assert seeds == ['  How wet, "really"\nis it? ', "Is it dry?"]
    first = executed(checkout, "lab.plants", "WaterThePlants", monkeypatch)
    second = executed(checkout, "lab.rocks", "CountTheRocks", monkeypatch)
    for theme, shown in product(lines, (seeds, seeds[::-1])):
        values = LiteralValues(theme=theme, count=4, seeds=tuple(shown))
        generation = found["water_the_plants"].literal_generation
        assert generation and rendered(generation.user, values) == first.get_generator_prompt(shown, theme, 4)
        generation = found["count_the_rocks"].literal_generation
        assert generation and rendered(generation.user, values) == second.generation_prompt(*shown, theme)


def test_deductions_keys_canaries_and_origin_are_kept(checkout: Path, tmp_path: Path) -> None:
    notes = "\n".join(import_rubrics(checkout, tmp_path / "out", Wanted(licence="mit")).notes)
    assert check(tmp_path / "out") == []
    found = load_rubrics(tmp_path / "out")
    plants, rocks = found["water_the_plants"], found["count_the_rocks"]
    assert [(i.letter, i.deduction, i.text) for i in plants.judging.issues] == [
        ("A", 10, "It lets the plant dry out"),
        ("B", 4, "It waters too late"),
    ]
    assert [(i.letter, i.deduction, i.text) for i in rocks.judging.issues] == [
        ("A", 6, "miscounts"),
        ("B", 2, "rounds"),
    ]
    assert plants.literal_judging and plants.literal_judging.key == "deductions"
    assert rocks.literal_judging and rocks.literal_judging.key == "issues"
    assert plants.context is None and rocks.context is not None
    assert plants.literal
    assert plants.literal.origin.licence == "mit"
    assert plants.literal.origin.canaries == ("01234567-89ab-cdef-0123-456789abcdef",)
    assert "get_evaluator_prompt (lab/plants.py, line 26)" in notes and "refused by `tests: seeds`" in notes
    page = (tmp_path / "out/README.md").read_text("utf-8")
    assert "01234567-89ab-cdef-0123-456789abcdef" in page and "carry no fence" in page


def test_how_replies_are_read_is_written_into_every_rubric(checkout: Path, tmp_path: Path) -> None:
    import_rubrics(checkout, tmp_path / "out", Wanted(reading=Reading.PUBLISHED))
    found = [rubric.literal for rubric in load_rubrics(tmp_path / "out").values() if rubric.literal]
    assert found and {literal.reading for literal in found} == {Reading.PUBLISHED}


def test_seeds_without_their_false_sentence_are_refused_as_tests(checkout: Path, tmp_path: Path) -> None:
    import_rubrics(checkout, tmp_path / "out", Wanted())
    sweep = {
        "name": "example",
        "run": tmp_path / "run",
        "tests": "seeds",
        "rubrics": tmp_path / "out",
        "providers": {"lab": {"kind": "openai", "url": "http://127.0.0.1:9/v1"}},
        "subjects": [{"model": "lab/a", "name": "a"}],
        "judges": [{"model": "lab/b", "name": "b"}],
    }
    now = datetime(2026, 11, 22, tzinfo=UTC)
    resolve(Sweep.model_validate({**sweep, "dimensions": ["water_the_plants"]}), now)
    with pytest.raises(ConfigError, match="the seeds of count_the_rocks have no misinformation"):
        resolve(Sweep.model_validate({**sweep, "dimensions": ["count_the_rocks"]}), now)


def test_the_digest_follows_the_wording_and_not_where_it_comes_from(checkout: Path, tmp_path: Path) -> None:
    digests = []
    for number, wanted in enumerate((Wanted(), Wanted(licence="mit"), Wanted(verdict_key="letters"))):
        import_rubrics(checkout, tmp_path / str(number), wanted)
        digests.append(load_rubrics(tmp_path / str(number))["water_the_plants"].sha256)
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        (
            "lab/plants.py",
            "text += boxed",
            "text -= boxed",
            r"plants.py, line 28: a statement of this kind \(AugAssign\)",
        ),
        ("lab/plants.py", '{self.deductions["A"]:02d}', "{answer:>40}", "line 29: a value with a format of its own"),
        (
            "lab/plants.py",
            "return textwrap.dedent(INTRO)",
            "return open('x').read()",
            "line 24: .*open.* is defined nowhere",
        ),
        ("lab/plants.py", "INTRO)", "OUTRO)", "line 24: the name 'OUTRO' is defined nowhere"),
        ("lab/plants.py", "question, answer):", "question, answer, zeal):", "parameter 'zeal' of get_evaluator_prompt"),
        ("lab/plants.py", "{shown}", "{seeds}", "prints the list of seeds as a whole"),
        (
            "lab/plants.py",
            "        text = self",
            "        if answer: pass\n        text = self",
            "line 27: the condition",
        ),
        ("lab/plants.py", '"B": 4', '"B": 40', "'B' has no whole number of points from 1 to 10"),
        ("lab/plants.py", '"B": 4', '"B": len', "class WaterThePlants: deductions: 'B' has no whole number"),
        ("lab/plants.py", '"A": 10, "B": 4', "**{}", "line 15: a key of this dict is not a fixed text"),
        (
            "lab/plants.py",
            "get_evaluator_prompt",
            "get_it",
            "class WaterThePlants: no method makes the judge's request",
        ),
        ("lab/plants.py", "class Water", "class Water(", "plants.py, line 12: not Python that this version can parse"),
        (
            "lab/plants.py",
            'mark="~")',
            "mark=self.get_evaluator_prompt(question, answer))",
            "more than 20 definitions deep",
        ),
        ("lab/base.py", 'Be brief.\\n"', 'Be brief.\\n" * 9', "base.py, line 19: BinOp cannot be followed here"),
        ("lab/rocks.py", "parts.append(", "parts.extend(", "rocks.py, line 18: a statement of this kind"),
        (
            "lab/rocks.py",
            '\\n"issues": ["A"]',
            "",
            "name the key under which a verdict lists letters with --verdict-key",
        ),
        ("seeds/water_the_plants.csv", "question,note", "a,b", "water_the_plants.csv: line 1: one column named prompt"),
        (
            "seeds/water_the_plants.csv",
            "Is it dry?,y",
            "Is it dry,y,z",
            "line 4: has 3 cells, and the first line names 2",
        ),
        ("entropy_themes.txt", THEMES, "", "is empty, and themes are expected"),
    ],
)
def test_what_cannot_be_followed_is_an_error_with_its_place(
    file: str, old: str, new: str, says: str, checkout: Path, tmp_path: Path
) -> None:
    edited(checkout, file, old, new)
    with pytest.raises(ConfigError, match=says):
        import_rubrics(checkout, tmp_path / "out", Wanted())
    assert not (tmp_path / "out").exists()


def test_names_that_do_not_speak_for_themselves_are_given_a_meaning(checkout: Path, tmp_path: Path) -> None:
    import_rubrics(checkout, tmp_path / "one", Wanted())
    edited(checkout, "lab/plants.py", "get_evaluator_prompt(self, question", "third(self, zeal")
    edited(checkout, "lab/plants.py", "q=question", "q=zeal")
    wanted = Wanted(means={"third": "judging.user", "zeal": "prompt"})
    import_rubrics(checkout, tmp_path / "two", wanted)
    one, two = (load_rubrics(tmp_path / name)["water_the_plants"].sha256 for name in ("one", "two"))
    assert one == two
    with pytest.raises(ConfigError, match="'zest' is nothing that a name can mean"):
        import_rubrics(checkout, tmp_path / "three", Wanted(means={"zeal": "zest"}))


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        (" + ".join(["'a'"] * 3000), "recursion depth|too deeply"),
        ("doubled(30)", "1,048,576 characters|steps"),
        ("f'{1:999999999d}'", "a format of its own"),
        ("'{0[a]}'.format(answer)", "wants"),
        ("answer.replace('a', 'b')", "`.replace` of a text that depends"),
        ("[answer for _ in answer][0]", "a loop over a text that depends"),
    ],
)
def test_hostile_code_ends_with_a_message(expression: str, says: str, checkout: Path, tmp_path: Path) -> None:
    doubling = "\n\n\ndef doubled(n):\n    x = 'ab'\n" + "    x = x + x\n" * 30 + "    return x\n"
    edited(
        checkout, "lab/plants.py", "return textwrap.dedent(f", f"return {expression}\n        return textwrap.dedent(f"
    )
    path = checkout / "lab/plants.py"
    path.write_text(path.read_text("utf-8") + doubling, "utf-8")
    with pytest.raises(ConfigError, match=says):
        import_rubrics(checkout, tmp_path / "out", Wanted())


def test_bases_that_multiply_are_walked_once(checkout: Path, tmp_path: Path) -> None:
    pairs = "".join(
        f"class L{n}(L{n - 1}, R{n - 1}): pass\nclass R{n}(L{n - 1}, R{n - 1}): pass\n" for n in range(1, 60)
    )
    path = checkout / "lab/plants.py"
    text = path.read_text("utf-8").replace("class WaterThePlants(Base)", "class WaterThePlants(Base, L59)")
    head, _, tail = text.partition("INTRO =")
    path.write_text(f"{head}class L0: pass\nclass R0: pass\n{pairs}INTRO ={tail}", "utf-8")
    import_rubrics(checkout, tmp_path / "out", Wanted())
    assert "water_the_plants" in load_rubrics(tmp_path / "out")


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no folder"):
        import_rubrics(tmp_path / "none", tmp_path / "out", Wanted())
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="holds no Python file"):
        import_rubrics(tmp_path / "empty", tmp_path / "out", Wanted())
    (tmp_path / "empty/a.py").write_text("x = 1\n")
    with pytest.raises(ConfigError, match="no class has a dict of deductions"):
        import_rubrics(tmp_path / "empty", tmp_path / "out", Wanted())
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="holds something already"):
        import_rubrics(tmp_path / "empty", tmp_path / "full", Wanted())


def test_a_literal_section_that_cannot_be_sent_is_a_problem(checkout: Path, tmp_path: Path) -> None:
    import_rubrics(checkout, tmp_path / "out", Wanted())
    path = tmp_path / "out/water_the_plants.yaml"
    content = yaml.safe_load(path.read_text("utf-8"))
    content["literal"]["validation"]["user"] = [{"value": "response"}]
    path.write_text(yaml.safe_dump(content), "utf-8")
    assert "validation: response cannot stand there" in str(check(tmp_path / "out")[0])
