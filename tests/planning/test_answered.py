"""Retired models and missing keys stop no run that has all answers it needs of them."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from hab_ray.planning.preflight import available_only, preflight
from hab_ray.planning.problems import Problem, Severity
from hab_ray.resolve import write_record
from hab_ray.sweep.options import Options
from hab_ray.work import Work
from tests.instant import MADE, NOW, Failing, Run, work_of

TODAY = date(2026, 12, 22)
ENDED = {"ends": "2026-12-01", "why": "the vendor's page"}
VECTORS = {"vectors": {"purpose": "embedding"}}
OTHER = {"kind": "openai", "url": "http://localhost:2/v1", "key_env": "OTHER_KEY", "price": {"input": 1}}
GROWN = ["house/a", "house/b"]


def house(**models: dict[str, Any]) -> dict[str, Any]:
    known = {name: VECTORS.get(name, {}) | models.get(name, {}) for name in {**VECTORS, **models}}
    price = {"input": 1, "output": 4}
    return {"kind": "openai", "url": "http://localhost:1/v1", "key_env": "HOUSE_KEY", "price": price, "models": known}


def work_in(folder: Path, **changes: Any) -> Work:
    sweep = {"providers": {"house": house()}, "subjects": ["house/a"], "judges": ["house/j"], **changes}
    return work_of(folder, **MADE, **sweep)


def retired(name: str, **more: str) -> dict[str, Any]:
    return {"house": house(**{name: {"lifecycle": ENDED | more}})}


def answered(folder: Path, *stages: str, **changes: Any) -> Run:
    """A run whose calls are answered, those of some stages or all."""
    run = Run(work_in(folder, **changes))
    for stage in stages or ("",):
        run.all(stage)
    write_record(run.work, NOW)
    return run


def problems(work: Work, **environ: str) -> list[Problem]:
    return preflight(work, environ or {"HOUSE_KEY": "set", "OTHER_KEY": "set"}, TODAY)


def kept(work: Work, found: list[Problem]) -> tuple[list[str], list[str]]:
    """The subjects and judges that --available-only leaves."""
    left = available_only(work.sweep, found)
    return [subject.model for subject in left.subjects], [judge.model for judge in left.judges]


@pytest.mark.parametrize("gone", ["writer", "checker", "vectors", "a"])
def test_a_run_grows_although_a_model_that_it_needs_no_more_is_retired(tmp_path: Path, gone: str) -> None:
    answered(tmp_path)
    work = work_in(tmp_path, providers=retired(gone), subjects=GROWN)
    (told,) = problems(work)
    assert told.severity is Severity.WARNING and f"house/{gone} was retired on 2026-12-01" in told.cause
    assert told.remedy == "the run needs no more calls to it, and keeps its answers"
    assert kept(work, [told]) == (GROWN, ["house/j"])


def test_a_complete_run_is_repeated_after_its_judge_was_retired_and_not_grown(tmp_path: Path) -> None:
    answered(tmp_path)
    (told,) = problems(work_in(tmp_path, providers=retired("j")))
    assert told.severity is Severity.WARNING
    (told,) = problems(work_in(tmp_path, providers=retired("j"), subjects=GROWN))
    assert told.severity is Severity.ERROR and "leave it out" in told.remedy


@pytest.mark.parametrize("stages", [("generate",), ("generate", "validate", "select", "choose")])
def test_a_retired_model_with_open_calls_is_an_error(tmp_path: Path, stages: tuple[str, ...]) -> None:
    answered(tmp_path, *stages)
    gone = "a" if "choose" in stages else "checker"
    (told,) = problems(work_in(tmp_path, providers=retired(gone)))
    assert (told.severity, told.models) == (Severity.ERROR, (f"house/{gone}",))


def test_answers_of_a_model_that_another_answers_now_are_kept(tmp_path: Path) -> None:
    answered(tmp_path)
    (told,) = problems(work_in(tmp_path, providers=retired("a", answered_by="a-2"), subjects=GROWN))
    assert told.severity is Severity.WARNING and "is answered by a-2 since 2026-12-01" in told.cause


def test_a_missing_key_stops_only_the_models_with_open_calls(tmp_path: Path) -> None:
    both: dict[str, Any] = {"providers": {"house": house(), "other": OTHER}, "judges": ["other/j"]}
    answered(tmp_path, **both)
    for complete in ({}, {"subjects": ["house/a", "other/b"]}):
        assert problems(work_in(tmp_path, **both, **complete), OTHER_KEY="set") == []
    work = work_in(tmp_path, **both, subjects=GROWN)
    (told,) = problems(work, OTHER_KEY="set")
    assert (told.severity, told.models) == (Severity.ERROR, ("house/b",)) and "house/a" not in told.cause
    assert "--available-only" in told.remedy and kept(work, [told]) == (["house/a"], ["other/j"])


def test_all_keys_are_needed_while_the_runs_files_cannot_be_read(tmp_path: Path) -> None:
    run = answered(tmp_path)
    (views,) = {(run.work.run_path.path / shard.file).parent for shard in run.work.shards() if shard.stage == "choose"}
    for view in views.iterdir():
        view.write_bytes(b"PAR1 but cut")
    (told,) = problems(work_in(tmp_path), OTHER_KEY="set")
    assert "HOUSE_KEY is not set" in told.cause


def test_failed_rows_of_a_retired_model_count_as_open_only_if_they_are_sent_again(tmp_path: Path) -> None:
    run = Failing(work_in(tmp_path))
    for shard in run.work.shards():
        run.made[shard.stage, shard.name, shard.dimension] = int(shard.stage != "respond")
        run.take(shard)
    write_record(run.work, NOW)
    work, keys = work_in(tmp_path, providers=retired("a")), {"HOUSE_KEY": "set"}
    assert [one.severity for one in preflight(work, keys, TODAY)] == [Severity.WARNING]
    again = Options(retry_failed=True).failures_since
    (told,) = preflight(work, keys, TODAY, again)
    assert (told.severity, told.models) == (Severity.ERROR, ("house/a",))
