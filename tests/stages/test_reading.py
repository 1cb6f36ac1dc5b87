"""What is read out of a model's text, and what never is."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from hab_ray.rubric import Rubric
from hab_ray.stages.judge import score
from hab_ray.stages.reading import Unreadable, first_object, listed_objects, named_letters

LETTERS = ("A", "B", "C", "D")


@pytest.mark.parametrize(
    "text",
    [
        '{"issues": ["B"]}',
        '```json\n{"issues": ["B"]}\n```',
        '```\n{"issues": ["B"]}\n```',
        'Here is my verdict.\n{"issues": ["B"]}\nI hope it helps {with braces}.',
        'The set {A, B} in `int main() {` is odd: {"issues": ["B"]}',
        '{"issues": ["B"]} {"issues": ["A"]}',
        '{"issues": ["B"]}{"issues": [',
        '\ufeff \u2028{"issues": ["B"]}',
        '{ "issues" :\n[ "B" ] }',
        '{"\\u0069ssues": ["\\u0042"]}',
    ],
)
def test_wrapping_is_passed_over_and_the_first_complete_object_counts(text: str) -> None:
    assert named_letters(text, "issues", LETTERS).letters == ("B",)


def test_a_letter_named_twice_counts_once_and_letters_come_in_the_rubrics_order() -> None:
    assert named_letters('{"issues": ["A","A"]}', "issues", LETTERS).letters == ("A",)
    assert named_letters('{"issues": ["C","A","C"]}', "issues", LETTERS).letters == ("A", "C")


def test_no_issues_are_a_verdict_too() -> None:
    named = named_letters('{"assessment": "Fine.", "issues": []}', "issues", LETTERS)
    assert (named.letters, named.assessment) == ((), "Fine.")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"issues": ["a"]}', '"a"'),
        ('{"issues": ["B. foo"]}', '"B. foo"'),
        ('{"issues": ["A "]}', '"A "'),
        ('{"issues": ["\u0391"]}', "u0391"),  # a Greek Alpha
        ('{"issues": ["E"]}', '"E"'),
        ('{"issues": ["AB"]}', '"AB"'),
        ('{"issues": [""]}', '""'),
        ('{"issues": [["A"]]}', "type list"),
        ('{"issues": [{"letter": "A"}]}', "type dict"),
        ('{"issues": [null]}', "type NoneType"),
        ('{"issues": [1]}', "type int"),
        ('{"issues": "AB"}', "not a list"),
        ('{"issues": "A"}', "not a list"),
        ('{"issues": {"A": true}}', "not a list"),
        ('{"issues": null}', "not a list"),
        ("{}", "no 'issues'"),
        ('{"Issues": ["A"]}', "no 'issues'"),
        ('{"verdict": {"issues": ["A"]}}', "no 'issues'"),
        ('"AB"', "no complete JSON object"),
        ('["A"]', "no complete JSON object"),
        ("The answer is faultless, no issues.", "no complete JSON object"),
        ("", "no complete JSON object"),
        ("{'issues': ['A']}", "no complete JSON object"),
        ('{"issues": ["A"], "issues": []}', "twice"),
        ('{"issues": [], "x": {"y": 1, "y": 2}}', "twice"),
        ('{"issues": [], "share": NaN}', "NaN"),
        ('{"issues": [], "share": -Infinity}', "Infinity"),
        ('{"issues": [], "assessment": 7}', "assessment"),
        ('{"issues": ["A",]}', "broken or cut"),
        ('{"issues": ["A"', "broken or cut"),
        ('{"issues": [], "assessment": "an unended', "broken or cut"),
        ('I would say {"', "broken or cut"),
        ("I would say {", "broken or cut"),
        ('{"issues": [], "n": ' + "1" * 5000 + "}", "broken or cut"),
        ('{"issues": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_unreadable_says_why(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        named_letters(text, "issues", LETTERS)


@pytest.mark.parametrize("rest", ["", ', "b": tru', ', "b": 1.', ', "b": "\\u00', ', "b', ', "b": -', ",", " oops}"])
def test_a_complete_object_inside_a_cut_or_broken_one_does_not_count(rest: str) -> None:
    inner = '{"issues": ["A"]}'
    assert first_object(inner) == {"issues": ["A"]}
    with pytest.raises(Unreadable, match="broken or cut"):
        first_object('{"draft": ' + inner + rest)


def test_an_object_cut_at_any_place_is_unreadable() -> None:
    whole = '{"assessment": "It says \\"no\\" {twice}.", "draft": {"issues": ["B"]}, "n": -1.5e3, "issues": ["A"]}'
    assert named_letters(whole, "issues", LETTERS).letters == ("A",)
    for end in range(len(whole)):
        with pytest.raises(Unreadable):
            first_object(whole[:end])


def test_a_reply_of_braces_alone_is_read_in_no_time() -> None:
    with pytest.raises(Unreadable):
        first_object("{" * 200_000)


def test_a_list_inside_a_list_as_deep_as_json_can_be_read_is_unreadable_and_no_error() -> None:
    for depth in range(850, 1000, 3):
        with pytest.raises(Unreadable):
            named_letters('{"issues": [' + "[" * depth + "]" * depth + "]}", "issues", LETTERS)


def test_words_can_be_stored_whatever_they_escape() -> None:
    named = named_letters('{"assessment": "cut \\ud83d off", "issues": []}', "issues", LETTERS)
    assert named.assessment == "cut \ufffd off"


def test_the_members_of_a_list_come_as_they_are() -> None:
    assert listed_objects('{"queries": [{"prompt": "x"}, 3, null]}', "queries") == [{"prompt": "x"}, 3, None]
    for text in ('{"queries": {"prompt": "x"}}', '{"other": []}', "none"):
        with pytest.raises(Unreadable):
            listed_objects(text, "queries")


class StrictReader:
    """An independent reader, by hand and without the json module: one pass over the text, one character at a time.

    It gives the set of letters of the first object in a text, or None. It is stricter than JSON in nothing and
    more tolerant than it in nothing; what begins with a brace and a quotation mark must be an object.
    """

    SPACE = " \t\n\r"

    def __init__(self, text: str, letters: tuple[str, ...]) -> None:
        self.text, self.letters, self.at = text, letters, 0

    def verdict(self) -> frozenset[str] | None:
        while self.at < len(self.text):
            if self.text[self.at] == "{":
                follows = self.text[self.at + 1 :].lstrip()[:1]
                if follows in ('"', "}"):
                    try:
                        return self.letters_of(self.value())
                    except (ValueError, IndexError):
                        return None
                if not follows:
                    return None
            self.at += 1
        return None

    def letters_of(self, found: Any) -> frozenset[str] | None:
        named = found.get("issues")
        if not isinstance(named, list) or not isinstance(found.get("assessment", ""), str):
            return None
        if any(type(letter) is not str or letter not in self.letters for letter in named):
            return None
        return frozenset(named)

    def skip(self) -> str:
        while self.text[self.at] in self.SPACE:
            self.at += 1
        return self.text[self.at]

    def expect(self, mark: str) -> None:
        if self.skip() != mark:
            raise ValueError(mark)
        self.at += 1

    def value(self) -> Any:
        head = self.skip()
        if head == "{":
            return self.object()
        if head == "[":
            return self.array()
        if head == '"':
            return self.string()
        for word, meant in (("true", True), ("false", False), ("null", None)):
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return meant
        return self.number()

    def object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.expect("{")
        if self.skip() == "}":
            self.at += 1
            return found
        while True:
            self.skip()
            key = self.string()
            if key in found:
                raise ValueError("doubled")
            self.expect(":")
            found[key] = self.value()
            if self.skip() == "}":
                self.at += 1
                return found
            self.expect(",")

    def array(self) -> list[Any]:
        found: list[Any] = []
        self.expect("[")
        if self.skip() == "]":
            self.at += 1
            return found
        while True:
            found.append(self.value())
            if self.skip() == "]":
                self.at += 1
                return found
            self.expect(",")

    def string(self) -> str:
        self.expect('"')
        out = ""
        while (char := self.text[self.at]) != '"':
            if char < " ":
                raise ValueError("control character")
            self.at += 1
            if char == "\\":
                out += self.escaped()
            else:
                out += char
        self.at += 1
        return out

    def escaped(self) -> str:
        char = self.text[self.at]
        self.at += 1
        if char == "u":
            digits = self.text[self.at : self.at + 4]
            if len(digits) < 4 or any(d not in "0123456789abcdefABCDEF" for d in digits):
                raise ValueError("escape")
            self.at += 4
            return chr(int(digits, 16))
        return {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}.get(
            char
        ) or self.no()

    def no(self) -> str:
        raise ValueError("escape")

    def number(self) -> float:
        start = self.at
        while self.text[self.at] in "+-.eE0123456789":
            self.at += 1
        digits = self.text[start : self.at]
        whole = digits.removeprefix("-")
        if not whole or not whole[0].isdigit() or (whole[0] == "0" and whole[1:2].isdigit()) or "." in (whole[-1],):
            raise ValueError("number")
        if "." in whole and not whole.partition(".")[2][0].isdigit():
            raise ValueError("number")
        return float(digits)


def fuzzed(rng: random.Random, letters: tuple[str, ...]) -> str:
    """A reply that is a verdict, was one, or never was."""
    named = rng.choices(letters, k=rng.randint(0, 4))
    words = rng.choice(["Fine.", 'He said "no".', "Uses {braces} and [brackets].", "", "Zeile\n\u2028zwei"])
    verdict: dict[str, Any] = {"assessment": words, "issues": named}
    text = json.dumps(verdict, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 2]))
    return rng.choice(MUTATIONS)(rng, text, named)


def _as_it_is(rng: random.Random, text: str, named: list[str]) -> str:
    return rng.choice(["", "```json\n", "Verdict {1}: ", "<think>{hm</think>"]) + text + rng.choice(["", "\n```", " }"])


def _changed_characters(rng: random.Random, text: str, named: list[str]) -> str:
    chars = list(text)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(chars))
        chars[at : at + rng.randint(0, 2)] = rng.choice(
            ['"', "{", "}", "[", "]", ",", ":", "\\", " ", "", "x", "\u0410"]
        )
    return "".join(chars) or "{"


def _cut(rng: random.Random, text: str, named: list[str]) -> str:
    return text[: rng.randrange(len(text))]


def _cut_around_another(rng: random.Random, text: str, named: list[str]) -> str:
    return '{"draft": ' + text + rng.choice(["", ', "final": {"issues": [', ", ", ', "x": tru', "}", " x}"])


def _other_case(rng: random.Random, text: str, named: list[str]) -> str:
    return rng.choice([text.lower(), text.upper(), text.replace("issues", "Issues"), text.swapcase()])


def _look_alikes(rng: random.Random, text: str, named: list[str]) -> str:
    marks = {"A": "\u0410", "B": "\u0412", "C": "\u0421", '"': "\u201d", "{": "\uff5b", "[": "\uff3b", ",": "\uff0c"}
    old = rng.choice(list(marks))
    return text.replace(old, marks[old], rng.randint(1, 3))


def _other_members(rng: random.Random, text: str, named: list[str]) -> str:
    odd: list[Any] = [
        " A",
        "A.",
        "a",
        "",
        "A, B",
        "AB",
        1,
        0.5,
        True,
        None,
        ["A"],
        [["B"]],
        {"letter": "A"},
        "\uff21",
        "Z",
    ]
    members: list[Any] = [*named, *rng.choices(odd, k=rng.randint(0, 2))]
    rng.shuffle(members)
    return json.dumps({"issues": members, "assessment": rng.choice(["ok", "ok", 3, None, ["x"]])})


def _other_shapes(rng: random.Random, text: str, named: list[str]) -> str:
    shapes: list[Any] = [
        {"issues": "".join(named)},
        {"issues": {letter: True for letter in named}},
        {"verdict": {"issues": named}},
        {"issues": None},
        {"deductions": named},
        {},
        named,
        "".join(named),
        5,
        {"issues": named, "extra": {"deep": [[[1.5, -2e3]]]}},
    ]
    return json.dumps(rng.choice(shapes))


def _several(rng: random.Random, text: str, named: list[str]) -> str:
    return rng.choice(["", " and ", "\n", "{}"]).join(rng.choice([text, '{"issues": []}', "{x}"]) for _ in range(3))


def _doubled_keys(rng: random.Random, text: str, named: list[str]) -> str:
    return '{"issues": ["A"], ' + text.lstrip("{ \n") if rng.random() < 0.5 else '{"note": 1, ' + text.lstrip("{ \n")


def _random_json(rng: random.Random, text: str, named: list[str]) -> str:
    def value(depth: int) -> Any:
        kind = rng.randrange(8 if depth else 6)
        if kind == 6:
            return [value(depth - 1) for _ in range(rng.randint(0, 3))]
        if kind == 7:
            return {rng.choice(["issues", "assessment", "x", ""]): value(depth - 1) for _ in range(rng.randint(0, 3))}
        return [rng.choice("ABCDE"), rng.random(), rng.randint(-9, 9), None, float("nan"), "words"][kind]

    return json.dumps({"issues": value(2), "x": value(3)} if rng.random() < 0.7 else value(3))


Mutation = Callable[[random.Random, str, list[str]], str]
MUTATIONS: list[Mutation] = [
    _as_it_is,
    _changed_characters,
    _cut,
    _cut_around_another,
    _other_case,
    _look_alikes,
    _other_members,
    _other_shapes,
    _several,
    _doubled_keys,
    _random_json,
]


def test_10000_fuzzed_replies_give_no_score_that_a_strict_reader_would_not_give(rubrics: dict[str, Rubric]) -> None:
    rng = random.Random(20261121)
    scored = 0
    for number in range(10_000):
        rubric = rng.choice(list(rubrics.values()))
        points = {issue.letter: issue.deduction for issue in rubric.judging.issues}
        text = fuzzed(rng, tuple(points))
        strict = StrictReader(text, tuple(points)).verdict()
        try:
            ours: int | None = score(rubric, named_letters(text, "issues", tuple(points)).letters)
        except Unreadable:
            ours = None
        theirs = None if strict is None else max(0, 10 - sum(points[letter] for letter in strict))
        assert ours is None or ours == theirs, f"reply {number}: {text!r} gave {ours}, strictly {theirs}"
        scored += ours is not None
    assert scored > 1_000
    assert scored < 9_000
