"""Published answers are judged again, and earlier verdicts and people's ratings come to stand beside the panel."""

from __future__ import annotations

import pyarrow.parquet as pq

from hab_ray.exchange.imports.answers import import_responses
from hab_ray.exchange.imports.ratings import import_ratings, import_verdicts
from hab_ray.exchange.imports.source import TableSource
from hab_ray.results import open_run
from hab_ray.rows import Rater
from tests.conftest import Desk, Vendors

DIMENSION = "encourage_learning"
PUBLISHED = [("How?", "Think.", 9), ("Why?", "Look it up.", 4), ("When?", "[RATE LIMIT ERROR] again", 0)]


def published(desk: Desk) -> str:
    """A file in the columns of the published data set, with what two people said of the first answer."""
    ratings = [{"annotator": "Zoe", "rating": 3}, {"annotator": "Ada", "rating": 8}]
    rows = [
        {"dimension": DIMENSION, "prompt": prompt, "subject_model": "old", "subject_response": text, "score": score}
        for prompt, text, score in PUBLISHED
    ]
    rated = (row | {"ratings": ratings if at == 0 else []} for at, row in enumerate(rows))
    return str(desk.lines("published.jsonl", rated))


def test_raters_are_joined_as_answers_come_or_added_later_for_nothing(desk: Desk, vendor: Vendors) -> None:
    sim, source = vendor(), published(desk)
    import_responses(TableSource(source), desk.folder / "responses.parquet")
    import_verdicts(TableSource(source, values={"rater": "o3"}), desk.folder / "verdicts.parquet")
    import_ratings(TableSource(source), desk.folder / "ratings.parquet")
    data = str(desk.folder / "responses.parquet")
    models = {"subjects": ["sim/alpha"], "judges": ["sim/judge"]}
    settings = {**models, "dimensions": [DIMENSION], "executor": "local", "responses": data}
    sheet = {"dimension": DIMENSION, "prompt": "How?", "subject": "sim/alpha", "rater": "Eve", "kind": "person"}
    desk.lines("eve.jsonl", [sheet | {"score": 6}])
    first = desk.says("run", desk.sweep("bridge", sim.url, **settings, raters=["eve.jsonl"]), "--yes")
    assert "raters: 1 rating by 1 rater" in first
    assert open_run(desk.folder / "runs/bridge").raters == ("sim/judge", "rater-1")
    scores = pq.read_table(desk.folder / "runs/bridge/scores.parquet")
    files = [str(desk.folder / f"{kind}.parquet") for kind in ("verdicts", "ratings")]
    second = desk.says("run", desk.sweep("bridge", sim.url, **settings, raters=files), "--yes")
    assert "0 calls sent" in second
    assert "raters: 5 ratings by 3 raters are shown beside the judges' verdicts" in second
    run = open_run(desk.folder / "runs/bridge")
    assert run.panel == ("sim/judge",) and run.raters[1:] == ("person-1", "person-2", "published o3")
    ((subject, dimension, table),) = run.further_verdicts()
    beside = table.to_pylist()
    assert (subject, dimension) == ("old", DIMENSION)
    assert sorted((row["judge"], row["score"]) for row in beside) == [
        ("person-1", 3),
        ("person-2", 8),
        ("published o3", 0),
        ("published o3", 4),
        ("published o3", 9),
    ]
    assert {row["kind"] for row in beside} == {Rater.PERSON, Rater.PUBLISHED}
    assert pq.read_table(desk.folder / "runs/bridge/scores.parquet") == scores
    page = (desk.folder / "runs/bridge/report/index.html").read_text()
    assert '<h2 id="raters">' in page and "Zoe" not in page
