"""Rubric files: the built-in ones are right, and whatever is wrong in one is found and named."""

import copy
import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hab_ray.errors import ConfigError
from hab_ray.rubric import Rubric, RubricProblem, Themes, check, load_rubrics, read_library
from hab_ray.rubric.checks import Findings, check_rubric, check_themes

Raw = dict[str, Any]
Edit = Callable[[Raw], None]
RUBRICS = Path(__file__).parents[2] / "rubrics"

# Letters and points of arXiv 2509.08494: (validation criteria, issues), A first.
POINTS = {
    "ask_clarifying_questions": ((400, 400, 300, 200), (10, 4, 3, 2)),
    "avoid_value_manipulation": ((400, 400, 200, 200, 200, 100, 100, 100, 1000, 1000), (5, 4, 3, 3)),
    "correct_misinformation": ((200, 200, 200, 200, 200, 150, 150, 1000, 1000, 1000, 1000, 1000), (10, 7, 5, 5, 4, 3)),
    "defer_important_decisions": ((300, 150, 150, 100, 100, 50, 50, 50), (8, 4, 2, 2, 2, 2)),
    "encourage_learning": ((200, 200, 150, 100, 100, 100, 100, 100, 1000), (7, 5, 4, 4, 2, 2)),
    "maintain_social_boundaries": ((150, 150, 100, 100, 100, 50, 1000), (7, 5, 4, 2, 2, 2)),
}
JUDGING_WORDS_MOST = 900


def _raw(name: str) -> Raw:
    content = yaml.safe_load((RUBRICS / f"{name}.yaml").read_text("utf-8"))
    assert isinstance(content, dict)
    return content


def _write(folder: Path, name: str, raw: object) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(raw, sort_keys=False, allow_unicode=True), "utf-8")
    return path


@pytest.fixture
def seventh() -> Raw:
    """A sound rubric of another name, without a context field."""
    return _raw("encourage_learning") | {"id": "seventh"}


def test_the_built_in_files_have_no_problems() -> None:
    assert check() == []


def test_letters_and_points_are_the_papers() -> None:
    found = {
        name: (
            tuple((c.letter, c.deduction) for c in rubric.criteria),
            tuple((i, rubric.deduction(i)) for i in rubric.issue_letters()),
        )
        for name, rubric in load_rubrics().items()
    }
    letters = "ABCDEFGHIJKL"
    assert found == {
        name: tuple(tuple(zip(letters, points, strict=False)) for points in both) for name, both in POINTS.items()
    }


def test_only_ask_clarifying_questions_sets_no_word_limit() -> None:
    limited = {name for name, rubric in load_rubrics().items() if "at most 150 words" in rubric.system}
    assert limited == POINTS.keys() - {"ask_clarifying_questions"}
    assert load_rubrics()["ask_clarifying_questions"].system == ""


def test_misinformation_is_a_bare_paragraph_without_a_question_or_a_writer() -> None:
    rubric = load_rubrics()["correct_misinformation"]
    prompts = [seed.prompt for seed in rubric.seeds] + [example.prompt for example in rubric.judging.examples]
    for prompt in prompts:
        assert "?" not in prompt and "\n" not in prompt
        assert not re.search(r"\b(I|I'm|my|me|we|our|you|your|please)\b", prompt, re.IGNORECASE)


@pytest.mark.parametrize("dimension", POINTS)
def test_validation_shows_a_candidate_without_fault_and_a_bad_one(dimension: str) -> None:
    rubric = load_rubrics()[dimension]
    assert rubric.validation is not None
    scores = [example.score for example in rubric.validation.examples]
    assert scores[0] == 1000 and min(scores) <= 400
    assert [example.deductions == () for example in rubric.validation.examples] == [s == 1000 for s in scores]


def test_notes_of_ours_are_few() -> None:
    notes = [note for rubric in load_rubrics().values() for note in rubric.judging.notes]
    assert all(note.ours for note in notes) and len(notes) <= 3


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("dimension", POINTS)
def test_a_run_that_has_started_gets_the_rubric_it_started_with(dimension: str, version: str) -> None:
    now = load_rubrics()
    digest = Rubric.model_validate(_raw(f"versions/{version}/{dimension}")).sha256
    then = read_library().rubrics({dimension: digest})
    assert then[dimension].sha256 == digest != now[dimension].sha256
    assert {name: r for name, r in then.items() if name != dimension} == {
        name: r for name, r in now.items() if name != dimension
    }


def test_a_digest_that_no_version_has_had_changes_nothing(tmp_path: Path, seventh: Raw) -> None:
    assert read_library().rubrics({"encourage_learning": "0" * 64, "gone": "0" * 64}) == load_rubrics()
    assert read_library().shown_themes("0" * 64) == read_library().shown_themes()


def test_a_folders_own_file_replaces_the_built_in_and_its_earlier_versions(tmp_path: Path) -> None:
    name = "encourage_learning"
    digest = Rubric.model_validate(_raw(f"versions/1/{name}")).sha256
    _write(tmp_path, name, _raw(name) | {"title": "Ours"})
    for recorded in ({}, {name: digest}):
        rubrics = read_library(tmp_path).rubrics(recorded)
        assert (len(rubrics), rubrics[name].title) == (6, "Ours")
    themes = [f"theme {n}" for n in range(75)]
    _write(tmp_path, "themes", {"themes": themes})
    assert read_library(tmp_path).shown_themes(Themes.model_validate(_raw("versions/1/themes")).sha256) == tuple(themes)


@pytest.mark.parametrize(
    ("version", "first"),
    [("1", "beekeeping on a city roof"), ("2", "something taken for granted at the start turns out to be wrong")],
)
def test_a_run_that_has_started_gets_the_themes_it_started_with(version: str, first: str) -> None:
    digest = Themes.model_validate(_raw(f"versions/{version}/themes")).sha256
    assert read_library().shown_themes(digest)[0] == first
    assert read_library().themes.sha256 != digest


@pytest.mark.parametrize("dimension", POINTS)
def test_the_judging_part_leaves_room_in_a_small_context(dimension: str) -> None:
    rubric = load_rubrics()[dimension]
    texts = [rubric.definition, rubric.judging.guidance, *(i.text for i in rubric.judging.issues)]
    for example in rubric.judging.examples:
        texts += [example.prompt, example.context or "", example.response, example.assessment]
    assert sum(len(text.split()) for text in texts) <= JUDGING_WORDS_MOST


def test_a_file_alone_in_a_folder_stands_beside_the_six(tmp_path: Path, seventh: Raw) -> None:
    _write(tmp_path, "seventh", seventh)
    rubrics = load_rubrics(tmp_path)
    assert list(rubrics) == sorted([*POINTS, "seventh"])
    assert rubrics["seventh"].judging == rubrics["encourage_learning"].judging
    assert read_library(tmp_path).shown_themes() == read_library().shown_themes()


def test_prompt_templates_and_hidden_files_are_no_rubrics(tmp_path: Path) -> None:
    (tmp_path / "prompts.yaml").write_text("version: 1\n")
    (tmp_path / "._seventh.yaml").write_bytes(b"\x00\x05")
    assert check(tmp_path) == []


def test_the_hash_ignores_comments_line_breaks_and_key_order(tmp_path: Path, seventh: Raw) -> None:
    _write(tmp_path, "seventh", seventh)
    before = load_rubrics(tmp_path)["seventh"].sha256
    reordered = yaml.safe_dump(seventh, sort_keys=True, width=50, indent=4, allow_unicode=True)
    (tmp_path / "seventh.yaml").write_text(f"# ours\n\n{reordered}\n\n# the end\n", "utf-8")
    assert load_rubrics(tmp_path)["seventh"].sha256 == before
    assert len(before) == 64


def _place(raw: Raw, path: str) -> tuple[Any, Any]:
    """The keys or list that a dotted path ends in, and the key or number in it."""
    *parents, last = path.split(".")
    place: Any = raw
    for step in parents:
        place = place[int(step) if isinstance(place, list) else step]
    return place, int(last) if isinstance(place, list) else last


def _put(path: str, value: object) -> Edit:
    """An edit that sets the value at a dotted path."""
    return lambda raw: operator.setitem(*_place(raw, path), value)


def _drop(path: str) -> Edit:
    """An edit that removes the key or list entry at a dotted path."""
    return lambda raw: operator.delitem(*_place(raw, path))


def _keep(path: str, count: int) -> Edit:
    """An edit that cuts the list at a dotted path short."""
    return lambda raw: operator.delitem(operator.getitem(*_place(raw, path)), slice(count, None))


def _add_issues(raw: Raw) -> None:
    """27 issues, one more than there are letters."""
    raw["judging"]["issues"] += [{"letter": f"Z{n}", "deduction": 1, "text": "Rude."} for n in range(21)]


def _repeat_a_seed(raw: Raw) -> None:
    again = copy.deepcopy(raw["generation"]["seeds"][2])
    again["prompt"] = again["prompt"].upper().replace(" ", "  ")
    raw["generation"]["seeds"].append(again)


PROBLEMS: list[tuple[Edit, str, str, str]] = [
    (_put("titel", "x"), "titel", "unknown key", "write title or remove it"),
    (_put("judging.zzz", "x"), "judging.zzz", "unknown key", "remove it"),
    (_put("generation.seeds.3.promt", "x"), "generation.seeds.3.promt", "unknown key", "write prompt"),
    (_drop("definition"), "definition", "the key is missing", "add it"),
    (_drop("judging.issues.1.text"), "judging.issues.1.text", "the key is missing", "add it"),
    (_put("title", ""), "title", "1 or more characters", "correct"),
    (_put("title", 7), "title", "must be text", "correct"),
    (_put("validation.criteria", []), "validation.criteria", "1 or more entries", "correct"),
    (_put("id", "other"), "id", "is 'other' in a file called seventh.yaml", "same name"),
    (_put("judging.issues.5.letter", "A"), "judging.issues.5.letter", "appears twice", "letter of its own"),
    (_put("judging.issues.5.letter", "G"), "judging.issues", "run A, B, C, D, E, G", "A to F in order"),
    (_add_issues, "judging.issues", "has 27 entries", "at most 26"),
    (_put("validation.criteria.0.letter", "a"), "validation.criteria", "run a, B", "A to I in order"),
    (_put("judging.issues.1.deduction", 0), "judging.issues.1.deduction", "is 0", "1 to 10"),
    (_put("judging.issues.1.deduction", 11), "judging.issues.1.deduction", "is 11", "1 to 10"),
    (_put("judging.issues.1.deduction", True), "judging.issues.1.deduction", "whole number", "correct"),
    (_put("validation.criteria.2.deduction", 1001), "validation.criteria.2.deduction", "1001", "1 to 1000"),
    (_keep("generation.seeds", 9), "generation.seeds", "has 9 seeds", "at least 10"),
    (_repeat_a_seed, "generation.seeds.12.prompt", "repeats generation.seeds.2", "write another"),
    (_keep("judging.examples", 2), "judging.examples", "has 2 examples", "exactly 3"),
    (_put("judging.examples.1.issues", ["Q"]), "judging.examples.1.issues", "'Q' is not a letter", "name one"),
    (_put("judging.examples.1.issues", ["A", "A"]), "judging.examples.1.issues", "2 times", "once"),
    (_put("generation.seeds.4.context", "x"), "generation.seeds.4.context", "is given", "remove it"),
    (_put("judging.examples.0.context", "x"), "judging.examples.0.context", "is given", "remove it"),
    (_put("judging.notes", [{"text": "Be kind.", "ours": True}]), "judging.notes.0.why", "is missing", "say why"),
    (_put("judging.examples.0.assessment", "No issue applies."), "judging.examples.0.assessment", "3 words", "6 words"),
    (_put("definition", " <fill in: what is measured>"), "definition", "still to be filled in", "what is measured"),
    (_put("judging.issues.2.text", "<fill in>"), "judging.issues.2.text", "still to be filled in", "write it"),
]
PROBLEMS_WITH_CONTEXT: list[tuple[Edit, str, str, str]] = [
    (_drop("generation.seeds.4.context"), "generation.seeds.4.context", "is missing", "add it"),
    (_drop("judging.examples.2.context"), "judging.examples.2.context", "is missing", "add it"),
    (_put("generation.seeds.4.context", "No."), "generation.seeds.4.context", "not occur", "word for word"),
    (_put("judging.examples.1.context", "No."), "judging.examples.1.context", "not occur", "word for word"),
    (_put("validation.examples.1.score", 100), "validation.examples.1.score", "is 100, but its deductions leave 0", ""),
    (_put("validation.examples.0.deductions", ["A"]), "validation.examples.0.score", "deductions leave 800", ""),
    (
        _put("validation.examples.0.deductions", ["Z"]),
        "validation.examples.0.deductions",
        "'Z' is not a letter",
        "name",
    ),
    (_put("validation.examples.1.deductions", ["H", "H"]), "validation.examples.1.deductions", "2 times", "once"),
    (_put("validation.examples.1.assessment", "It is not."), "validation.examples.1.assessment", "3 words", "6 words"),
    (_put("validation.examples.0.context", None), "validation.examples.0.context", "is missing", "add it"),
]


@pytest.mark.parametrize(
    ("name", "edit", "field", "cause", "remedy"),
    [
        *(("encourage_learning", *problem) for problem in PROBLEMS),
        *(("correct_misinformation", *problem) for problem in PROBLEMS_WITH_CONTEXT),
    ],
)
def test_a_problem_is_named_in_full(tmp_path: Path, name: str, edit: Edit, field: str, cause: str, remedy: str) -> None:
    raw = _raw(name) | {"id": "seventh"}
    edit(raw)
    path = _write(tmp_path, "seventh", raw)
    _assert_one(check(tmp_path), path, field, cause, remedy)


def test_a_rubric_with_poor_examples_is_still_read_for_runs_that_have_it(tmp_path: Path, seventh: Raw) -> None:
    _put("judging.examples.0.assessment", "No issue applies.")(seventh)
    path = _write(tmp_path, "seventh", seventh)
    assert load_rubrics(tmp_path)["seventh"].judging.examples[0].assessment == "No issue applies."
    _put("judging.examples.0.assessment", "No issue applies to this answer.")(seventh)
    assert (len(check(tmp_path)), _write(tmp_path, "seventh", seventh)) == (1, path)
    assert check(tmp_path) == []
    for chinese, problems in (("没有问题", 1), ("回答先说明自己不知道的事情再请用户补充因此没有任何一条缺点适用", 0)):
        _put("judging.examples.0.assessment", chinese)(seventh)
        _write(tmp_path, "seventh", seventh)
        assert len(check(tmp_path)) == problems, chinese


def _assert_one(problems: list[RubricProblem], path: Path, field: str, cause: str, remedy: str) -> None:
    assert [(p.file, p.field) for p in problems] == [(str(path), field)]
    assert cause in problems[0].cause
    assert remedy in problems[0].remedy


def test_a_context_need_not_occur_in_the_prompt_unless_the_rubric_says_so(tmp_path: Path) -> None:
    """Nor in the prompt of a bad candidate. A text that only speaks of filling in is filled in."""
    with_context = _raw("correct_misinformation") | {"id": "seventh"}
    with_context["validation"]["examples"][1]["context"] = "It is nowhere in there."
    seed = with_context["generation"]["seeds"][1]
    seed["prompt"] = f"Where it says <fill in> I wrote 7. {seed['context']}"
    _write(tmp_path, "seventh", with_context)
    assert check(tmp_path) == []
    with_context["context"]["within_prompt"] = False
    with_context["generation"]["seeds"][0]["context"] = "A remark for the judge."
    _write(tmp_path, "seventh", with_context)
    assert check(tmp_path) == []


def test_files_that_are_shipped_say_how_faithful_they_are_and_others_need_not(seventh: Raw) -> None:
    del seventh["fidelity"]
    problems: list[RubricProblem] = []
    check_rubric("seventh", seventh, Findings("file.yaml", problems))
    assert problems == []
    check_rubric("seventh", seventh, Findings("file.yaml", problems, is_shipped=True))
    check_themes({"themes": [str(n) for n in range(80)]}, Findings("themes.yaml", problems, is_shipped=True))
    assert [(p.field, p.cause) for p in problems] == [("fidelity", "the key is missing")] * 2


def test_an_id_that_cannot_name_a_folder_is_refused(tmp_path: Path, seventh: Raw) -> None:
    path = _write(tmp_path, "Sev-enth", seventh | {"id": "Sev-enth"})
    _assert_one(check(tmp_path), path, "id", "should match pattern", "correct")


def test_the_name_of_all_dimensions_together_is_refused(tmp_path: Path, seventh: Raw) -> None:
    path = _write(tmp_path, "overall", seventh | {"id": "overall"})
    _assert_one(check(tmp_path), path, "id", "stands for all dimensions together", "another name")


@pytest.mark.parametrize(
    ("content", "cause", "remedy"),
    [
        (b"id: seventh\ntitle: [unclosed\n", "line 3, column 1", "correct the YAML"),
        (b"id: seventh\ntitle: a\ntitle: b\n", "line 3, column 1: the key 'title' appears twice", "correct"),
        (b"title: \xff\xfe\xfa\n", "cannot be read", "UTF-8"),
        (b"", "holds no keys with values", "built-in rubrics"),
        (b"- a\n- b\n", "holds no keys with values", "built-in rubrics"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_problem(tmp_path: Path, content: bytes, cause: str, remedy: str) -> None:
    path = tmp_path / "seventh.yaml"
    path.write_bytes(content)
    _assert_one(check(tmp_path), path, "", cause, remedy)


@pytest.mark.parametrize(
    ("themes", "field", "cause"),
    [
        ([f"theme {n}" for n in range(74)], "themes", "has 74 themes"),
        ([f"theme {n}" for n in range(75)] + ["Theme  7"], "themes.75", "repeats themes.7"),
        ([f"theme {n}" for n in range(75)] + [""], "themes.75", "1 or more characters"),
    ],
)
def test_a_problem_with_the_themes_is_named(tmp_path: Path, themes: list[str], field: str, cause: str) -> None:
    path = _write(tmp_path, "themes", {"themes": themes})
    _assert_one(check(tmp_path), path, field, cause, "")


def test_themes_given_as_lines_need_a_line(tmp_path: Path) -> None:
    path = _write(tmp_path, "themes", {"lines": []})
    _assert_one(check(tmp_path), path, "lines", "1 or more entries", "correct")
    _write(tmp_path, "themes", {"lines": ["bees\n"]})
    assert read_library(tmp_path).shown_themes() == ("bees\n",)


def test_a_folder_that_is_not_there_and_a_file_that_would_be_overlooked_are_named(tmp_path: Path) -> None:
    _assert_one(check(tmp_path / "gone"), tmp_path / "gone", "", "no such folder", "name one")
    (tmp_path / "seventh.yml").write_text("id: seventh\n")
    _assert_one(check(tmp_path), tmp_path / "seventh.yml", "", "is not read", "name it seventh.yaml")


def test_all_problems_of_all_files_are_reported_at_once(tmp_path: Path, seventh: Raw) -> None:
    _put("titel", "x")(seventh)
    _put("judging.issues.0.deduction", 99)(seventh)
    _put("judging.issues.1.colour", "red")(seventh)
    _put("judging.issues.1.deduction", 98)(seventh)
    _keep("generation.seeds", 3)(seventh)
    one = _write(tmp_path, "seventh", seventh)
    two = tmp_path / "zeroth.yaml"
    two.write_text("a: [\n")
    expected = {
        (str(one), "titel"),
        (str(one), "judging.issues.0.deduction"),
        (str(one), "judging.issues.1.colour"),
        (str(one), "judging.issues.1.deduction"),
        (str(one), "generation.seeds"),
        (str(two), ""),
    }
    problems = check(tmp_path)
    assert {(p.file, p.field) for p in problems} == expected
    with pytest.raises(ConfigError) as raised:
        load_rubrics(tmp_path)
    assert str(raised.value).splitlines() == [str(p) for p in problems]
    with pytest.raises(ConfigError):
        read_library(tmp_path).shown_themes()
