"""A dimension and a stage are each added by a file: plan, graph and settling follow."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hab_ray.calls import Call, ChatCall
from hab_ray.errors import ConfigError
from hab_ray.rows import Candidate, ChosenTest, Response
from hab_ray.stages import wiring
from hab_ray.stages.spec import StageSpec
from hab_ray.work import Shard
from tests.distributions import Distributions
from tests.instant import DIMENSIONS, MADE, Run, open_calls, work_of
from tests.stages.count_words import CountWordsSpec, Words
from tests.stages.translate import SYSTEM, TranslateSpec

PACKAGE = Path(wiring.__file__).parents[1]
RUBRICS = PACKAGE.parent / "rubrics"
AddStage = Callable[[StageSpec], None]


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch) -> AddStage:
    """Adds a stage as an entry point would; `tests/cli/test_added.py` does so by a distribution."""

    def added(spec: StageSpec) -> None:
        placed = dict[str, StageSpec]()
        for name, known in wiring.stages().items():
            placed |= {name: known, spec.name: spec} if name == spec.behind else {name: known}
        monkeypatch.setattr(wiring, "stages", lambda: placed)

    return added


class TranslatingRun(Run):
    """A run whose translator answers in capitals."""

    def text(self, shard: Shard, call: Call) -> str:
        if isinstance(call, ChatCall) and call.system == SYSTEM:
            return call.messages[0].text.upper()
        return super().text(shard, call)


def test_a_stage_between_two_others_is_a_file(tmp_path: Path, add: AddStage) -> None:
    add(TranslateSpec())
    run = TranslatingRun(work_of(tmp_path, **MADE, subjects=["house/a"], judges=["house/j"]))
    dimension = DIMENSIONS[0]
    shards = {shard.stage: shard for shard in run.work.shards() if shard.dimension == dimension}
    assert list(shards) == ["generate", "translate", "validate", "select", "choose", "respond", "judge"]
    assert [one.shard for one in run.work.inputs(shards["translate"])] == [shards["generate"]]
    assert [one.shard for one in run.work.inputs(shards["validate"])] == [shards["translate"]]
    run.all()
    generated, translated = (run.work.run.read(Candidate, shards[s].file) for s in ("generate", "translate"))
    assert [c.prompt for c in translated] == [c.prompt.upper() for c in generated]
    tests = run.work.run.read(ChosenTest, shards["choose"].file)
    assert len(tests) == 4 and {test.prompt for test in tests} <= {c.prompt for c in translated}


def test_the_plan_counts_an_added_stage_exactly_once_its_rows_exist(tmp_path: Path, add: AddStage) -> None:
    add(TranslateSpec())
    run = TranslatingRun(work_of(tmp_path, **MADE, subjects=["house/a"], judges=["house/j"]))
    ahead = {cell: count for cell, count in open_calls(run.plan()).items() if cell[2] == DIMENSIONS[0]}
    assert [(cell[0], count) for cell, count in ahead.items()] == [
        ("generate", 3),  # 7 candidates, 3 a call
        ("translate", 7),
        ("validate", 7),
        ("select", 5),
        ("respond", 4),
        ("judge", 4),
    ]
    for stage in wiring.stages():
        planned = {cell: count for cell, count in open_calls(run.plan()).items() if cell[0] == stage}
        run.made = Counter()
        for shard in run.work.shards():
            if shard.stage == stage:
                run.take(shard)
        assert planned == dict(run.made)
    assert run.plan().total.to_pay == 0


def test_a_stage_that_computes_may_bring_a_row_type_of_its_own(tmp_path: Path, add: AddStage) -> None:
    add(CountWordsSpec())
    run = Run(work_of(tmp_path, subjects=["house/a", "house/b"]))
    assert "count words" not in {line.stage for line in run.plan().lines}
    run.all()
    for shard in (one for one in run.work.shards() if one.stage == "count words"):
        (source,) = (one.shard for one in run.work.inputs(shard))
        assert source.name == shard.subject
        responses = run.work.run.read(Response, source.file)
        counted = run.work.run.read(Words, shard.file)
        assert [row.words for row in counted] == [len(response.text.split()) for response in responses] != []
        assert run.work.is_frozen(shard)


LENGTHS = """
from tests.stages.count_words import CountWordsSpec

class Second(CountWordsSpec):
    name, behind = "second", "first"

class First(CountWordsSpec):
    name, behind = "first", "respond"

SECOND, FIRST, LOST = Second(), First(), Second()
LOST.behind = "nowhere"
"""


@pytest.fixture
def added_by(distributions: Distributions) -> Iterator[Callable[..., None]]:
    """Adds stages by a distribution; each entry point names one of `LENGTHS`."""

    def add(**entries: str) -> None:
        groups = {"hab_ray.stages": {name: f"acme_stages:{attribute}" for name, attribute in entries.items()}}
        distributions.install_modules("acme-hab", "0.3", {"acme_stages": LENGTHS}, groups)
        wiring.stages.cache_clear()

    yield add
    distributions.uninstall_all()
    wiring.stages.cache_clear()


@pytest.mark.parametrize("entries", [{"a": "SECOND", "b": "FIRST"}, {"a": "FIRST", "b": "SECOND"}])
def test_an_added_stage_may_follow_another_by_any_name(entries: dict[str, str], added_by: Callable[..., None]) -> None:
    added_by(**entries)
    names = list(wiring.stages())
    assert names[names.index("respond") :][:4] == ["respond", "first", "second", "judge"]


def test_an_added_stage_behind_none_is_refused_with_those_that_there_are(added_by: Callable[..., None]) -> None:
    added_by(a="LOST", b="FIRST")
    with pytest.raises(
        ConfigError, match=r"acme-hab 0\.3 adds the stage 'second' behind 'nowhere'.* respond, first, judge"
    ):
        wiring.stages()


def test_a_seventh_dimension_is_a_file_beside_the_six(tmp_path: Path) -> None:
    folder = tmp_path / "rubrics"
    folder.mkdir()
    for rubric in RUBRICS.glob("*.yaml"):
        (folder / rubric.name).write_text(rubric.read_text())
    text = (RUBRICS / f"{DIMENSIONS[0]}.yaml").read_text()
    (folder / "mental_security.yaml").write_text(text.replace(f"id: {DIMENSIONS[0]}", "id: mental_security", 1))
    run = Run(
        work_of(tmp_path, **MADE, rubrics=str(folder), dimensions="all", subjects=["house/a"], judges=["house/j"])
    )
    assert len(run.work.rubrics) == 7
    planned = {cell[0]: count for cell, count in open_calls(run.plan()).items() if cell[2] == "mental_security"}
    assert planned == {"generate": 3, "validate": 7, "select": 5, "respond": 4, "judge": 4}
    for shard in run.work.shards():
        if shard.dimension == "mental_security":
            run.take(shard)
            assert shard.spec.has_view is (run.work.written(shard) is not None)
