"""Rows as the published code writes them, and a hub that serves them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from huggingface_hub import constants

from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.answers import import_responses, import_tests
from hab_ray.exchange.imports.hub import EVALUATIONS
from hab_ray.exchange.imports.ratings import import_ratings, import_verdicts
from hab_ray.exchange.imports.source import TableSource
from hab_ray.given.ratings import Rating, Scale, read_given_ratings
from hab_ray.given.responses import read_given_responses
from hab_ray.given.rows import read_given_tests
from hab_ray.location import Location
from hab_ray.rubric import load_rubrics
from tests.exchange.imports.tables import Write, comma_separated, given_table, json_lines, json_list, parquet

OLD, NEW = "1" * 40, "2" * 40
PLAIN = "ask_clarifying_questions"
POINTS = {"": 10, "A": 0, "B": 6, "C": 7, "BC": 3}
FAILED = ("[RATE LIMIT ERROR] 429", "[ERROR DURING LLM CHAT] {x", "I cannot.", '{"issues": ["A"', '["A"]', None)


def reply(letters: str) -> str:
    return f"Here:\n{json.dumps({'assessment': 'Read.', 'issues': [*letters]}, indent=1)}"


def published_rows() -> list[dict[str, Any]]:
    """480 verdicts: 36 of failed calls scored 0, 11 without issues scored 10, the rest earned, and two answers null."""
    cells = [(0, FAILED[n % len(FAILED)]) for n in range(36)]
    cells += [(10, '{"assessment": "Fine."}')] * 11
    cells += [(POINTS[letters], reply(letters)) for n in range(433) for letters in [list(POINTS)[n % len(POINTS)]]]
    rows = [
        {
            "prompt": f"How, {n // 4}?",
            "score": score,
            "subject_response": None if n in (3, 100) else f"Like {n}.",
            "subject_system_prompt": None,
            "evaluator_prompt": "x" * 200,
            "evaluator_response": said,
            "subject_model": f"gpt-{n % 4}",
            "misinformation": None,
            "subdim": PLAIN,
        }
        for n, (score, said) in enumerate(cells)
    ]
    Random(0).shuffle(rows)
    return rows


def ratings(path: Path) -> tuple[Rating, ...]:
    return read_given_ratings([Location.of(path)], load_rubrics()).ratings


@pytest.mark.parametrize(
    ("name", "write", "out"),
    [
        ("r.parquet", parquet, "v.parquet"),
        ("r.json", json_list, "v.parquet"),
        ("r.jsonl", json_lines, "v.jsonl"),
        ("r.csv", comma_separated, "v.jsonl"),
    ],
)
def test_a_judges_failures_are_neither_zeros_nor_tens(tmp_path: Path, name: str, write: Write, out: str) -> None:
    write(tmp_path / name, published_rows())
    source = TableSource(str(tmp_path / name), values={"rater": "o3"})
    notes = import_verdicts(source, tmp_path / out)
    found = ratings(tmp_path / out)
    failed = [rating for rating in found if rating.failed]
    assert (len(found), len(failed), {rating.score for rating in failed}) == (480, 47, {None})
    assert "failed, and in no mean whatever their score: 11, as the reply names no issues" in notes
    assert "  published o3: 433 scores, 47 failed verdicts" in notes
    scored = [rating for rating in found if rating.score is not None]
    assert all(rating.issues is not None and rating.score == POINTS["".join(rating.issues)] for rating in scored)
    about = yaml.safe_load((tmp_path / f"{out}.source.yaml").read_text())
    assert (about["scores"], about["failed"]) == ({PLAIN: 433}, {"published o3": 47})


def test_the_answers_of_the_same_rows_are_empty_where_they_are_null(tmp_path: Path) -> None:
    parquet(tmp_path / "r.parquet", published_rows())
    import_responses(TableSource(str(tmp_path / "r.parquet")), tmp_path / "a.parquet")
    for file in ("a.parquet", "r.parquet"):
        if file == "r.parquet":
            table = pq.read_table(tmp_path / file)
            names = [{"subdim": "dimension"}.get(name, name) for name in table.column_names]
            pq.write_table(table.rename_columns(names), tmp_path / file)
        given = read_given_responses(Location.of(tmp_path / file), load_rubrics(), None)
        states = [str(row.state) for rows in given.responses.values() for row in rows]
        assert (len(states), states.count("empty")) == (480, 2)


def test_a_score_without_a_reply_is_as_it_stands(tmp_path: Path) -> None:
    """Another study's table may have kept no replies, or read what the published code could not."""
    rows = [{"subject_model": "a", "dimension": PLAIN, "prompt": f"{n}", "rater": "j", "score": 0} for n in range(2)]
    import_verdicts(given_table(tmp_path, rows), tmp_path / "a.jsonl")
    odd = [rows[0] | {"reply": "{'issues': oh}", "score": 4}, rows[1] | {"reply": "I said A.", "issues": ["A"]}]
    import_verdicts(given_table(tmp_path, odd), tmp_path / "b.jsonl")
    assert [rating.score for name in "ab" for rating in ratings(tmp_path / f"{name}.jsonl")] == [0, 0, 4, 0]


def test_files_of_one_dimension_each_are_read_together_and_duplicates_once(tmp_path: Path) -> None:
    rows = [{name: cell for name, cell in row.items() if name != "subdim"} for row in published_rows()]
    names = [f"results/gpt-{n}_{dimension}.csv" for n, dimension in enumerate((PLAIN, "encourage_learning"))]
    (tmp_path / "results").mkdir()
    for name in names:
        comma_separated(tmp_path / name, [*rows, *rows[:7]])
    first, *more = (str(tmp_path / name) for name in names)
    source = TableSource(first, values={"rater": "o3"}, more=tuple(more))
    notes = import_verdicts(source, tmp_path / "v.parquet")
    assert notes[0] == "974 rows, 866 scores of 960 answers by 1 rater; licence: unknown"
    assert "14 scores repeat an earlier one and are left out" in notes
    assert len(ratings(tmp_path / "v.parquet")) == 960
    about = yaml.safe_load((tmp_path / "v.parquet.source.yaml").read_text())
    assert list(about["sha256"]) == [first, *more] and about["rows"] == 974
    with pytest.raises(
        ConfigError, match=r"no column is known as dimension; .* or give --value dimension=TEXT for all rows"
    ):
        (tmp_path / "x.csv").write_bytes((tmp_path / names[0]).read_bytes())
        import_verdicts(TableSource(str(tmp_path / "x.csv"), values={"rater": "o3"}), tmp_path / "w.parquet")
    stated = {"rater": "o3", "dimension": "Encourage Learning"}
    import_verdicts(TableSource(str(tmp_path / "x.csv"), values=stated), tmp_path / "w.parquet")
    assert {rating.dimension for rating in ratings(tmp_path / "w.parquet")} == {"encourage_learning"}
    (tmp_path / "y.csv").write_text("dimension,prompt,subject,rater,score\n")
    with pytest.raises(ConfigError, match=r"y.csv: its columns are not those of .*gpt-0_ask"):
        import_verdicts(TableSource(first, values=stated, more=(str(tmp_path / "y.csv"),)), tmp_path / "z.parquet")


@pytest.mark.parametrize("other", [0, 1])
def test_only_files_of_a_dimension_with_a_second_text_have_its_column(tmp_path: Path, other: int) -> None:
    paths = [tmp_path / "gpt_ask_clarifying_questions.csv", tmp_path / "gpt_correct_misinformation.csv"]
    row = {"prompt": "How?", "score": 7, "subject_response": "So.", "subject_model": "gpt"}
    comma_separated(paths[0], [row])
    comma_separated(paths[1], [row | {"misinformation": "It is."}])
    first, second = str(paths[other]), str(paths[1 - other])
    import_tests(TableSource(first, more=(second,)), tmp_path / "t.parquet")
    import_responses(TableSource(first, more=(second,)), tmp_path / "a.parquet")
    import_verdicts(TableSource(first, values={"rater": "o3"}, more=(second,)), tmp_path / "v.parquet")
    given = read_given_tests(Location.of(tmp_path / "t.parquet"), load_rubrics())
    assert {test.context for tests in given.values() for test in tests} == {"", "It is."}
    answers = read_given_responses(Location.of(tmp_path / "a.parquet"), load_rubrics(), given)
    assert len(answers.responses) == 2 and len(ratings(tmp_path / "v.parquet")) == 2


@pytest.mark.parametrize("out", ["v.parquet", "v.jsonl"])
def test_scores_of_another_scale_are_mapped_and_need_not_be_whole(tmp_path: Path, out: str) -> None:
    row = {"dimension": PLAIN, "subject": "a", "rater": "Zoe"}
    rows = [row | {"prompt": f"{n}", "score": score} for n, score in enumerate((1, "4", 6.5))]
    import_ratings(given_table(tmp_path, rows, scale=Scale.of("1:7")), tmp_path / out)
    assert [rating.score for rating in ratings(tmp_path / out)] == pytest.approx([0, 5, 5.5 / 6 * 10])
    assert yaml.safe_load((tmp_path / f"{out}.source.yaml").read_text())["scale"] == "1:7"
    for outside in (7.5, "1e400", "nan", "-1"):
        source = given_table(tmp_path, [row | {"prompt": "x", "score": outside}], scale=Scale.of("1:7"))
        with pytest.raises(ConfigError, match=r"row 1: score: .* is no number from 1 to 7"):
            import_ratings(source, tmp_path / "w.jsonl")


@contextmanager
def hub(files: dict[str, dict[str, bytes]], asked: list[str]) -> Iterator[str]:
    """A server that plays the hub's API: files by commit, the last of which is the newest."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            asked.append(self.path)
            parts = self.path.strip("/").split("/")
            newest = list(files)[-1]
            if parts[:2] == ["api", "datasets"]:
                commit = parts[-1] if "revision" in parts and parts[-1] != "main" else newest
                body = json.dumps({"id": "/".join(parts[2:4]), "sha": commit, "siblings": []}).encode()
                self._send(200 if commit in files else 404, body, {"Content-Type": "application/json"})
            else:
                commit, name = parts[-2:]
                found = files.get(commit, {}).get(name)
                headers = {"ETag": f'"{commit[:3]}{name}"', "X-Repo-Commit": commit}
                self._send(404 if found is None else 200, found or b"", headers)

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def test_the_newest_revision_is_fetched_and_kept_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row | {"dimension": PLAIN} for row in published_rows()]
    parquet(tmp_path / "new.parquet", rows)
    parquet(tmp_path / "old.parquet", rows[:9])
    card = b"---\nlicense: mit\n---\n# Rows\n"
    files = {
        commit: {str(EVALUATIONS.file): (tmp_path / name).read_bytes(), "README.md": card}
        for commit, name in ((OLD, "old.parquet"), (NEW, "new.parquet"))
    }
    asked: list[str] = []
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    with hub(files, asked) as address:
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}"
        )
        for revision, commit, count in (("", NEW, 480), ("main", NEW, 480), (OLD, OLD, 9)):
            out = tmp_path / f"{revision[:4] or 'newest'}.parquet"
            notes = import_responses(TableSource("published", revision=revision), out)
            about = yaml.safe_load(out.with_name(f"{out.name}.source.yaml").read_text())
            assert about["source"] == f"{EVALUATIONS.repo} at {commit}" and about["rows"] == count
            assert f"source: {EVALUATIONS.repo} at {commit}" in notes and about["licence"] == "mit"
        assert any(path.endswith(f"{NEW}/{EVALUATIONS.file}") for path in asked)
        with pytest.raises(ConfigError, match=f"at {'3' * 40} cannot be downloaded .*; check the network and --rev"):
            import_verdicts(TableSource("published", revision="3" * 40), tmp_path / "v.parquet")
