"""Sheets for raters: what is drawn, what they are shown, and that what they send back is read."""

import csv
import json
import re
import resource
from base64 import b64encode
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hab_ray.errors import ConfigError
from hab_ray.exchange.sheets import SheetPlan, draw_sheet, write_sheet
from hab_ray.exchange.sheets.drawing import order_for
from hab_ray.given.ratings import read_given_ratings, response_digest
from hab_ray.given.sheets import SheetItem, key_of_run
from hab_ray.location import Location
from hab_ray.results import Run, open_run
from hab_ray.rows import ChosenTest, Response, State
from hab_ray.rubric import load_rubrics
from hab_ray.stages import views
from hab_ray.stages.views import responses_file
from hab_ray.storage.run import MARKER
from tests.small_runs import HOSTILE, Shape, answer_files, revise, write_run

SUBJECTS = ("lab/alpha-7b", "beta-9b", "gamma")
TEXT = f"{HOSTILE} I am alpha-7b, made by lab; not Gamma-2."
DIMENSIONS = ("ask_clarifying_questions", "correct_misinformation")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    write_run(tmp_path / "run", Shape(subjects=SUBJECTS, dimensions=DIMENSIONS, tests=12, text=TEXT))
    return open_run(tmp_path / "run")


def counts(items: list[SheetItem]) -> Counter[tuple[str, str]]:
    return Counter((item.dimension, item.subject) for item in items)


def test_subjects_take_turns_and_tests_come_again_as_late_as_can_be(run: Run) -> None:
    items = draw_sheet(run, SheetPlan(8, None, 3))
    assert sorted(counts(items).values()) == [2, 2, 3, 3, 3, 3]
    assert max(Counter(item.test_id for item in items).values()) == 1
    more = draw_sheet(run, SheetPlan(16, None, 3))
    assert sorted(Counter(item.test_id for item in more).values()) == [1] * 16 + [2] * 8
    assert set(counts(draw_sheet(run, SheetPlan(None, 4, 3))).values()) == {4}
    whole = draw_sheet(run, SheetPlan(None, 500, 1))
    assert len({(i.dimension, i.subject, i.test_id) for i in whole}) == len(whole) == 72


def test_a_seed_draws_the_same_again_and_another_draws_others(run: Run) -> None:
    assert draw_sheet(run, SheetPlan(8, None, 3)) == draw_sheet(run, SheetPlan(8, None, 3))
    first, other = ({i.test_id for i in draw_sheet(run, SheetPlan(8, None, 3, seed))} for seed in (0, 1))
    assert first != other


def test_only_answers_are_drawn(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "run" / responses_file("gamma", DIMENSIONS[0])
    work = write_run(tmp_path / "run", Shape(subjects=SUBJECTS, dimensions=DIMENSIONS, tests=12, text=TEXT))
    rows = work.run.read(Response, responses_file("gamma", DIMENSIONS[0]))
    lost = [Response(**{**{f: getattr(r, f) for f in r.__slots__}, "state": State.FAILED}) for r in rows[1:]]
    work.run.write(Response, str(file.relative_to(tmp_path / "run")), [rows[0], *lost])
    found = counts(draw_sheet(run, SheetPlan(12, None, 1)))
    assert found[DIMENSIONS[0], "gamma"] == 1 and sum(found[DIMENSIONS[0], s] for s in SUBJECTS) == 12


def test_each_rater_has_an_order_of_their_own(run: Run) -> None:
    items = draw_sheet(run, SheetPlan(8, None, 3))
    orders = [[item.item for item in order_for(rater, items)] for rater in ("R1", "R2", "R3")]
    assert len(set(map(tuple, orders))) == 3 and all(set(order) == {i.item for i in items} for order in orders)
    by_item = {item.item: item.dimension for item in items}
    for order in orders:
        dimensions = [by_item[item] for item in order]
        assert sum(a != b for a, b in pairwise(dimensions)) == 1


class Parsed(HTMLParser):
    """The parts of a form that could run, and its policy."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.handlers: list[str] = []
        self.policy, self._inside, self.texts = "", "", dict[str, str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags[tag] += 1
        self.handlers += [name for name in given if name.startswith("on") or name in ("src", "href", "style")]
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""
        self._inside = given.get("id") or tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._inside, data)


def test_a_form_shows_hostile_text_as_text_and_names_nobody(run: Run, tmp_path: Path) -> None:
    items = draw_sheet(run, SheetPlan(8, None, 2))
    write_sheet(run, items, tmp_path / "out")
    files = {path.name: path for path in (tmp_path / "out").iterdir()}
    assert files.keys() == {"R1.html", "R1.csv", "R2.html", "R2.csv"}
    for path in files.values():
        text = path.read_text("utf-8")
        assert not re.search(r"alpha-7b|beta-9b|\bgamma\b", text, re.IGNORECASE) and "[name]" in text
        assert not re.search("[\x00\u2028\u202e]", text)
    page = Parsed(files["R1.html"].read_text("utf-8"))
    assert page.tags["script"] == 2 and page.tags["style"] == 1 and page.tags["img"] == 0 and page.handlers == []
    for kind in ("script", "style"):
        digest = b64encode(sha256(page.texts[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in page.policy
    assert "default-src 'none'" in page.policy and "unsafe" not in page.policy
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|fetch|https?:", page.texts["script"])
    data: dict[str, Any] = json.loads(page.texts["data"])
    assert [each["item"] for each in data["items"]] == [item.item for item in order_for("R1", items)]
    rubrics = load_rubrics()
    for dimension, shown in data["dimensions"].items():
        issues = [(issue["letter"], issue["text"]) for issue in shown["issues"]]
        assert issues == [(issue.letter, issue.text) for issue in rubrics[dimension].judging.issues]
    assert all("<script>alert(1)</script>" in each["answer"] for each in data["items"])
    assert all(bool(each["context"]) == (each["dimension"] == DIMENSIONS[1]) for each in data["items"])
    with pytest.raises(ConfigError, match="is not an empty folder"):
        write_sheet(run, items, tmp_path / "out")


def test_a_sheet_for_which_there_is_no_room_leaves_no_part_of_it(run: Run, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_sheet(run, draw_sheet(run, SheetPlan(8, None, 2)), tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "out" not in {path.name for path in tmp_path.iterdir()}
    write_sheet(run, draw_sheet(run, SheetPlan(8, None, 2)), tmp_path / "out")


def test_tests_of_two_dimensions_may_share_an_id(tmp_path: Path) -> None:
    work = write_run(tmp_path / "run", Shape(dimensions=DIMENSIONS))
    revise(work, ChosenTest, lambda row: replace(row, id=row.id[-3:]), *map(views.tests_file, DIMENSIONS))
    revise(work, Response, lambda row: replace(row, test_id=row.test_id[-3:]), *answer_files(work))
    run = open_run(tmp_path / "run")
    write_sheet(run, draw_sheet(run, SheetPlan(4, None, 1)), tmp_path / "out")
    rows = list(csv.DictReader((tmp_path / "out" / "R1.csv").open(encoding="utf-8", newline="")))
    assert len(rows) == 8
    assert all(bool(row["context"]) == (row["dimension"] == DIMENSIONS[1]) for row in rows)


def test_a_sheet_of_simulated_answers_does_not_show_what_was_planted(tmp_path: Path) -> None:
    planted = "[[hab:correct_misinformation:AB:0123abcd]] An answer. [[hab-query:correct_misinformation:0123abcd]]"
    write_run(tmp_path / "run", Shape(text=planted))
    run = open_run(tmp_path / "run")
    for name, is_shown in (("real", True), ("simulated", False)):
        write_sheet(run, draw_sheet(run, SheetPlan(2, None, 1)), tmp_path / name)
        texts = [path.read_text("utf-8") for path in (tmp_path / name).iterdir()]
        assert len(texts) == 2 and all(("[[hab" in text) is is_shown for text in texts)
        (tmp_path / "run" / MARKER).touch()


def test_what_comes_back_is_read_by_the_key_in_the_run(run: Run, tmp_path: Path) -> None:
    items = draw_sheet(run, SheetPlan(4, None, 2))
    place, filled = write_sheet(run, items, tmp_path / "out"), tmp_path / "out" / "R1.csv"
    key, rubrics = key_of_run(run.location), load_rubrics()
    assert set(key.items.values()) == set(items) and str(place).endswith(f"/run/sheets/{items[0].sheet}.parquet")
    with filled.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    rows[0]["issues"], rows[1]["issues"], rows[2]["failed"] = "A, B", "none", "in another language"
    with filled.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    saved = tmp_path / "R2.jsonl"
    lines = [{"item": i.item, "dimension": i.dimension, "rater": "R2", "kind": "person", "issues": []} for i in items]
    saved.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read_given_ratings([Location.of(filled), Location.of(saved)], rubrics, key)
    by_csv, by_form = ([rating for rating in found.ratings if rating.rater == rater] for rater in ("R1", "R2"))
    assert len(by_csv) == 3 and [rating.score for rating in by_form] == [10] * len(items)
    cost = {d: sum(rubrics[d].deduction(letter) for letter in "AB") for d in DIMENSIONS}
    assert [rating.score for rating in by_csv] == [max(0, 10 - cost[by_csv[0].dimension]), 10, None]
    assert by_csv[2].failed == "in another language" and by_csv[0].issues == ("A", "B")
    behind = {(r.test, r.subject, r.response_sha256) for r in by_form}
    assert behind == {(i.test_id, i.subject, response_digest(TEXT)) for i in items}


def test_an_item_of_no_sheet_is_refused(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "R1.jsonl"
    file.write_text('{"item": "0-1", "dimension": "d", "rater": "R1", "kind": "person", "issues": []}\n')
    with pytest.raises(ConfigError, match=r"R1.jsonl, row 1: item: no sheet of this run has '0-1'") as refused:
        read_given_ratings([Location.of(file)], load_rubrics(), key_of_run(run.location))
    assert f"({run.location}/sheets was searched)" in str(refused.value) and "copy `sheets/`" in str(refused.value)


def test_an_item_of_the_rehearsals_sheet_is_said_to_be_there(run: Run, tmp_path: Path) -> None:
    items = draw_sheet(run, SheetPlan(2, None, 1))
    write_sheet(run, items, tmp_path / "out")
    file = Location.of(tmp_path / "out" / "R1.csv")
    run.location.path.rename(tmp_path / "rehearsal-study")
    with pytest.raises(ConfigError, match=r"rehearsal-study/sheets has it, so it rates simulated answers") as refused:
        read_given_ratings([file], load_rubrics(), key_of_run(Location.of(tmp_path / "study")))
    assert "/study/sheets was searched" in str(refused.value) and "`hab rehearse` reads it" in str(refused.value)


@pytest.mark.parametrize("given", [(None, None, 3), (5, 5, 3), (0, None, 3), (5, None, 0)])
def test_numbers_that_draw_nothing_are_refused(given: tuple[int | None, int | None, int]) -> None:
    with pytest.raises(ConfigError, match="hab annotate sheet"):
        SheetPlan(*given)
