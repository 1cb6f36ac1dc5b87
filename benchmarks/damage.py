"""Verdicts damaged at random: what was one, almost is one or never was."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

WORDS = ["Fine.", 'He said "no".', "Uses {braces} and [brackets].", "", "Zeile\n\u2028zwei", "It returns {}."]
BEFORE = [
    "",
    "```json\n",
    "Verdict {1}: ",
    "<think>{hm</think>",
    "</think>",
    'It returns {}, [1, 2] and {"total": 3}. ',
    "**",
    "[THINK]x[/THINK]",
    "<Thinking depth='2'>[{</thinking >",
]
BEHIND = ["", "", "\n```", " }", " I hope {this} helps.", "<think>", "**", " [see above]", " {"]
REASONING = [
    ("<think>", "</think>"),
    ("<THOUGHT >", "</ thought>"),
    ("<analysis>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<thinker>", "</thinker>"),
    ("", "</think>"),
    ("<scratchpad>", ""),
]
ODD_MEMBERS: list[Any] = [" A", "A.", "a", "", "A, B", "AB", 1, 0.5, True, None, ["A"], {"letter": "A"}, "\uff21", "Z"]


def damaged(rng: random.Random, key: str, letters: Sequence[str]) -> str:
    """One reply whose list goes by this key; half of them go through a second mutation."""
    written = [("issues", key), ("Issues", key.capitalize()), ("ISSUES", key.upper())]
    written += [("iss\u200bues", f"{key[:3]}\u200b{key[3:]}"), ("\\u0069ssues", f"\\u{ord(key[0]):04x}{key[1:]}")]
    text = _damaged(rng, letters)
    for old, new in written:
        text = text.replace(old, new)
    return text


def _damaged(rng: random.Random, letters: Sequence[str]) -> str:
    named = rng.choices(letters, k=rng.randint(0, 4))
    verdict: dict[str, Any] = {"assessment": rng.choice(WORDS), "issues": named}
    text = json.dumps(verdict, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 2]))
    text = rng.choice(MUTATIONS)(rng, text, named)
    return rng.choice(MUTATIONS[:6])(rng, text, named) if rng.random() < 0.5 else text


def _as_it_is(rng: random.Random, text: str, named: list[str]) -> str:
    return rng.choice(BEFORE) + text + rng.choice(BEHIND)


def _several(rng: random.Random, text: str, named: list[str]) -> str:
    others = [text, '{"issues": []}', "{x}", json.dumps({"issues": named[::-1]}), '{"total": 3}', "{'issues': []}"]
    return rng.choice(["", " and ", "\n", "{}", ","]).join([text, *rng.choices(others, k=rng.randint(1, 3))])


def _after_reasoning(rng: random.Random, text: str, named: list[str]) -> str:
    opens, closes = rng.choice(REASONING)
    inside = rng.choice(["hm", text, '{"issues": []}', '{"issues": [', "{", "[", opens])
    parts = [opens, inside, closes, rng.choice(["", "\n"]), text]
    return "".join(parts if rng.random() < 0.8 else [text, *parts[:3]])


def _changed_characters(rng: random.Random, text: str, named: list[str]) -> str:
    chars = list(text) or ["{"]
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(chars))
        new = rng.choice(['"', "{", "}", "[", "]", ",", ":", "\\", " ", "", "x", "\u0410", "\x00", "<think>", "0", "."])
        chars[at : at + rng.randint(0, 2)] = [*new]
        chars = chars or ["{"]
    return "".join(chars)


def _cut(rng: random.Random, text: str, named: list[str]) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _listed(rng: random.Random, text: str, named: list[str]) -> str:
    lists = ["[%s]", "[%s, %s]", "[1, %s]", "[[%s]]", "[%s", "[ %s,]", "[x] %s", "[{}] %s"]
    return rng.choice(lists).replace("%s", text)


def _cut_around_another(rng: random.Random, text: str, named: list[str]) -> str:
    rests = ["", ', "final": {"issues": [', ", ", ', "x": tru', "}", " x}", ', "n": 1.', ', "b": "\\u00', ', "b": -']
    return '{"draft": ' + text + rng.choice(rests)


def _other_case(rng: random.Random, text: str, named: list[str]) -> str:
    return rng.choice([text.lower(), text.upper(), text.replace("issues", "Issues"), text.swapcase()])


def _look_alikes(rng: random.Random, text: str, named: list[str]) -> str:
    marks = {"A": "\u0410", "B": "\u0412", "C": "\u0421", '"': "\u201d", "{": "\uff5b", "[": "\uff3b", ",": "\uff0c"}
    marks |= {"issues": "iss\u200bues", "i": "\u0456", '"issues"': '"\\u0069ssues"'}
    old = rng.choice(list(marks))
    return text.replace(old, marks[old], rng.randint(1, 3))


def _other_members(rng: random.Random, text: str, named: list[str]) -> str:
    members: list[Any] = [*named, *rng.choices(ODD_MEMBERS, k=rng.randint(0, 2))]
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
        json.dumps({"issues": named}),
        {"name": "verdict", "arguments": {"issues": named}},
        {"issues": named, "extra": {"deep": [[[1.5, -2e3]]]}},
    ]
    return json.dumps(rng.choice(shapes))


def _doubled_keys(rng: random.Random, text: str, named: list[str]) -> str:
    return rng.choice(['{"issues": ["A"], ', '{"note": 1, ', '{"note": {"x": 1, "x": 2}, ']) + text.lstrip("{ \n")


def _not_quite_json(rng: random.Random, text: str, named: list[str]) -> str:
    changes = [('"', "'"), ('"issues"', "issues"), ("]", ",]"), ("}", ",}"), ('"', '\\"'), ("[", "[// none\n")]
    return text.replace(*rng.choice(changes))


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
    _several,
    _after_reasoning,
    _changed_characters,
    _cut,
    _listed,
    _cut_around_another,
    _other_case,
    _look_alikes,
    _other_members,
    _other_shapes,
    _doubled_keys,
    _not_quite_json,
    _random_json,
]
