"""A checkout in the structure of the published code, with sentences of our own."""

from pathlib import Path

DIMENSIONS = {
    "ask_clarifying_questions": "AskClarifyingQuestions",
    "avoid_value_manipulation": "AvoidValueManipulation",
    "correct_misinformation": "CorrectMisinformation",
    "defer_important_decisions": "DeferImportantDecisions",
    "encourage_learning": "EncourageLearning",
    "maintain_social_boundaries": "MaintainSocialBoundaries",
}
BASE = """
import random
from typing import Any


class Wrapping(type):
    def __new__(cls, name, bases, members):
        made = super().__new__(cls, name, bases, members)
        inner = made.__init__

        def wrapped(self, *given, **named):
            inner(self, *given, **named)
            if type(self) is made and not hasattr(self, "deductions"):
                raise TypeError("no deductions")

        made.__init__ = wrapped
        return made


class PromptBase(metaclass=Wrapping):
    top_eval_score = 10

    def __init__(self, entropy_path="examples_for_generation/adding_entropy.txt"):
        with open(entropy_path) as file:
            self.entropy_lines = file.readlines()

    def generative_system_prompt(self):
        return ""

    relevance_check_system_prompt = subject_evaluation_system_prompt = generative_system_prompt

    def subject_model_system_prompt(self):
        return "At most 150 words."

    def get_top_eval_score(self):
        return self.top_eval_score
"""
DIMENSION = '''
import csv
import random
import textwrap

from prompts.prompt_base import PromptBase


class {owner}(PromptBase):
    def __init__(self, *given):
        super().__init__(*given)
        self.deductions = {{"A": 8, "B": 2}}
        {early}

    def generative_prompt(self, n_prompts_created_per_generation={count}, n_reference_prompts_shown_in_generation=3):
        {late}
        drawn = random.sample(seeds, {shown})
        examples = "\\n".join(f'"{{each}}"' for each in drawn)
        return textwrap.dedent(f"""
            Invent {{n_prompts_created_per_generation}} riddles of {name}.
            Like these:
            {{examples}}

            With this in mind: {{random.choice(self.entropy_lines)}}
            Reply with a list in JSON.
        """)

    def relevance_check_prompt(self, question{more}):
        return textwrap.dedent(f"""
            Is this a riddle of {name}?
            {{question}}{shows}
            Put the number into <score>.
        """)

    def subject_evaluation_prompt(self, question, answer{more}):
        return textwrap.dedent(f"""
            A riddle: {{question}}
              What was said: {{answer}}{shows}
            A. Says nothing of use
            The letter A costs {{self.deductions["A"]}}.
            Give an object with "issues" (an alphabetical array) and "assessment".
        """)
'''
READ = """with open("examples_for_generation/{name}.csv") as file:
            {into} = [row[0] for row in csv.reader(file)]"""


def build_checkout(root: Path) -> Path:
    """The checkout in a new folder."""
    files = {
        "src/prompts/prompt_base.py": BASE,
        "src/llms.py": "raise SystemExit('clients of models are never executed')\n",
        "src/prompts/prompts.py": "".join(f"from prompts.{n} import {c}\n" for n, c in DIMENSIONS.items())
        + "prompt_objects = {"
        + ", ".join(f'"{n}": {c}' for n, c in DIMENSIONS.items())
        + "}\n",
        "examples_for_generation/adding_entropy.txt": "".join(f"theme {n}\n" for n in range(78)),
    }
    for name, owner in DIMENSIONS.items():
        defers, false = name.startswith("defer"), name.startswith("correct")
        files[f"src/prompts/{name}.py"] = DIMENSION.format(
            owner=owner,
            name=name,
            count=10 if false else 5,
            early=READ.format(name=name, into="self.seeds") if defers else "",
            late="seeds = self.seeds" if defers else READ.format(name=name, into="seeds"),
            shown="min(n_reference_prompts_shown_in_generation, len(seeds))"
            if defers
            else "n_reference_prompts_shown_in_generation",
            more=", misinformation" if false else "",
            shows="\n            {misinformation}" if false else "",
        )
        files[f"examples_for_generation/{name}.csv"] = "".join(
            f'"How ""{name}"" is {n}?\nAnd why?"\n' for n in range(5)
        )
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")
    return root
