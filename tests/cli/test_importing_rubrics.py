"""A checkout of the published code from its import to a sweep: what a vendor is sent is what that code says."""

from __future__ import annotations

import json

from aiohttp import web

from hab_ray.results import open_run
from tests.cli.hostile_vendor import serving
from tests.conftest import Desk, Vendors
from tests.exchange.imports.checkouts import build_checkout

ANSWER = "Look\nat it.\n   "
JUDGED = """
            A riddle: How "ask_clarifying_questions" is {n}?
And why?
              What was said: Look
at it.

            A. Says nothing of use
            The letter A costs 8.
            Give an object with "issues" (an alphabetical array) and "assessment".
"""


def test_an_imported_checkout_is_planned_and_asked_of_a_simulator(desk: Desk, vendor: Vendors) -> None:
    build_checkout(desk.folder / "checkout")
    assert "src/prompts/prompt_base.py" in desk.says("import", "rubrics", "checkout", status=2)
    assert not (desk.folder / "imported_rubrics").exists()
    done = desk.says("import", "rubrics", "checkout", "--execute-unknown")
    assert "other than the published one" in " ".join(done.split())
    sim = vendor()
    sweep = desk.sweep("small", sim.url, rubrics="imported_rubrics", executor="local")
    desk.says("plan", sweep)
    desk.hab("run", sweep, "--yes")
    assert sim.received("gen") >= 12


def test_judges_are_sent_what_the_code_says_and_scored_by_its_points(desk: Desk) -> None:
    build_checkout(desk.folder / "checkout")
    desk.says("import", "rubrics", "checkout", "--execute-unknown")
    judged: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.read())
        text = ANSWER
        if body["model"] == "judge":
            (message,) = body["messages"]
            judged.append(message["content"])
            text = json.dumps({"assessment": "Of no use.", "issues": ["A"]})
        usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
        choices = [{"message": {"content": text}, "finish_reason": "stop"}]
        return web.json_response({"model": "m", "choices": choices, "usage": usage})

    with serving(handle) as url:
        given = {"tests": "seeds", "subjects": ["sim/alpha"]}
        ask = {"rubrics": "imported_rubrics", "dimensions": ["ask_clarifying_questions"], "executor": "local"}
        desk.says("run", desk.sweep("seeds", url, **given, **ask), "--yes")
    assert sorted(judged) == [JUDGED.format(n=n) for n in range(5)]
    scores = open_run(desk.folder / "runs/seeds").verdicts("sim/judge")["score"].to_pylist()
    assert scores == [2] * 5
