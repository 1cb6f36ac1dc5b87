"""A run in which all has failed is not complete, and says why in the vendor's words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

import hab_ray
from hab_ray.engine.alike import MIN_ALIKE
from tests.cli.hostile_vendor import serving
from tests.conftest import Desk, Vendors

VERDICT = json.dumps({"assessment": "fine", "issues": []})
USAGE = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
Said = tuple[int, Mapping[str, Any]]


def answer(text: str) -> Said:
    choice = {"message": {"content": text}, "finish_reason": "stop"}
    return 200, {"model": "m", "choices": [choice], "usage": USAGE}


def refusal(words: str) -> Said:
    return 400, {"error": {"message": words, "type": "invalid_request_error"}}


@dataclass
class Scripted:
    """A vendor that answers each chat as `say` does, given the model and whether it is asked for a verdict."""

    say: Callable[[str, bool], Said]
    url: str = ""
    calls: int = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.read())
        self.calls += 1
        status, said = self.say(body["model"], "response_format" in body)
        return web.json_response(said, status=status)


@contextmanager
def scripted(say: Callable[[str, bool], Said]) -> Iterator[Scripted]:
    vendor = Scripted(say)
    with serving(vendor.handle) as url:
        vendor.url = f"{url}/v1"
        yield vendor


def sweep_file(desk: Desk, url: str, tests: int) -> Path:
    lab = {"kind": "openai", "price": {"input": 1, "output": 2}, "limits": {"concurrent": 1, "patience_s": 2}}
    return desk.write(
        "failures",
        run="run",
        mode="online",
        executor="local",
        tests=desk.tests(tests),
        dimensions=["encourage_learning"],
        providers={"lab": lab | {"url": url}},
        subjects=["lab/bad", "lab/good"],
        judges=["lab/judge"],
    )


def all_of_one_refused(model: str, is_verdict: bool) -> Said:
    if model == "bad":
        return refusal("messages: unexpected field")
    return answer(VERDICT if is_verdict else "Try the first step yourself.")


def test_a_subject_whose_calls_are_all_refused_alike_is_stopped(desk: Desk) -> None:
    with scripted(all_of_one_refused) as vendor:
        sweep = sweep_file(desk, vendor.url, tests=MIN_ALIKE + 2)
        done = desk.says("run", sweep, "--yes", status=5)
        assert "messages: unexpected field" in done and "--retry-failed" in done
        assert vendor.calls == MIN_ALIKE + 2 * (MIN_ALIKE + 2)
    assert json.loads((desk.folder / "run/log/progress.json").read_text())["end"]["status"] == 5


def test_all_rows_of_a_subject_failed_is_not_complete_also_when_it_is_run_again(desk: Desk) -> None:
    """Too few to be stopped for: all fail for good, and the next run of the command says so again, without a call."""
    with scripted(all_of_one_refused) as vendor:
        sweep = sweep_file(desk, vendor.url, tests=4)
        for calls in (12, 12):
            done = desk.hab("run", sweep, "--yes")
            assert (done.returncode, vendor.calls) == (5, calls), done.stdout
            assert "respond: 4 rows of lab/bad failed permanently" in done.stdout
            assert "messages: unexpected field" in done.stdout and "--retry-failed" in done.stdout
            assert "log/failed.jsonl" in done.stdout and "log/failed.jsonl" in page(desk)
            named = [json.loads(line) for line in (desk.folder / "run/log/failed.jsonl").read_text().splitlines()]
            assert [set(row) for row in named] == [{"file", "row_id", "reason"}] * 4
            assert [row["row_id"] for row in named] == of_subject(desk, "lab/bad")
            assert all("messages: unexpected field" in row["reason"] for row in named)
            assert all((desk.folder / "run" / row["file"]).is_file() for row in named)
            assert (desk.folder / "run/log/failed.jsonl").stat().st_mode & 0o777 == 0o600
        vendor.say = lambda model, is_verdict: answer(VERDICT if is_verdict else "Try it.")
        done = desk.hab("run", sweep, "--yes", "--retry-failed")
        assert (done.returncode, vendor.calls) == (0, 12 + 8), done.stdout
        assert "failed permanently" not in done.stdout and "log/failed.jsonl" not in page(desk)
        assert not (desk.folder / "run/log/failed.jsonl").exists()


def page(desk: Desk) -> str:
    return (desk.folder / "run/report/index.html").read_text()


def of_subject(desk: Desk, subject: str) -> list[str]:
    responses = hab_ray.open_run(desk.folder / "run").responses(subject=subject)
    return [f"{row['test_id']}#{row['sample']}" for row in responses.to_pylist()]


def test_a_judge_that_never_says_a_verdict_is_not_complete(desk: Desk) -> None:
    with scripted(lambda model, is_verdict: answer("I would rather not.")) as vendor:
        done = desk.says("run", sweep_file(desk, vendor.url, tests=3), "--yes", status=5)
    assert "judge: none of the 6 rows" in done and "6 unreadable" in done


def test_a_run_answered_by_a_simulator_says_so_and_its_report_still_does(desk: Desk, vendor: Vendors) -> None:
    sim = vendor()
    desk.hab("run", desk.sweep("simulated", sim.url, dimensions=["encourage_learning"], tests="seeds"), "--yes")
    for done in (desk.hab("run", "simulated.yaml", "--yes"), desk.hab("report", "runs/simulated")):
        assert done.returncode == 0, done.stdout
        page = (desk.folder / "runs/simulated/report/index.html").read_text()
        assert "Simulated answers (sim)" in page


def test_a_row_that_failed_among_good_ones_is_named_and_the_run_complete(desk: Desk) -> None:
    replies = iter([refusal("no picture, please"), *[answer("Try it.")] * 5])

    def one_refused(model: str, is_verdict: bool) -> Said:
        return answer(VERDICT) if is_verdict else next(replies)

    with scripted(one_refused) as vendor:
        done = desk.says("run", sweep_file(desk, vendor.url, tests=3), "--yes")
    assert "1 rows of" in done and "no picture, please" in done
