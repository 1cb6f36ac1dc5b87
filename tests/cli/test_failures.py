"""A run in which all has failed is not complete, and says why in the vendor's words."""

import json
from pathlib import Path

import hab_ray
from tests.cli.scripted_vendor import Record, Said, answer, refusal, scripted
from tests.conftest import Desk

VERDICT = json.dumps({"assessment": "fine", "issues": []})


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


def all_of_one_refused(asked: Record) -> Said:
    if asked["model"] == "bad":
        return refusal("messages: unexpected field")
    return answer(VERDICT if "response_format" in asked else "Try the first step yourself.")


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
        vendor.say = lambda asked: answer(VERDICT if "response_format" in asked else "Try it.")
        unasked = desk.hab("run", sweep, "--retry-failed")
        assert (unasked.returncode, vendor.calls) == (2, 12) and "8 calls to pay" in unasked.stdout, unasked.stdout
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
    with scripted(lambda asked: answer("I would rather not.")) as vendor:
        done = desk.says("run", sweep_file(desk, vendor.url, tests=3), "--yes", status=5)
    assert "judge: none of the 6 rows" in done and "6 unreadable" in done
