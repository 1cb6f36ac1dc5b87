"""Each page of the method shows a request as its step makes it, and a reply that the step reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hab_ray.stages.method
from hab_ray.stages.prompts.samples import samples
from hab_ray.stages.prompts.wording import Prompts, Wording

PAGES = Path(hab_ray.stages.method.__file__).parent


@pytest.mark.parametrize("page", ["generate", "validate", "judge"])
def test_a_page_shows_the_request_that_its_step_makes(page: str, prompts: Prompts) -> None:
    template = {"generate": prompts.generate, "validate": prompts.validation, "judge": prompts.judge}[page]
    values = dict(samples()[0].values(page))
    if page == "generate":
        values["seeds"] = values["seeds"][:1]
    said = Wording(template).user(values).strip()
    doc = (PAGES / f"{page}.py").read_text("utf-8").split('"""')[1]
    shown = re.sub(r"^    ", "", doc, flags=re.MULTILINE)
    assert said in shown


def test_the_pages_are_short() -> None:
    lines = {path.stem: len(path.read_text("utf-8").splitlines()) for path in PAGES.glob("*.py")}
    assert max(lines.values()) <= 100 and sum(lines.values()) <= 600, lines
