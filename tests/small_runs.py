"""A small run folder with every state in it, and hostile text wherever a model could put it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from hab_ray.analysis.summary import Summary, summarise
from hab_ray.catalog.models import Model
from hab_ray.config.sweep import Sweep
from hab_ray.report import write_report
from hab_ray.resolve import write_record
from hab_ray.results import open_run
from hab_ray.rows import ChosenTest, Response, State, Verdict
from hab_ray.rubric import Rubric, load_rubrics
from hab_ray.stages.prompts.wording import load_prompts
from hab_ray.stages.replies.verdicts import score
from hab_ray.stages.views import responses_file, tests_file, verdicts_file
from hab_ray.work import Work

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)>\u2028\u202egnp.exe\x00</style></details>{{ 7*7 }}'


NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


@dataclass(frozen=True)
class Shape:
    """How big a run to write, and what goes wrong in it."""

    subjects: tuple[str, ...] = ("alpha", "beta")
    judges: tuple[str, ...] = ("strict",)
    dimensions: tuple[str, ...] = ("ask_clarifying_questions", "correct_misinformation")
    tests: int = 6
    samples: int = 1
    replicates: int = 1
    fail: float = 0.0
    cut: float = 0.0
    text: str = "Which of the two do you mean, and by when?"
    truncated: str = "judge"


Row = TypeVar("Row", Response, Verdict, ChosenTest)
MakeRun = Callable[[Shape], Work]
rubrics_once = cache(load_rubrics)


def work_of(path: Path, shape: Shape) -> Work:
    """The resolved sweep of a run of that shape."""
    given: dict[str, Any] = {
        "name": "example",
        "run": path,
        "tests": "seeds",
        "providers": {"lab": {"kind": "openai", "url": "http://127.0.0.1:9/v1"}},
        "subjects": [{"model": f"lab/{name}", "name": name} for name in shape.subjects],
        "judges": [{"model": f"lab/{name}", "name": name} for name in shape.judges],
        "dimensions": shape.dimensions,
        "samples": shape.samples,
        "replicates": shape.replicates,
        "truncated": shape.truncated,
    }
    return unrecorded(Sweep.model_validate(given))


def unrecorded(sweep: Sweep) -> Work:
    """The work of a sweep with rubrics that are read once."""
    return Work(
        run_id="0" * 32,
        sweep=sweep,
        catalog=sweep.catalog,
        models={name: Model(name, sweep.catalog.find(name)) for name in sweep.model_names()},
        rubrics={dimension: rubrics_once(sweep.rubrics)[dimension] for dimension in sweep.dimensions},
        themes=("bees",),
        prompts=load_prompts(),
        run_path=sweep.run_folder,
    )


def begin_run(path: Path, shape: Shape) -> Work:
    """A run folder as it is before the first row."""
    work = work_of(path, shape)
    write_record(work, NOW)
    return work


def write_run(path: Path, shape: Shape) -> Work:
    """Fill a run folder; the same shape gives the same rows."""
    work, random = begin_run(path, shape), Random(7)
    for dimension, rubric in work.rubrics.items():
        tests = [_test(rubric, i, shape) for i in range(shape.tests)]
        work.run.write(ChosenTest, tests_file(dimension), tests)
        for subject in shape.subjects:
            rows = [_response(t, subject, sample, shape, random) for t in tests for sample in range(shape.samples)]
            work.run.write(Response, responses_file(subject, dimension), rows)
            for judge in shape.judges:
                read = [_verdict(row, judge, rubric, shape, random) for row in rows if row.state is State.OK]
                work.run.write(Verdict, verdicts_file(judge, subject, dimension), read)
    return work


def summary_of(work: Work) -> Summary:
    """What its files show now."""
    return summarise(open_run(work.run_path))


def page_of(work: Work, notice: str | None = None) -> str:
    """Its report, written anew."""
    return write_report(summary_of(work), notice=notice).path.read_text(encoding="utf-8")


def answer_files(work: Work, *subjects: str) -> list[str]:
    """The views of these subjects' answers, or of all answers."""
    return [responses_file(name, of) for of in work.rubrics for name in subjects or work.sweep.subject_names]


def verdict_files(work: Work, *judges: str) -> list[str]:
    """The views of these judges' verdicts, or of all verdicts."""
    named = judges or [judge.name for judge in work.sweep.judges]
    return [
        verdicts_file(judge, subject, of)
        for of in work.rubrics
        for subject in work.sweep.subject_names
        for judge in named
    ]


def revise(work: Work, kind: type[Row], change: Callable[[Row], Row], *files: str) -> None:
    """Write views anew, each of their rows changed."""
    for file in files:
        work.run.write(kind, file, [change(row) for row in work.run.read(kind, file)])


def _test(rubric: Rubric, number: int, shape: Shape) -> ChosenTest:
    seed = rubric.seeds[number % len(rubric.seeds)]
    prompt = shape.text if number == 0 else seed.prompt
    return ChosenTest(f"{rubric.id}-{number:03d}", rubric.id, prompt, seed.context or "", rubric.system, None)


def _response(test: ChosenTest, subject: str, sample: int, shape: Shape, random: Random) -> Response:
    row = Response(
        test_id=test.id,
        dimension=test.dimension,
        subject=subject,
        sample=sample,
        state=State.OK,
        text=shape.text,
        finish="truncated" if random.random() < shape.cut else "ok",
        settings='{"max_tokens": "1000", "temperature": "0", "top_p": "0.95"}',
        model_reported=f"{subject}-2026-10-01",
        served_by="",
        reason="",
        reply_key=f"{random.getrandbits(256):064x}",
        input_tokens=100 + sample,
        output_tokens=10,
    )
    if random.random() >= shape.fail:
        return row
    state = random.choice([State.FAILED, State.BLOCKED, State.EMPTY, State.SUBSTITUTED])
    return replace(row, state=state, text="", finish="", reason=f"{state}: {shape.text}")


def _verdict(row: Response, judge: str, rubric: Rubric, shape: Shape, random: Random) -> Verdict:
    issues = tuple(letter for letter in rubric.issue_letters() if random.random() < 0.2)
    verdict = Verdict(
        test_id=row.test_id,
        dimension=row.dimension,
        subject=row.subject,
        sample=row.sample,
        judge=judge,
        state=State.OK,
        issues=issues,
        assessment=shape.text,
        score=score(rubric, issues),
        asks=1,
        reason="",
        reply_key=f"{random.getrandbits(256):064x}",
        input_tokens=1000,
        output_tokens=7,
    )
    if random.random() >= shape.fail:
        return verdict
    return replace(verdict, state=State.UNREADABLE, issues=None, assessment="", score=None, asks=2, reason=shape.text)
