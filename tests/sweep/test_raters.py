"""Ratings in files become views of verdicts beside those of the judges."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hab_ray.config.sections import GivenAnswers
from hab_ray.errors import ConfigError
from hab_ray.given.ratings import response_digest
from hab_ray.given.rows import ReadOnce
from hab_ray.location import Location
from hab_ray.results import open_run
from hab_ray.rows import ChosenTest, Rater, RaterView, Response, State, Verdict, from_table
from hab_ray.stages.views import responses_file, verdicts_file
from hab_ray.stages.views import tests_file as file_of_tests
from hab_ray.storage.run import RATERS
from hab_ray.sweep.raters import place_raters
from hab_ray.work import Work
from tests.folders import Dying, Killed
from tests.small_runs import Shape, write_run

PLAIN, WITH_CONTEXT = Shape().dimensions
Rate = Callable[..., Work]


@pytest.fixture
def rate(tmp_path: Path) -> Rate:
    """The work of a run whose sweep names these rows under `raters:`, one list for each file."""
    work = write_run(tmp_path / "run", Shape(samples=2))

    def rated(*files: Iterable[dict[str, Any]]) -> Work:
        paths = [tmp_path / f"{number}.jsonl" for number in range(len(files))]
        for path, rows in zip(paths, files, strict=True):
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        places = tuple(Location.of(path) for path in paths)
        return replace(work, given=ReadOnce(), sweep=work.sweep.model_copy(update={"raters": places}))

    return rated


def row(test: str = f"{PLAIN}-001", **changes: Any) -> dict[str, Any]:
    rating = {"test_id": test, "subject": "alpha", "rater": "Ada", "kind": "published", "score": 4}
    return {"dimension": test.rpartition("-")[0], **rating, **changes}


def verdicts(work: Work, rater: str) -> list[Verdict]:
    return from_table(Verdict, open_run(work.run_path).verdicts(rater))


def files(work: Work) -> dict[str, bytes]:
    """Every file of the run folder."""
    folder = work.run.folder
    return {name: folder.get(name) for name in folder.list()}


def test_ratings_are_joined_by_id_or_text_subject_and_sample(rate: Rate) -> None:
    first, second = rate().run.read(ChosenTest, file_of_tests(WITH_CONTEXT))[1:3]
    by_text: dict[str, Any] = {"dimension": WITH_CONTEXT, "test_id": None, "sample": 1}
    work = rate(
        [row(issues="A, B", comment="Curt."), row(subject="beta", score=0, rater="Dr. Grace <b>", kind="published")],
        [
            row(**by_text, prompt=second.prompt, context=second.context, score=2),
            row(**by_text, prompt=first.prompt, score=3),
        ],
    )
    assert place_raters(work) == ["raters: 4 ratings by 2 raters are shown beside the judges' verdicts"]
    by_ada = verdicts(work, "Ada")
    assert [(v.test_id, v.subject, v.sample, v.score) for v in by_ada] == [
        (f"{PLAIN}-001", "alpha", 0, 4),
        (first.id, "alpha", 1, 3),
        (second.id, "alpha", 1, 2),
    ]
    assert {(v.kind, v.state, v.reply_key, v.cost_nanousd) for v in by_ada} == {(Rater.PUBLISHED, State.OK, "", None)}
    assert by_ada[0].issues == ("A", "B") and by_ada[0].assessment == "Curt." and by_ada[1].issues is None
    (by_grace,) = verdicts(work, "Dr. Grace <b>")
    assert (by_grace.subject, by_grace.score, by_grace.kind) == ("beta", 0, Rater.PUBLISHED)
    run = open_run(work.run_path)
    assert run.panel == ("strict",) and run.raters == ("strict", "Ada", "Dr. Grace <b>")


def test_rows_of_nothing_in_the_run_are_left_out_and_counted(rate: Rate) -> None:
    answer = rate().run.read(Response, responses_file("alpha", PLAIN))[2]
    work = rate(
        [
            row(),
            row(response_sha256=response_digest(answer.text), sample=1),
            row(response_sha256=response_digest("Another."), rater="Bob"),
            row(test=f"{PLAIN}-099"),
            row(subject="gamma"),
            row(sample=2),
            row(test="elsewhere-1"),
        ]
    )
    (told,) = place_raters(work)
    assert told == (
        "raters: 2 ratings by 1 rater are shown beside the judges' verdicts; left out: 1 of other dimensions, 1 of "
        "other subjects, 1 of other tests, 1 of answers that this run does not have, 1 of other answers to the same "
        "test"
    )


def test_a_rating_under_an_id_of_one_test_with_the_words_of_another_is_left_out(rate: Rate) -> None:
    first, second = rate().run.read(ChosenTest, file_of_tests(PLAIN))[:2]
    work = rate([row(first.id, prompt=first.prompt), row(first.id, prompt=second.prompt, sample=1)])
    (told,) = place_raters(work)
    assert told == "raters: 1 rating by 1 rater is shown beside the judges' verdicts; left out: 1 of other tests"
    respelt = rate([row(first.id, prompt=f"{first.prompt} "), row(first.id, prompt=second.prompt, subject="beta")])
    place_raters(respelt)
    assert [v.test_id for v in verdicts(respelt, "Ada")] == [first.id]


def test_a_published_score_of_what_was_no_answer_is_kept_beside_given_answers_alone(rate: Rate) -> None:
    work = rate([row(response_sha256=response_digest("[RATE LIMIT ERROR]"))])
    file = responses_file("alpha", PLAIN)
    failed = [replace(r, state=State.FAILED, text="") for r in work.run.read(Response, file)]
    work.run.write(Response, file, failed)
    assert "1 of other answers" in place_raters(work)[0]
    given = GivenAnswers(file=Location.of("answers.jsonl"), subjects=("alpha",))
    place_raters(replace(work, sweep=work.sweep.model_copy(update={"responses": given})))
    assert [v.score for v in verdicts(work, "Ada")] == [4]


def test_a_failure_is_a_failed_verdict_and_a_mapped_score_stays_as_it_is(rate: Rate) -> None:
    work = rate([row(score=None, failed="no JSON"), row(subject="beta", score=7.5, scale="1:7")])
    (told,) = place_raters(work)
    assert told == "raters: 2 ratings by 1 rater are shown beside the judges' verdicts, 1 of which failed"
    failed, scored = verdicts(work, "Ada")
    assert (failed.state, failed.score, failed.reason) == (State.FAILED, None, "no JSON")
    assert (scored.state, scored.score, scored.reason) == (State.OK, 7.5, "")


def test_answers_that_come_later_are_joined_then(rate: Rate) -> None:
    work, file = rate([row()]), responses_file("alpha", PLAIN)
    answers = work.run.read(Response, file)
    work.run.folder.delete(file)
    assert "left out: 1 of answers that this run does not have" in place_raters(work)[0]
    work.run.write(Response, file, answers)
    place_raters(work)
    assert len(verdicts(work, "Ada")) == 1


def test_views_follow_their_files_and_no_other_view_changes(rate: Rate) -> None:
    bare = files(rate())
    assert place_raters(rate()) == [] and files(rate()) == bare
    place_raters(rate([row(), row(subject="beta", rater="Bob")]))
    both = files(rate())
    assert both.keys() - bare.keys() == {
        RATERS,
        verdicts_file("Ada", "alpha", PLAIN),
        verdicts_file("Bob", "beta", PLAIN),
    }
    place_raters(rate([row(score=9)]))
    assert [v.score for v in verdicts(rate(), "Ada")] == [9]
    assert open_run(rate().run_path).raters == ("strict", "Ada")
    place_raters(rate())
    after = files(rate())
    after.pop(RATERS)
    assert after == bare


def test_unchanged_views_are_not_written_again(rate: Rate) -> None:
    work = rate([row(), row(subject="beta")])
    place_raters(work)
    stamps = {path: path.stat().st_mtime_ns for path in (work.run_path.path / "verdicts").rglob("*.parquet")}
    place_raters(work)
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}


def test_a_kill_at_any_write_is_mended_by_the_next_start(rate: Rate, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one rater to others, killed before the first, second, ... change of the folder."""
    before, after = [row(), row(subject="beta", rater="Bob")], [row(score=9), row(subject="beta", rater="Eve")]
    place_raters(rate(after))
    wanted = files(rate())
    kills = 0
    for spared in range(100):
        place_raters(rate(before))
        if not killed_after(spared, rate(after), monkeypatch):
            break
        kills += 1
        place_raters(rate(after))
        assert files(rate()) == wanted
        place_raters(rate())
    assert kills == 5


def killed_after(spared: int, work: Work, monkeypatch: pytest.MonkeyPatch) -> bool:
    dying = Dying(work.run.folder, spared)
    with monkeypatch.context() as patch:
        patch.setattr("hab_ray.storage.run.open_folder", lambda _: dying)
        try:
            place_raters(work)
        except Killed:
            return True
    return False


def test_a_view_that_comes_from_elsewhere_is_not_written_over(rate: Rate) -> None:
    work, file = rate([row()]), verdicts_file("Ada", "alpha", PLAIN)
    work.run.write(Verdict, file, [replace(v, judge="Ada") for v in verdicts(work, "strict")])
    before = files(work)
    with pytest.raises(ConfigError, match="does not come from `raters:`; rename the rater"):
        place_raters(work)
    assert files(work) == before and not work.run.read(RaterView, RATERS)


def test_two_ratings_that_turn_out_to_be_of_one_answer(rate: Rate) -> None:
    test = rate().run.read(ChosenTest, file_of_tests(PLAIN))[1]
    by_text = row(test_id=None, prompt=test.prompt)
    place_raters(rate([row(), by_text]))
    assert len(verdicts(rate(), "Ada")) == 1
    with pytest.raises(ConfigError, match=r"raters: Ada has rated alpha on .*-001 twice"):
        place_raters(rate([row(), {**by_text, "score": 5}]))


def test_people_are_pseudonyms_in_the_whole_run_folder_unless_their_names_are_wanted(rate: Rate) -> None:
    rows = [
        row(rater=name, kind="person", subject=of) for of in ("alpha", "beta") for name in ("Zoe", "person-7", "Al")
    ]
    work = rate([*rows, row(rater="rater-2", kind="model"), row()])
    place_raters(work)
    assert set(open_run(work.run_path).raters) == {"strict", "rater-1", "person-7", "rater-3", "rater-2", "Ada"}
    assert {(v.judge, v.subject) for v in verdicts(work, "rater-3")} == {("rater-3", "alpha"), ("rater-3", "beta")}
    written = files(work)
    assert not any(b"Zoe" in data or "zoe" in name for name, data in written.items())
    place_raters(work)
    assert files(work) == written
    place_raters(work, with_names=True)
    assert {"Zoe", "Al", "person-7"} < set(open_run(work.run_path).raters)
    place_raters(work)
    assert files(work) == written
    assert not [path for path in Path(str(work.run_path)).rglob("*") if "zoe" in path.name.lower()]
