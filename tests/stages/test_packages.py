"""A run records the packages that its stages and vendors come from, and notices when they are others."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from hab_ray.config.sweep import Sweep
from hab_ray.errors import ConfigError
from hab_ray.planning.preflight import preflight
from hab_ray.resolve import load_work, resolve, write_record
from hab_ray.stages import wiring
from hab_ray.storage.record import read_record
from hab_ray.storage.run import SWEEP
from hab_ray.work import Work
from tests.distributions import Distributions
from tests.instant import MADE, Run, work_of
from tests.stages import count_words, translate

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
DIMENSIONS = ["defer_important_decisions", "encourage_learning"]
COUNTING = Path(str(count_words.__file__)).read_text("utf-8") + "\n\nSPEC = CountWordsSpec()\n"
ONLY = COUNTING.replace("in resolved.rubrics", f"in resolved.rubrics.keys() - {{{DIMENSIONS[0]!r}}}")
Install = Callable[..., None]
Resolve = Callable[..., Work]


def forget() -> None:
    wiring.stages.cache_clear()
    wiring.packages.cache_clear()


@pytest.fixture
def install(distributions: Distributions) -> Iterator[Install]:
    """Replaces what is installed by these versions of a vendor's package and a stage's."""

    def replaced(vendor: str = "1.0", stage: str | None = None, code: str = COUNTING) -> None:
        distributions.uninstall_all()
        distributions.install(
            "acme-hab", vendor, "acme_hab", "from hab_ray.providers.openai import VENDOR", acme="acme_hab:VENDOR"
        )
        if stage:
            groups = {"hab_ray.stages": {"count": f"acme_words_{len(code)}:SPEC"}}
            distributions.install_modules("acme-words", stage, {f"acme_words_{len(code)}": code}, groups)
        forget()

    yield replaced
    distributions.uninstall_all()
    forget()


@pytest.fixture
def resolved(tmp_path: Path) -> Resolve:
    def make(*dimensions: str) -> Work:
        lab = {"kind": "acme", "url": "http://lab:1/v1", "price": {"input": 0}}
        given = {"name": "s", "run": tmp_path / "run", "tests": "seeds", "providers": {"lab": lab}}
        models = {"subjects": ["lab/a"], "judges": ["lab/j"], "dimensions": dimensions or DIMENSIONS}
        return resolve(Sweep.model_validate(given | models), NOW)

    return make


def test_a_run_records_the_packages_of_its_stages_and_vendors(install: Install, resolved: Resolve) -> None:
    install(stage="0.3")
    write_record(resolved(), NOW)
    record = read_record(resolved().run_path)
    assert record and record.versions["stage count words"] == "acme-words 0.3"
    assert record.versions["kind acme"] == "acme-hab 1.0" and "kind openai" not in record.versions


def test_a_run_does_not_go_on_without_a_stage_it_was_started_with(install: Install, resolved: Resolve) -> None:
    install(stage="0.3")
    write_record(resolved(), NOW)
    install()
    with pytest.raises(ConfigError, match=r"stages: count words of the package acme-words 0\.3 is missing; install"):
        resolved()


def test_a_stage_does_not_enter_a_run_that_has_started(install: Install, resolved: Resolve) -> None:
    install()
    write_record(resolved(DIMENSIONS[0]), NOW)
    install(stage="0.3")
    with pytest.raises(ConfigError, match=r"stages: count words of the package acme-words 0\.3 is new; uninstall"):
        resolved(DIMENSIONS[0])
    install(stage="0.4", code=ONLY)
    write_record(resolved(), NOW)  # it makes rows of the dimension only that is new, too
    write_record(resolved(DIMENSIONS[0]), NOW)
    install()
    with pytest.raises(ConfigError, match="is missing"):
        resolved()


def test_a_grown_package_is_to_be_put_back(install: Install, resolved: Resolve, distributions: Distributions) -> None:
    install(stage="0.3")
    write_record(resolved(), NOW)
    install()
    another = (
        COUNTING.replace("class Words", "class Counted").replace("[Words", "[Counted").replace("Words(", "Counted(")
    )
    another = (
        another.replace("row = Words", "row = Counted").replace('"count words"', '"another"').replace("words/", "a/")
    )
    groups = {"hab_ray.stages": {"one": "acme_words_one:SPEC", "two": "acme_words_two:SPEC"}}
    modules = {"acme_words_one": COUNTING, "acme_words_two": another}
    distributions.install_modules("acme-words", "0.4", modules, groups)
    forget()
    with pytest.raises(ConfigError, match=r"another of the package acme-words 0\.4 is new; install acme-words 0\.3"):
        resolved()


def test_a_stage_that_makes_answers_again_is_refused(install: Install, resolved: Resolve) -> None:
    install(stage="0.3", code=COUNTING.replace("row = Words", "row = Response"))
    with pytest.raises(ConfigError, match=r"package acme-words 0\.3 adds the stage 'count words', whose rows are Resp"):
        wiring.stages()


FILE = "f\"words/{part.subject.replace('/', '-')}/{part.dimension}.parquet\""


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("'words.parquet'", r"is the file of count words \(lab/a, defer.*\) and of count words \(lab/a, encou"),
        ("f'tests/{part.dimension}.parquet'", "is not a `.parquet` file"),
        *((repr(file), "is not a `.parquet` file") for file in ("sweep.yaml", "scores.parquet", "../words.parquet")),
        *((repr(file), "is not a `.parquet` file") for file in ("/w.parquet", "words", "log/w.parquet")),
    ],
)
def test_a_view_over_another_file_is_refused(file: str, told: str, install: Install, resolved: Resolve) -> None:
    assert FILE in COUNTING
    install(stage="0.3", code=COUNTING.replace(FILE, file))
    with pytest.raises(
        ConfigError, match=rf"package acme-words 0\.3 adds the stage 'count words', whose view .* {told}"
    ):
        write_record(resolved(), NOW)
    assert read_record(resolved().run_path) is None


@pytest.mark.parametrize("fields", ["", "state: str", "state: State\n    reason: int"])
def test_rows_of_calls_without_state_and_reason_are_refused_before_the_run(fields: str, install: Install) -> None:
    code = COUNTING.replace("words: int\n", f"words: int\n    {fields}\n", 1)
    code = code.replace("makes_calls = False", "makes_calls = True").replace(
        "import Response", "import Response, State"
    )
    install(stage="0.3", code=code)
    with pytest.raises(ConfigError, match=r"package acme-words 0\.3 adds .* Wordss, lack `state: State` or `reason"):
        wiring.stages()
    install(stage="0.4", code=code.replace(fields or "words: int", "words: int\n    state: State\n    reason: str", 1))
    assert "count words" in wiring.stages()


WRONG = {
    "parts": ("return (Part(", "return str(Part(", "CountWordsSpec.parts has to return an iterator of Part, not str"),
    "file": ('return f"words', 'return b"words', "CountWordsSpec.file has to return str, not bytes"),
    "sources": ("own_subject=True),)", "own_subject=True))", "CountWordsSpec.sources has to return .*, not Source"),
    "make": ("return CountWordsStage()", "pass", "CountWordsSpec.make has to return .*, not NoneType"),
    "forecast": ("return Forecast(to_come=", 'return len("") + (', "forecast_rows has to return .*, not int"),
    "compute": ("return Computed([", "return ([", "CountWordsStage.compute has to return .*Computed.*, not list"),
    "row": ("words: int\n", "words: dict\n", "TypeError: words: .*dict.* is not a type of a row"),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_stage_that_makes_something_else_is_named(how: str, install: Install, resolved: Resolve) -> None:
    right, wrong, told = WRONG[how]
    assert right in COUNTING
    install(stage="0.3", code=COUNTING.replace(right, wrong))
    with pytest.raises(ConfigError, match=rf"package acme-words 0\.3.* broken.*{told}"):
        run = Run(resolved())
        run.plan()
        run.all()


TRANSLATING = Path(str(translate.__file__)).read_text("utf-8") + "\n\nSPEC = TranslateSpec()\n"
WRONG_CALLS = {
    "tasks": (
        "return [candidate for candidate in rows[Candidate] if candidate.state is State.OK]",
        "return (one for one in rows[Candidate])",
        "tasks has to return list.*, not generator",
    ),
    "requests": ("                task.id,\n", "", r"requests has to return an iterator of .*, not tuple\[ChatCall\]"),
    "too few": ("for task in tasks:", "for task in list(tasks)[1:]:", "has to yield one call per task, 12 and not 11"),
    "ids": ("                task.id,\n", "                7,\n", r"of tuple\[str, .*, not tuple\[int, ChatCall\]"),
    "asks": ("return Asks(part.name, None)", "return part.name", "TranslateSpec.asks has to return Asks, not str"),
    "parse": (
        "return replace(task, prompt=reply.text",
        "return reply.text or replace(task, prompt=reply.text",
        "parse has to return .*Candidate.*, not str",
    ),
    "kept": (
        "    def answer_tokens",
        "    def kept(self, rows):\n        pass\n\n    def answer_tokens",
        "kept has to return .*, not NoneType",
    ),
    "tokens": ("return 200", "return '200'", "TranslateStage.answer_tokens has to return int, not str"),
}


@pytest.mark.parametrize("how", WRONG_CALLS)
def test_a_stage_that_makes_other_calls_is_named(how: str, tmp_path: Path, distributions: Distributions) -> None:
    right, wrong, told = WRONG_CALLS[how]
    assert right in TRANSLATING
    modules = {"acme_french": TRANSLATING.replace(right, wrong)}
    distributions.install_modules("acme-french", "1", modules, {"hab_ray.stages": {"french": "acme_french:SPEC"}})
    with pytest.raises(ConfigError, match=rf"the package acme-french 1 is broken: .*{told}; update or repair"):
        run = Run(work_of(tmp_path, **MADE))
        run.plan()
        run.all()


def test_another_version_of_a_package_is_a_warning(install: Install, resolved: Resolve) -> None:
    install(stage="0.3")
    write_record(resolved(), NOW)

    def warned() -> list[str]:
        problems = preflight(resolved(), {}, NOW.date())
        return [p.cause for p in problems if "earlier rows" in p.cause]

    assert warned() == []
    install(vendor="1.1", stage="0.4")
    assert warned() == [
        "stage count words: this run's earlier rows were made by acme-words 0.3, and acme-words 0.4 is installed",
        "kind acme: this run's earlier rows were made by acme-hab 1.0, and acme-hab 1.1 is installed",
    ]
    write_record(resolved(), NOW)
    assert warned() == []


def test_a_run_that_recorded_no_packages_is_taken_as_it_is(install: Install, resolved: Resolve) -> None:
    install()
    work = resolved()
    write_record(work, NOW)
    file = work.run_path.path / SWEEP
    record = yaml.safe_load(file.read_text())
    record["versions"] = {"python": "3.12"}
    file.write_text(yaml.safe_dump(record))
    install(stage="0.3")
    write_record(resolved(), NOW)
    install()
    with pytest.raises(ConfigError, match="is missing"):
        resolved()
    assert load_work(work.run_path, NOW).run_id == work.run_id
