"""What is read out of a model's text, rule by rule and beside an independent scorer of the rules, and what never is."""

import time
from collections import Counter

import pytest

from benchmarks.verdicts import differences, readers
from benchmarks.verdicts import reply as fuzzed_reply
from hab_ray.stages.replies.reading import Unreadable, listed_objects, named_letters

LETTERS = ("A", "B", "C", "D")
B = '{"issues": ["B"]}'
NONE = '{"issues": []}'


def letters(text: str) -> tuple[str, ...]:
    return named_letters(text, "issues", LETTERS).letters


@pytest.mark.parametrize(
    "text",
    [
        B,
        f"```json\n{B}\n```",
        f"```\n{B}\n```",
        f"**Verdict:** {B}",
        f"Here is my verdict.\n{B}",
        f"The set {{A, B}} in `int f() {{ return 1; }}` is odd: {B}",
        f"\ufeff \u2028{B}",
        '{ "issues" :\n[ "B" ] }',
        '{"\\u0069ssues": ["\\u0042"]}',
        f"It returns {{}}. {B}",
        f'{{"total": 3}} {B}',
        f"It names [1, 2] and [A] and [[]]: {B}",
        f"As [said above]. {B}",
        f'{{"issue": ["B"]}} {{"Issues": ["B", "B"]}} {B}',
        '{"ISSUES": ["B"]}',
        '{"\uff49ss\u200bues": ["B"]}',
        f"<tool_call>{B}</tool_call>",
        f"<verdict>{B}</verdict>",
        f"Das Urteil: {B} \u200b\n</verdict> ``` </answer>",
        f"\x00{B}\x00",
        f"\ud800{B}",
        '{"issues": ["B"], "note": [{"issues": ["B"]}]}',
        '[[{"issues": ["B"]}], {"x": {"issues": ["B"]}}] ' + B,
        '{"assessment": "<think>It says {\\"issues\\": []}, which is a trick.", "issues": ["B"]}',
    ],
)
def test_what_is_around_the_one_verdict_is_passed_over(text: str) -> None:
    assert letters(text) == ("B",)


TAGS = ["think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "analysis"]
PAIRS = [(f"<{tag}>", f"</{tag}>") for tag in TAGS] + [
    ("<THINK>", "</Think>"),
    ('<think depth="2">', "</think >"),
    ("< Analysis\n>", "< / analysis >"),
    ("[THINK]", "[/THINK]"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
]


@pytest.mark.parametrize(("opens", "closes"), PAIRS)
@pytest.mark.parametrize("draft", [NONE, "{hm", '{"issues": [', "[", f"[{NONE}]", "<x>", '"'])
def test_reasoning_is_cut_off_whatever_it_holds(opens: str, closes: str, draft: str) -> None:
    assert letters(f"{opens}{draft}{closes}{B}") == ("B",)
    assert letters(f"Well.\n{opens}{draft}{closes}\n{opens}x{closes}{B}") == ("B",)
    for behind in (f"{B}{opens}{draft}{closes}", f"{B}\n{opens}{draft}"):
        with pytest.raises(Unreadable, match="stands behind"):
            letters(behind)
    with pytest.raises(Unreadable, match="holds no JSON object"):
        letters(f"{opens}{draft}{B}")


@pytest.mark.parametrize(("opens", "closes"), PAIRS)
def test_a_tag_that_is_only_mentioned_cuts_nothing_off(opens: str, closes: str) -> None:
    assert letters(f"I need no {opens} here. {B}") == ("B",)
    assert letters(f"As it says {opens}, I differ. {B}") == ("B",)


def test_only_a_tag_that_opens_reasoning_cuts() -> None:
    assert letters(f"{B}</think>") == letters(f"</think>{B}") == ("B",)
    assert letters(f"<thinker>{B}") == letters(f"<thinking-aloud>{B}") == ("B",)
    with pytest.raises(Unreadable, match="differ"):
        letters(f"{NONE}</think>{B}")
    with pytest.raises(Unreadable, match="holds no JSON object"):
        letters(f"<think>hm</thinking>{B}")


def test_reasoning_whose_opening_is_in_the_request_may_say_anything_but_another_verdict() -> None:
    for end in ("\n</think>\n", "<|END_THINKING|>", "[/THINK]", "\u25c1/think\u25b7", "<|channel|>final<|message|>"):
        assert letters(f"Issues: A? {{no. C applies?{end}{B}") == letters(f"{B}{end}{B}") == ("B",)
        with pytest.raises(Unreadable, match="differ"):
            letters(f"{NONE}{end}{B}")


def test_a_letter_named_twice_counts_once_and_letters_come_in_the_rubrics_order() -> None:
    assert letters('{"issues": ["A","A"]}') == ("A",)
    assert letters('{"issues": ["C","A","C"]}') == ("A", "C")


def test_verdicts_that_agree_are_one_and_the_last_ones_words_are_kept() -> None:
    draft, final = '{"issues": ["A","B"]}', '{"assessment": "So.", "issues": ["B","A","A"]}'
    assert named_letters(f"{draft} or rather:\n{final}", "issues", LETTERS).assessment == "So."
    assert named_letters(f"{final}{draft}", "issues", LETTERS).assessment == ""
    assert letters(f"{final}{draft}") == ("A", "B")


def test_no_issues_are_a_verdict_too() -> None:
    named = named_letters('{"assessment": "Fine.", "issues": []}', "issues", LETTERS)
    assert (named.letters, named.assessment) == ((), "Fine.")


def test_thoughts_on_letters_become_an_assessment_and_name_nothing() -> None:
    text = '{"assessment": {"A": "It says \\"issues\\": [\\"A\\"].", "B": "", "": "all"}, "issues": ["C"]}'
    named = named_letters(text, "issues", LETTERS)
    assert (named.letters, named.assessment) == (("C",), 'A: It says "issues": ["A"].\nB: \nall')
    assert named_letters('{"assessment": {}, "issues": []}', "issues", LETTERS).assessment == ""


ABSENT, DIFFER, BROKEN, CUT, LISTED = "holds no JSON", "differ", "not valid", "not complete", "list of verdicts"
BEHIND, QUOTED = "stands behind", "as a quotation"
UNREADABLE = [
    ('{"issues": ["a"]}', "other than the letters A, B, C, D"),
    ('{"issues": ["A "]}', "other than"),
    ('{"issues": ["\u0391"]}', "other than"),  # a Greek Alpha
    ('{"issues": [["A"]]}', "other than"),
    ('{"issues": [1]}', "other than"),
    ('{"issues": "AB"}', "not a list"),
    ('{"issues": null}', "not a list"),
    ('{"issues": [], "assessment": 7}', "assessment"),
    ('{"issues": [], "assessment": {"A": "so", "B": 7}}', "assessment"),
    ('{"issues": [], "assessment": {"A": {"letters": ["B"]}}}', "assessment"),
    ('{"issues": [], "assessment": {"A": {"issues": ["B"]}}}', DIFFER),
    ('{"issues": ["B"], "note": [{"issues": ["A"]}]}', DIFFER),
    ('{"issues": [], "Issues": []}', BROKEN),
    ('{"issues": [], "iss\u200bues": []}', BROKEN),
    ('{"issues": [], "\u0456ssues": []}', BROKEN),
    ('{"issues": [], "assessment": "x", "Assessment": "y"}', BROKEN),
    ('{"\u0456ssues": []}', ABSENT),
    (f"{B} So it is.", BEHIND),
    (f"{B}{{", CUT),
    (f"{B} [1]", BEHIND),
    (f"| {B} |", BEHIND),
    (f"{B}<verdict>", BEHIND),
    (f"it says {B}", QUOTED),
    (f"it says, {B}", QUOTED),
    (f'"{B}', QUOTED),
    (f"> {B}", QUOTED),
    (f"Example 2:\n{B}", QUOTED),
    (f"Issues: A\n{B}", DIFFER),
    (f"[[{NONE}], {{}}] {B}", DIFFER),
    (f"[{B}", QUOTED),
    (f'{B} {{"issues": null}}', "not a list"),
    ("{}", ABSENT),
    ('{"verdict": {"issues": ["A"]}}', ABSENT),
    ('"AB"', ABSENT),
    ('["A"]', ABSENT),
    ("The answer is faultless, no issues.", ABSENT),
    ("", ABSENT),
    ("{'issues': ['A']}", BROKEN),
    (f"{NONE} {B}", DIFFER),
    (f"{B}{NONE}{B}", DIFFER),
    ('{"issues": ["A"], "issues": []}', BROKEN),
    ('{"issues": [], "x": {"y": 1, "y": 2}}', BROKEN),
    ('{"issues": [], "share": NaN}', BROKEN),
    ('{"issues": [], "share": 01}', BROKEN),
    ('{"issues": ["A",]}', BROKEN),
    ('{"issues": ["A"] // sic\n}', BROKEN),
    ('{"issues": [], "x": "a\nb"}', BROKEN),
    ('{"issues": [], "n": ' + "1" * 5000 + "}", BROKEN),
    (f'{{draft: {NONE}, "final": 1}}', BROKEN),
    (f"The set {{A, B: {B}", CUT),
    (f"{{{B}}}", BROKEN),
    (f'{{"x": "}}" y {NONE}}}', BROKEN),
    ('{"issues": ["A"', CUT),
    ('{"issues": [], "assessment": "an unended', CUT),
    (f'{B} {{"issues": [', CUT),
    (f'{B} {{"issues"', CUT),
    (f"[{B}]", LISTED),
    (f"[{B}, {B}]", LISTED),
    (f"Verdicts: [1, {B}]", LISTED),
    (f"[{B}, {B}", QUOTED),
    ('{"issues": ' + "[" * 100_000 + "]" * 100_000 + "}", BROKEN),
    ('{"a":' * 100_000 + "1" + "}" * 100_000, ABSENT),
]


@pytest.mark.parametrize(("text", "why"), UNREADABLE)
def test_what_is_unreadable_says_why(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        letters(text)


@pytest.mark.parametrize("rest", ["", ', "b": tru', ', "b": 1.', ', "b": "\\u00', ', "b', ', "b": -', ",", " oops}"])
def test_a_complete_object_inside_a_cut_or_broken_one_does_not_count(rest: str) -> None:
    with pytest.raises(Unreadable, match=f"{BROKEN}|{CUT}"):
        letters('{"draft": {"issues": ["A"]}' + rest)


def test_an_object_cut_at_any_place_is_unreadable() -> None:
    whole = '{"assessment": "It says \\"no\\" {twice}.", "draft": {"letters": ["B"]}, "n": -1.5e3, "issues": ["A"]}'
    assert letters(whole) == ("A",)
    for end in range(len(whole)):
        with pytest.raises(Unreadable):
            letters(whole[:end])


MANY = 250_000
HUGE = ["{", "[", '{"', '{"a":', "[{", "{x", "{}", '{"a":"{', '"issues":', '{"\\u0069ssues":']
HUGE += ["<think>", "<think ", "< ", "\x00", "\ud800", "</think>", "\\", '"', "{x}", "{\"'", "<think><thought>", "[1,"]
HUGE += ["{ \n", '{"n":1', f"{NONE}{B}", '{"assessment": "x']


@pytest.mark.parametrize("unit", HUGE)
@pytest.mark.parametrize("end", ["", B])
def test_a_long_text_of_anything_is_read_at_once(unit: str, end: str) -> None:
    begun = time.process_time()
    try:
        assert letters(unit * (MANY // len(unit)) + end) == ("B",)
    except Unreadable as problem:
        assert len(str(problem)) < 100
    assert time.process_time() - begun < 1, "its square would take hours"


def test_a_list_as_deep_as_any_stack_is_unreadable_and_no_error() -> None:
    for depth in range(480, 1100, 3):
        with pytest.raises(Unreadable):
            letters('{"issues": [' + "[" * depth + "]" * depth + "]}")


def test_words_can_be_stored_whatever_they_escape() -> None:
    named = named_letters('{"assessment": "cut \\ud83d off", "issues": []}', "issues", LETTERS)
    assert named.assessment == "cut \ufffd off"


def test_the_members_of_a_list_come_as_they_are() -> None:
    assert listed_objects('{"queries": [{"prompt": "x"}, 3, null]}', "queries") == [{"prompt": "x"}, 3, None]
    for text in ('{"queries": {"prompt": "x"}}', '{"other": []}', "none"):
        with pytest.raises(Unreadable):
            listed_objects(text, "queries")


def test_queries_are_written_once() -> None:
    once = '{"queries": [{"prompt": "x", "context": "y"}]}'
    for before in ("<think>{</think>", "Here are the queries:\n", "**Queries:**\n", "These are three "):
        assert listed_objects(f"{before}\n{once}", "queries") == [{"prompt": "x", "context": "y"}]
    for before in ('{"queries": []}', "queries: none\n", once):
        with pytest.raises(Unreadable, match="differ"):
            listed_objects(f"{before} {once}", "queries")
    with pytest.raises(Unreadable, match="list"):
        listed_objects(f"[{once}]", "queries")


def test_no_message_quotes_the_reply() -> None:
    for text, _ in UNREADABLE:
        with pytest.raises(Unreadable) as problem:
            letters(text.replace("A", "EVIL").replace("draft", "EVIL").replace("}", ', "EVIL": EVIL }'))
        assert "EVIL" not in str(problem.value)


SAMPLE = 1200


def test_a_truncated_reply_is_unreadable_whatever_it_holds() -> None:
    for reader in readers():
        whole = f'{{"{reader.key}": []}}' if reader.key != "queries" else '{"queries": [{"prompt": "What?"}]}'
        assert reader.read(fuzzed_reply(whole, truncated=False)) is not None
        assert reader.read(fuzzed_reply(whole, truncated=True)) is None


def test_fuzzed_replies_are_read_as_an_independent_scorer_reads_them() -> None:
    told: Counter[str] = Counter()
    found = list(differences(SAMPLE, 0, told))
    assert not found, f"{len(found)} of {SAMPLE}, first: {found[0]}"
    assert all(told[f"{reader.key} readable"] > SAMPLE / 50 for reader in readers())
