"""A sweep that declares its analysis, as a user runs it: recorded before the first answer, changes listed."""

from pathlib import Path
from typing import Any

from hab_ray.config.preregistration import Existing
from hab_ray.results import open_run
from tests.conftest import Desk, Vendors

PLAN = {
    "primary": {"dimension": "overall", "question": "Is <b>alpha</b> better?"},
    "families": [{"name": "all", "compares": "subjects", "correction": "none"}],
    "alpha": 0.05,
    "stopping": "fixed",
}
APART = {"name": "apart", "compares": "dimensions", "among": ["overall", "encourage_learning"]}


def sweep(desk: Desk, name: str, url: str, **changes: Any) -> Path:
    tests = desk.lines("tests.jsonl", ({"dimension": "encourage_learning", "prompt": p} for p in ("How?", "Why?")))
    given = {"tests": str(tests), "executor": "local", "dimensions": ["encourage_learning"]}
    return desk.sweep(name, url, **given | changes)


def page(desk: Desk, name: str) -> str:
    return (desk.folder / f"runs/{name}/report/index.html").read_text()


def test_it_is_recorded_before_the_first_answer_and_changes_are_listed(desk: Desk, vendor: Vendors) -> None:
    sim = vendor()
    desk.says("run", sweep(desk, "beforehand", sim.url, analysis=PLAN), "--yes")
    run = open_run(desk.folder / "runs/beforehand")
    (first,) = run.record.declarations
    assert (first.existing, first.replaces) == (Existing(), None) and run.record.sweep.analysis == first.plan
    assert f"{first.sha256}" in page(desk, "beforehand") and "before the first answer" in page(desk, "beforehand")
    assert "&lt;b&gt;alpha&lt;/b&gt;" in page(desk, "beforehand") and page(desk, "beforehand").count("xploratory") == 1
    desk.says("run", sweep(desk, "beforehand", sim.url, analysis=PLAN), "--yes")
    assert len(open_run(desk.folder / "runs/beforehand").record.declarations) == 1
    changed = desk.says("run", sweep(desk, "beforehand", sim.url, analysis=PLAN | {"alpha": 0.1}), "--yes")
    assert "0 calls sent" in changed and "analysis: changed (alpha) when 4 answers existed" in changed
    _, second = open_run(desk.folder / "runs/beforehand").record.declarations
    assert (second.replaces, second.changed, second.existing.answers) == (first.sha256, ("alpha",), 4)
    for part in (first.sha256, second.sha256, "It was changed once since, most recently when 4 answers existed."):
        assert part and part in page(desk, "beforehand")


def test_answers_that_existed_are_said(desk: Desk, vendor: Vendors) -> None:
    sim = vendor()
    desk.says("run", sweep(desk, "explored", sim.url), "--yes")
    assert "Exploratory: no analysis was declared" in page(desk, "explored")
    other = sweep(desk, "another", sim.url, analysis=PLAN | {"primary": "encourage_learing", "families": [APART]})
    done = desk.says("run", other, "--yes")
    assert "0 calls sent" in done
    assert "analysis.primary.dimension: encourage_learing is not in this sweep" in " ".join(done.split())
    assert "analysis.families.0.among: overall is the mean of the dimensions" in " ".join(done.split())
    (made,) = open_run(desk.folder / "runs/another").record.declarations
    assert made.existing == Existing(answers=4) and "when 4 answers existed already: it was not declared" in page(
        desk, "another"
    )


def test_given_answers_may_be_declared_for_until_they_are_judged(desk: Desk, vendor: Vendors) -> None:
    sim = vendor()
    given = desk.folder / "answers.csv"
    given.write_text("dimension,prompt,subject,text\nencourage_learning,How?,old,Think.\n")
    asked = {"subjects": None, "tests": None, "responses": str(given)}
    for name, existing in {"first": Existing(given=1), "second": Existing(given=1, verdicts=1)}.items():
        desk.says("run", sweep(desk, name, sim.url, **asked, analysis=PLAN), "--yes")
        (made,) = open_run(desk.folder / f"runs/{name}").record.declarations
        assert made.existing == existing
