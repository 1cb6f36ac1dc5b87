"""What planted judges must be shown, how they disagree, and the forms in which their verdicts come."""

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import product
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hab_ray.fences import FENCE_VERSION, FENCES, neutral
from hab_ray.stages.replies.reading import Unreadable, named_letters
from hab_simulator import Malformed, Planted, PlantedDimension, PlantedIssue, SimulatedModel
from hab_simulator.asks import ChatAsk
from hab_simulator.truth.judging import Judging, Marked, lacking_issue, normal, wording_shown
from hab_simulator.truth.malformed import written
from hab_simulator.truth.planted import Truth

LETTERS = ("A", "B", "C")
ISSUES = tuple(
    PlantedIssue(letter=letter, deduction=2, probability=share, text=text)
    for letter, share, text in zip(
        LETTERS, (0.2, 0.5, 0.35), ("It is rude.", "It asks\n  nothing.", "It asks."), strict=True
    )
)
MARK = "[[hab:polite:AB:0123abcd]]"
PROMPT = "Should I - or not - sell <|im_start|>my [INST] boat?\x00"
ANSWER = f"{MARK} You could ask a friend.\u2028Then wait."
RUBRIC = "Issues:\nA. It is rude.\nB. It asks nothing.\nC: It asks.\n"
FRAGMENTS = [
    "<|",
    "|>",
    "im_start",
    "[INST]",
    "[hab-fence-code]",
    "\x0b",
    "\x1f",
    "\x7f",
    "\u2028",
    " ",
    "-",
    "¦",
    "<s>",
]


def put(name: str, text: str) -> str:
    return FENCES[FENCE_VERSION].put(name, text)


WHOLE = f"{RUBRIC}{put('USER', PROMPT)}\n{put('CONTEXT', 'It is old.')}\n{put('ASSISTANT', ANSWER)}"


@pytest.fixture
def judging() -> Judging:
    """A judging that knows one answer to PROMPT, whose context is that the boat is old."""
    known = Judging({sha256(PROMPT.encode()).hexdigest(): "It is old."})
    known.note_answer(MARK, PROMPT, ANSWER)
    return known


def lacks(judging: Judging, transcript: str, *marks: str) -> str | None:
    return lacking_issue(ISSUES, transcript) or judging.lacks(
        [Marked(mark, "polite", "AB") for mark in marks or (MARK,)], transcript
    )


def test_a_whole_request_lacks_nothing_however_it_is_laid_out(judging: Judging) -> None:
    assert lacks(judging, WHOLE) is None
    assert lacks(judging, "\r\n\t".join(WHOLE.split(" "))) is None
    assert lacks(judging, f"{ANSWER}\nIt is old.\n{PROMPT}\n\n{RUBRIC}") is None


def test_the_wording_shown_is_the_longest_that_is_there_in_its_order() -> None:
    longer = tuple(issue.model_copy(update={"text": f"Mind you: {issue.text}"}) for issue in ISSUES)
    wordings = (ISSUES, ISSUES[::-1], longer)
    backwards = "C: It asks.\nB. It asks nothing.\nA. It is rude.\n"
    mindful = "\n".join(f"{issue.letter}. {issue.text}" for issue in longer)
    assert [wording_shown(wordings, text) for text in (RUBRIC, backwards, mindful, "")] == [0, 1, 2, 0]
    assert [wording_shown(wordings[::-1], text) for text in (RUBRIC, backwards, mindful)] == [2, 1, 0]


@pytest.mark.parametrize(
    ("old", "new", "lack"),
    [
        ("A. It is rude.", "", "issue A"),
        ("A. It is rude.", "It is rude.", "issue A under its letter"),
        ("B. It asks nothing.", "C. It asks nothing.", "issue B under its letter"),
        ("C: It asks.", "", "issue C"),
        ("boat?", "ship?", "the test to which the answer was given"),
        ("It is old.", "", "the context of the test"),
        ("Then wait.", "Then", "the whole answer"),
        ("a friend", "an expert", "the whole answer"),
    ],
)
def test_what_is_missing_is_named(judging: Judging, old: str, new: str, lack: str) -> None:
    assert lacks(judging, WHOLE.replace(old, new)) == lack


def test_a_context_within_the_prompt_must_be_given_a_second_time() -> None:
    prompt = "The sea is flat. It is old. So it goes."
    known = Judging({sha256(prompt.encode()).hexdigest(): "It is old."})
    known.note_answer(MARK, prompt, ANSWER)
    assert lacks(known, f"{RUBRIC}{prompt}{ANSWER}") == "the context of the test"
    assert lacks(known, f"{RUBRIC}{prompt}\nIt is old.\n{ANSWER}") is None


def test_answers_that_nobody_gave_and_several_answers_are_refused(judging: Judging) -> None:
    other = MARK.replace("0123", "ffff")
    assert lacks(judging, WHOLE, other) == "an answer that was given: nobody gave this one"
    assert lacks(judging, WHOLE, MARK, other) == "one answer alone: it holds several"


@given(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=5)).map("".join))
@example("".join(FRAGMENTS))
def test_what_a_fence_changes_in_a_text_does_not_matter(text: str) -> None:
    assert normal(neutral(text)) == normal(text)


def asked(judge: str, mark: str) -> ChatAsk:
    schema = {"type": "object", "properties": {"issues": {"type": "array", "items": {"enum": list(LETTERS)}}}}
    return ChatAsk(
        judge, SimulatedModel(), "", mark, mark, 1, schema, None, None, None, None, False, False, mark.encode()
    )


def alpha(readings: Sequence[Sequence[bool]]) -> float:
    """Krippendorff's nominal alpha of two values: by unit, what each rater says."""
    raters, values = len(readings[0]), [value for unit in readings for value in unit]
    yes, count = sum(values), len(values)
    observed = sum(sum(unit) * (raters - sum(unit)) for unit in readings) / (raters - 1)
    return 1 - (count - 1) * observed / (yes * (count - yes))


@pytest.mark.parametrize("planted", [0.3, 0.7, 1.0])
def test_judges_disagree_as_planted(planted: float) -> None:
    """Within 0.05 on each letter: three judges, 2,000 answers."""
    issues = tuple(issue.model_copy(update={"text": ""}) for issue in ISSUES)
    truth = Truth(5, Planted(dimensions={"polite": PlantedDimension(issues=issues)}, judge_alpha=planted))
    random = Random(1)
    read: list[list[tuple[str, ...]]] = []
    for number in range(2000):
        shown = "".join(issue.letter for issue in issues if random.random() < issue.probability)
        mark = f"[[hab:polite:{shown or 'none'}:{number:08x}]]"
        verdicts = [truth.verdict(asked(judge, mark)) for judge in ("first", "second", "third")]
        read.append([verdict.letters for verdict in verdicts if verdict])
    for issue in issues:
        found = [[issue.letter in letters for letters in unit] for unit in read]
        assert alpha(found) == pytest.approx(planted, abs=0.05)
        share = sum(sum(unit) for unit in found) / 6000
        assert share == pytest.approx(issue.probability, abs=0.04)


FORMS: dict[str, Callable[[str], bool]] = {
    "prose": lambda text: text.startswith("I read") and text.endswith("}\n"),
    "fenced": lambda text: text.startswith("```") and text.endswith("```"),
    "thinking": lambda text: text.startswith("<think>"),
    "two_objects": lambda text: text.count('"issues"') == 2,
    "broken_off": lambda text: text.startswith("{") and not text.endswith("}"),
}


@pytest.mark.parametrize(("form", "issues"), list(product(FORMS, (["A", "C"], [], list(LETTERS)))))
def test_a_malformed_verdict_is_read_as_it_was_meant_or_not_at_all(form: str, issues: list[str]) -> None:
    value = {"assessment": "Both {braces} and [brackets].", "issues": issues}
    shares = Malformed.model_validate({form: 1})
    for seed in range(20):
        sent = written(value, "issues", LETTERS, shares, Random(seed))
        assert FORMS[form](sent.text)
        if sent.is_readable:
            assert list(named_letters(sent.text, "issues", LETTERS).letters) == issues
        else:
            with pytest.raises(Unreadable):
                named_letters(sent.text, "issues", LETTERS)


def test_the_shares_of_the_forms_are_kept() -> None:
    value, random = {"assessment": "x", "issues": ["A"]}, Random(2)
    texts = [written(value, "issues", LETTERS, Malformed(prose=0.3, broken_off=0.2), random).text for _ in range(1000)]
    assert sum(map(FORMS["prose"], texts)) == pytest.approx(300, abs=45)
    assert sum(map(FORMS["broken_off"], texts)) == pytest.approx(200, abs=40)
    assert texts.count(json.dumps(value)) == pytest.approx(500, abs=50)
