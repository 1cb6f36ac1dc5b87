"""A checkout of the published code from its import to a sweep: what a vendor is sent is what that code says."""

import json

from hab_ray.results import open_run
from tests.cli.scripted_vendor import Record, Said, answer, scripted
from tests.conftest import Desk
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


def test_models_are_sent_what_the_code_says_and_scored_by_its_points(desk: Desk) -> None:
    build_checkout(desk.folder / "checkout")
    assert "src/prompts/prompt_base.py" in desk.says("import", "rubrics", "checkout", status=2)
    assert not (desk.folder / "imported_rubrics").exists()
    done = desk.says("import", "rubrics", "checkout", "--execute-unknown")
    assert "other than the published one" in " ".join(done.split())
    judged: list[str] = []

    def say(asked: Record) -> Said:
        if asked["model"] != "judge":
            return answer(ANSWER)
        (message,) = asked["messages"]
        judged.append(message["content"])
        return answer(json.dumps({"assessment": "Of no use.", "issues": ["A"]}))

    with scripted(say) as vendor:
        given = {"tests": "seeds", "subjects": ["sim/alpha"]}
        ask = {"rubrics": "imported_rubrics", "dimensions": ["ask_clarifying_questions"], "executor": "local"}
        desk.says("run", desk.sweep("seeds", vendor.url.removesuffix("/v1"), **given, **ask), "--yes")
    assert sorted(judged) == [JUDGED.format(n=n) for n in range(5)]
    scores = open_run(desk.folder / "runs/seeds").verdicts("sim/judge")["score"].to_pylist()
    assert scores == [2] * 5
