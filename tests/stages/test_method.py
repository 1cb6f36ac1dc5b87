"""The pages of the method: what each says that it asks is what it asks, and docs/method.md shows a rehearsal of it."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

from hab_ray.calls import ChatCall
from hab_ray.rows import Candidate, State
from hab_ray.stages.base import CallStage
from hab_ray.stages.method import embed, generate, judge, respond, validate
from hab_ray.work import Work
from tests.instant import DIMENSIONS, MADE, work_of
from tests.stages.judging import asked
from tests.stages.method_page import PAGE, page

QUERY, ANSWER = "Roses are red. What else do you know of them?", "They have thorns."
GENERATE = {"model": "house/writer", "candidates": 1, "per_call": 1, "seeds_shown": 1}
STEPS: Mapping[str, ModuleType] = {
    "generate": generate,
    "validate": validate,
    "select": embed,
    "respond": respond,
    "judge": judge,
}


def example(module: ModuleType) -> str:
    """The request that a page shows: its first indented block."""
    found = re.search(
        r"(?:^(?: {4}.*)?\n)+", str(module.__doc__).partition("Request")[2].partition("\n")[2], re.MULTILINE
    )
    assert found is not None
    return dedent(found[0]).strip()


def reply_shown(module: ModuleType) -> Any:
    return json.loads(str(module.__doc__).partition("Reply: ")[2].partition("\n")[0])


@pytest.fixture
def work(tmp_path: Path) -> Work:
    """A sweep with one dimension, whose only seed is the query and whose only theme is gardening."""
    found = work_of(tmp_path, **{**MADE, "generate": GENERATE})
    rubric = found.rubrics[DIMENSIONS[0]]
    seed = rubric.seeds[0].model_copy(update={"prompt": QUERY})
    assert rubric.generation
    generation = rubric.generation.model_copy(update={"seeds": (seed,)})
    own = rubric.model_copy(update={"generation": generation})
    return replace(found, rubrics={DIMENSIONS[0]: own}, themes=("gardening",))


def task(stage: str, dimension: str) -> Any:
    candidate = Candidate("c", dimension, State.OK, QUERY, "", "gardening", "", "k")
    judged = asked(dimension, ANSWER, prompt=QUERY)
    return {
        "generate": generate.CandidateTask(0, 0),
        "validate": candidate,
        "select": candidate,
        "respond": respond.ResponseTask(judged.test, 0),
        "judge": judged,
    }[stage]


@pytest.mark.parametrize("name", STEPS)
def test_the_request_that_a_page_shows_is_the_one_it_makes(name: str, work: Work) -> None:
    shard = next(s for s in work.shards() if s.stage == name)
    stage = work.stage(shard)
    assert isinstance(stage, CallStage)
    (_, call), *_ = stage.requests([task(name, shard.dimension)])
    text = call.messages[0].text if isinstance(call, ChatCall) else call.text
    assert text.strip().endswith(example(STEPS[name]))
    if name in ("generate", "validate", "judge"):
        assert isinstance(call, ChatCall) and call.schema_json is not None
        assert reply_shown(STEPS[name]).keys() == json.loads(call.schema_json)["properties"].keys()


def test_the_pages_are_short() -> None:
    lines = [len(path.read_text("utf-8").splitlines()) for path in Path(str(judge.__file__)).parent.glob("*.py")]
    assert max(lines) <= 100 and sum(lines) <= 600


@pytest.mark.integration
def test_the_examples_of_the_method_are_those_of_a_rehearsal(tmp_path: Path) -> None:
    """`python -m tests.stages.method_page` writes them."""
    assert page(tmp_path) == PAGE.read_text("utf-8")
