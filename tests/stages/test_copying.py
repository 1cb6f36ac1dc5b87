"""An assessment that repeats the request's own words judges nothing: whatever the wording, it is unreadable."""

import json
from collections.abc import Callable

import pytest

from hab_ray.fences import FENCE_VERSION
from hab_ray.rows import State, Verdict
from hab_ray.rubric import LiteralRubric, Rubric
from hab_ray.stages.prompts.wording import PROMPTS_VERSION, Prompts, load_prompts
from tests.stages.conftest import MakeValidator, candidate
from tests.stages.judging import DIMENSION, MakeJudge, MakeReply, asked, verdict

Read = Callable[[Rubric, Prompts, object], Verdict]
VERSIONS = [(1, 1), *((version, FENCE_VERSION) for version in range(2, PROMPTS_VERSION + 1))]
TEMPLATE = {
    1: "one or two sentences",
    2: "One or two sentences.",
    3: {"A": "your thoughts on A", "B": "your thoughts on B"},
}


@pytest.fixture(params=VERSIONS, ids=lambda versions: f"prompts {versions[0]}")
def versioned(request: pytest.FixtureRequest) -> Prompts:
    version, fence = request.param
    return load_prompts(version=version, fence=fence)


@pytest.fixture
def judged(judge_of: MakeJudge, reply: MakeReply) -> Read:
    """The row of a verdict with this assessment, by a rubric and prompts."""

    def read(rubric: Rubric, prompts: Prompts, assessment: object) -> Verdict:
        literal = rubric.literal_judging
        said = json.dumps({"assessment": assessment, literal.key if literal else "issues": ["A"]})
        return verdict(judge_of(rubric, prompts), asked(ask=1), reply("k", said))

    return read


def test_the_form_of_a_verdict_is_no_assessment(rubrics: dict[str, Rubric], versioned: Prompts, judged: Read) -> None:
    for rubric in rubrics.values():
        row = judged(rubric, versioned, TEMPLATE[versioned.version])
        assert (row.state, row.score) == (State.UNREADABLE, None)
        assert "repeats the words" in row.reason


@pytest.mark.parametrize(
    "copied",
    [
        {"A": "It never asks.", "B": "your thoughts on B"},
        "A: your thoughts on A\nB: your thoughts on B",
        "A: your thoughts on A, B: your thoughts on B, C: your thoughts on C",
        "Your  thoughts on A.",
        "letters that apply",
    ],
)
def test_nor_is_it_in_another_shape(copied: object, rubrics: dict[str, Rubric], prompts: Prompts, judged: Read) -> None:
    assert judged(rubrics[DIMENSION], prompts, copied).state is State.UNREADABLE


def test_nor_is_a_worked_example(rubrics: dict[str, Rubric], versioned: Prompts, judged: Read) -> None:
    examples = [(rubric, example) for rubric in rubrics.values() for example in rubric.judging.examples]
    for rubric, example in examples:
        for said in (example.assessment, {"A": example.assessment.upper(), "B": "No."}):
            assert judged(rubric, versioned, said).state is State.UNREADABLE


@pytest.mark.parametrize(
    "said",
    [
        "",
        "None.",
        "A: It never asks.\nB: Nothing is asked, so it cannot be the wrong thing.",
        "My thoughts on A are that it never asks.",
        "In one or two sentences: it never asks.",
        {"A": "It asks the user nothing and nowhere implies that it needs information from them.", "B": "No."},
        {"A": "", "B": "Applies."},
    ],
)
def test_own_words_are_assessments(said: object, rubrics: dict[str, Rubric], versioned: Prompts, judged: Read) -> None:
    assert judged(rubrics[DIMENSION], versioned, said).state is State.OK


def test_imported_wording_is_no_assessment_either(rubrics: dict[str, Rubric], prompts: Prompts, judged: Read) -> None:
    wording = (
        'Give {"assessment": "reasons for the choice"}. For instance: the reply hands over every step at once, so B.'
    )
    pieces = [wording, {"value": "prompt"}, {"value": "response"}]
    section = {"origin": {"source": "an invented checkout"}, "judging": {"user": pieces, "key": "found"}}
    content = rubrics[DIMENSION].model_dump(mode="json", exclude_none=True)
    literal = LiteralRubric.model_validate(content | {"literal": section})
    for said in ("reasons for the choice", "The reply hands over every step at once, so B."):
        assert judged(literal, prompts, said).state is State.UNREADABLE
    assert judged(literal, prompts, "The reply hands over too much, so B.").state is State.OK


def test_a_validation_that_repeats_the_request_has_no_score(
    rubrics: dict[str, Rubric], versioned: Prompts, validator_of: MakeValidator, reply: MakeReply
) -> None:
    validation = rubrics[DIMENSION].validation
    examples = validation.examples if validation else ()
    for said in ("one or two sentences", *(example.assessment for example in examples)):
        row = validator_of(prompts=versioned).parse(
            candidate(), reply("k", json.dumps({"assessment": said, "deductions": []}))
        )
        assert (row.state, row.score) == (State.UNREADABLE, None)
