"""docs/people.md, and comparing runs in docs/results.md, command by command: from sheets to how far judges agree."""

import csv
import json
import re
import shlex
from pathlib import Path

import yaml

from hab_ray.results import open_run
from tests.conftest import Desk, Vendors

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/people.md").read_text("utf-8")
COMPARING = (ROOT / "docs/results.md").read_text("utf-8").split("## Compare two runs")[1].split("## ")[0]
DIMENSIONS = ["ask_clarifying_questions", "correct_misinformation"]
MODELS = {"subjects": ["sim/alpha", "sim/beta"], "judges": ["sim/judge"]}
SHAPE = {"tests": "seeds", "dimensions": DIMENSIONS, "executor": "local", **MODELS}


def commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE + COMPARING, re.DOTALL)
    return [line.replace("MODEL", "sim/other") for block in blocks for line in block.splitlines() if line]


def send_back(desk: Desk) -> None:
    """What two people save in their forms, as its script does, and one writes into the table, saved with semicolons."""
    back = desk.folder / "back"
    back.mkdir()
    for number in (1, 2):
        page = (desk.folder / f"sheets/R{number}.html").read_text("utf-8")
        data = json.loads(re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)[0])
        rows = [
            {"item": i["item"], "dimension": i["dimension"], "rater": data["rater"], "kind": "person", "issues": ["B"]}
            for i in data["items"]
        ]
        desk.lines(f"back/R{number}.jsonl", rows)
    with (desk.folder / "sheets/R3.csv").open(encoding="utf-8", newline="") as file:
        filled = [row | {"issues": "none", "comment": "Fine."} for row in csv.DictReader(file)]
    with (back / "R3.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(filled[0]), delimiter=";")
        table.writeheader()
        table.writerows(filled)


def test_from_sheets_to_agreement(desk: Desk, vendor: Vendors) -> None:
    sim = vendor()
    sweep = desk.sweep("study", sim.url, **SHAPE)
    first, sheet, again, agreement, latex, second, compare = commands()
    desk.says(*shlex.split(first)[1:], "--yes")
    drawn = desk.says(*shlex.split(sheet)[1:])
    assert "24 answers, there are no more" in drawn and "for each of R1, R2, R3" in drawn
    handed_out = "".join(path.read_text("utf-8") for path in desk.folder.glob("sheets/*"))
    assert not re.search(r"sim/|\balpha\b|\bbeta\b", handed_out)
    assert "--out: sheets is not an empty folder" in desk.says(*shlex.split(sheet)[1:], status=2)
    assert "no human ratings" in desk.says(*shlex.split(agreement)[1:], status=2)

    desk.says(*shlex.split(second)[1:], "--yes")
    compared = desk.says(*shlex.split(compare)[1:])
    assert "judges, of equal weight in the panel: sim/judge / sim/other" in compared
    assert "sign-flip" in compared and "share no test" not in compared
    answers = open_run(desk.folder / "runs/study").responses().num_rows
    assert f"{answers} of the {answers} answers to shared tests and " in compared

    send_back(desk)
    named = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]
    sweep.write_text(yaml.safe_dump(yaml.safe_load(sweep.read_text()) | yaml.safe_load(named)))
    before = sim.meter()["received"]
    joined = desk.says(*shlex.split(again)[1:], "--yes")
    assert "ratings by 3 raters" in joined and "left out" not in joined
    assert sim.meter()["received"] == before
    run = open_run(desk.folder / "runs/study")
    assert run.raters[1:] == ("R1", "R2", "R3")
    more = desk.says("annotate", "sheet", "runs/study", "--per-dimension", "2", "--raters", "1", "--out", "more")
    assert "comments" not in more, "forms show no comments of raters"
    shown = desk.says(*shlex.split(agreement)[1:])
    assert "people among themselves" in shown and "Only 3 people" in shown
    assert "sim/judge" in shown and "R3" in shown
    assert "sim/judge" in shown.splitlines()[0] and "an interval is unknown" in shown.splitlines()[0]
    titles = [run.rubrics[dimension].title for dimension in DIMENSIONS]
    assert not any(title in shown for title in titles) and len(shown.split()) < 250
    assert all(title in desk.says(*shlex.split(agreement)[1:], "--dimensions") for title in titles)
    paper = desk.says(*shlex.split(latex)[1:])
    assert r"\begin{tabular}" in paper and "R3" not in paper
    assert paper.count("sim/judge") == len(DIMENSIONS) + 1, "overall and by dimension"
    assert "by issue" in desk.says(*shlex.split(agreement)[1:], "--issues")
    rows = json.loads(desk.hab("agreement", "runs/study", "--json").stdout)["rows"]
    assert len(rows) == run.analysis("people").num_rows and {row["rater"] for row in rows} == {"all", "R1", "R2", "R3"}
    alone = desk.says("annotate", "sheet", "runs/study", "--per-dimension", 1, "--raters", 1, "--out", "alone")
    assert "a form and a CSV for R1: alone" in alone
