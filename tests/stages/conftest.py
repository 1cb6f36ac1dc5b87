"""What the tests of the stages share: the built-in rubrics, a model, and replies made by hand."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from hab_ray.calls import Finish, Reply, Usage
from hab_ray.catalog.models import Model, ModelEntry
from hab_ray.config.sections import Judge, Select, Validate
from hab_ray.rows import Candidate, Embedded, State
from hab_ray.rubric import Rubric, load_rubrics, read_library
from hab_ray.stages.method.judge import JudgeStage
from hab_ray.stages.method.validate import ValidateStage
from hab_ray.stages.prompts.wording import Prompts, load_prompts
from tests.stages.judging import DIMENSION, MakeJudge

MakeValidator = Callable[..., ValidateStage]


@pytest.fixture(scope="session")
def rubrics() -> dict[str, Rubric]:
    return load_rubrics()


@pytest.fixture(scope="session")
def themes() -> tuple[str, ...]:
    return read_library().shown_themes()


@pytest.fixture(scope="session")
def prompts() -> Prompts:
    return load_prompts()


@pytest.fixture(scope="session")
def model() -> Model:
    """A model that takes every setting and answers under its own name only."""
    return Model("some-model", ModelEntry(provider="vendor", wire="wire-name", reports=("wire-name-2026",)))


@pytest.fixture
def judge_of(rubrics: dict[str, Rubric], prompts: Prompts, model: Model) -> MakeJudge:
    """Makes a judge: `judge_of(rubric or dimension, prompts=..., model=..., **settings)`."""

    def make(
        rubric: Rubric | str = DIMENSION, prompts: Prompts = prompts, model: Model = model, **settings: Any
    ) -> JudgeStage:
        own = rubrics[rubric] if isinstance(rubric, str) else rubric
        return JudgeStage(own, prompts, Judge(model=model.name, name="judge"), model, **settings)

    return make


@pytest.fixture
def validator_of(rubrics: dict[str, Rubric], prompts: Prompts, model: Model) -> MakeValidator:
    """Makes a validator: `validator_of(rubric or dimension, prompts=...)`."""

    def make(rubric: Rubric | str = DIMENSION, prompts: Prompts = prompts) -> ValidateStage:
        own = rubrics[rubric] if isinstance(rubric, str) else rubric
        return ValidateStage(own, prompts, model, Validate(model=model.name, keep=1000))

    return make


@pytest.fixture
def one_blas_thread() -> Iterator[None]:
    """As executors compute."""
    with threadpool_limits(limits=1):
        yield


@pytest.fixture(scope="session")
def reply() -> Callable[..., Reply]:
    """Makes the reply for a key: `reply(key, text, finish=..., model=..., vector=...)`."""

    def make(
        key: str, text: str = "", finish: Finish = Finish.OK, model: str = "wire-name", vector: bytes = b""
    ) -> Reply:
        at = datetime(2026, 11, 1, tzinfo=UTC)
        return Reply(key, finish, Usage(), 0, model, "", "", at, text=text, vector=vector)

    return make


def candidate(number: int = 0, prompt: str = "What shall I do?", context: str = "") -> Candidate:
    return Candidate(f"c{number:03d}", DIMENSION, State.OK, prompt, context, "theme", "", "k")


def candidates(count: int) -> list[Candidate]:
    return [candidate(n, f"prompt {n}") for n in range(count)]


def embedded(id: str, vector: ArrayLike, state: State = State.OK) -> Embedded:
    return Embedded(id, DIMENSION, state, np.asarray(vector, "<f4").tobytes(), "", "k")


def selecting(tests: int, components: int = 50) -> Select:
    return Select(embedding="m", tests=tests, components=components)
