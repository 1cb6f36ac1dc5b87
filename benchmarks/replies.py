"""Replies as models write them, and worse: drawn by a grammar from a seed."""

import json
from collections.abc import Sequence
from random import Random
from typing import Any

from tests.stages.verdict_rules import TAGS

WORDS = (
    "The response asks what the user wants; it returns {}.",
    'It prints {"total": 3} and stops.',
    "See [1] and [2, 3] for the arrays, e.g. `a[0] = {x: 1}` or f'{name}'.",
    "Issue A applies, but only just — “naïve” überall ☃ 日本語 😀.",
    "**Verdict**: below. > quoted\n- one\n- two",
    "if (a < b) { return c; } else { return [d]; }",
    "A thought: <b>bold</b>, </think> without a beginning, &lt;think&gt;.",
    "\\{escaped\\} \\[list\\] $\\{A, B\\}$",
    "Let me read it again.\u2028Second line.\u0085Third.\x00 NUL.",
    "null, true, 1e999, NaN, -0",
    '"issues" are listed below, "deductions" too, and "queries"',
    "{{ template }} {% raw %}",
    "e.g. {'issues': []} in Python",
    "]]}} }{ ][",
    "Issues: A",
    "issues:\n  - A\n  - B",
    "**Issues:** B, as [said]",
    "## Deductions\n\n- C",
    "The issues are A and B; the deductions: none",
    "So A and B apply, C applies if asked.",
    "<issues><issue>A</issue></issues>",
    '<verdict issues="B"/> deductions = ["A"]',
    "| issues | A |",
    "Verdict: B.",
    "My verdict is A.",
    "I find that A is there.",
    "I'm sorry, but I cannot judge this.",
    "{&quot;issues&quot;: [&quot;A&quot;]}",
    '{\\"issues\\": [\\"\u0410\\"]}',
    "\u0456ssu\u200bes\uff1a \uff21",
    "issues\nqueries:",
    "Example 2 says:",
    "It plants this",
    "assistantfinal",
    "analysis",
)
CLOSINGS = (
    "```",
    "~~~",
    "`",
    "</verdict>",
    "</think>",
    "<|im_end|>",
    "<\uff5cend\u2581\uff5c>",
    "\u200b\x00",
    "\n</answer>\n```",
)
TOKENS = (
    ("[THINK]", "[/THINK]"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|channel|>commentary<|message|>", "<|channel|>final <|constrain|>json<|message|>"),
    ("analysis", "assistantfinal"),
)
ASSESSMENTS: tuple[Any, ...] = (
    "",
    "Asks nothing.",
    'It says {"issues": []} somewhere, and "quotes".',
    "line\nbreak\ttab \\ backslash / slash",
    "<think>not reasoning</think>",
    "naïve ☃ 😀 \u2028",
    "[THINK] [A] {B}",
    "x" * 300,
    "}",
    "```json",
    "Issues: A, and B applies.",
    {},
    {"A": "Asks nothing.", "B": 'Not "so" {"issues": []}.'},
    {"": "unnamed", "\ud800": "half \ud800", "A": ""},
    {"A": 7},
    {"A": {"issues": []}},
    ["a list"],
)
NUMBERS = ("0", "-1", "1.5", "1e999", "-0.0", "12345678901234567890123", "1E-400")
EXTRAS: tuple[Any, ...] = (1, 0.5, True, None, {"a": [1, {"b": 2}]})
JUNK = (
    *("null", "true", '"A"', '"A, B"', '"AB"', "{}", '{"A": true}', "[[]]", '[["A"]]', "[null]", "[1]", '["A", 1]'),
    *('["A."]', '[" A"]', '[""]', '["A", "A, B"]', '["\uff21"]', '[{"letter": "A"}]', '["\u0410"]', '["A",]', '["A"'),
)
LOOK_ALIKES = (("A", "\u0410"), ('"', "\u201d"), ("{", "\uff5b"), ("[", "\uff3b"), (",", "\uff0c"), ("i", "\u0456"))
CUTS = ("", ", ", ', "x": tru', "}", " x}", ', "n": 1.', ', "b": "\\u00', ', "b": -', ', "final": {"issues": [')


class Grammar:
    """Draws replies for one stage: `key` names its list, `letters` are those of its rubric."""

    def __init__(self, random: Random, key: str, letters: Sequence[str]) -> None:
        self.random, self.key, self.letters = random, key, letters
        self._queries = key == "queries"

    def reply(self) -> str:
        """One reply: a verdict among other things, or a few parts of any kind; some are cut or damaged."""
        if self.random.random() < 0.5:
            before = self.random.choice(("", "reasoning", "prose", "prose", "nested"))
            after = self.random.choice(("", "", "closing", "closing", "prose"))
            drawn = [before, self.random.choice(("verdict", "verdict", "twice")), after]
            text = self.glue(*(str(getattr(self, f"_{kind}")(1)) for kind in drawn if kind))
        else:
            text = self.glue(*(self.part(0) for _ in range(self.random.choice((1, 1, 1, 2, 2, 3, 4)))))
        if self.random.random() < 0.06:
            text = text[: self.random.randrange(len(text) + 1)]
        return self.mutated(text) if self.random.random() < 0.08 else text

    def glue(self, *parts: str) -> str:
        return self.random.choice(("\n\n", "\n", " ", "")).join(parts)

    def part(self, depth: int) -> str:
        drawn = self.random.choices(
            ("verdict", "prose", "fence", "reasoning", "bad", "twice", "draft", "list", "nested", "quote", "cut"),
            (30, 22, 14, 12, 6, 4, 4, 3, 4, 4, 4),
        )[0]
        if depth > 2:
            drawn = "verdict" if drawn == "verdict" else "prose"
        return str(getattr(self, f"_{drawn}")(depth))

    def _prose(self, depth: int) -> str:
        return self.random.choice(WORDS)

    def _closing(self, depth: int) -> str:
        return self.random.choice(CLOSINGS)

    def _verdict(self, depth: int) -> str:
        return self.written(self.members())

    def _fence(self, depth: int) -> str:
        return f"{self.random.choice(('```json', '```', '~~~', '`'))}\n{self.part(depth + 1)}\n```"

    def _reasoning(self, depth: int) -> str:
        inside = self.glue(*(self.part(depth + 1) for _ in range(self.random.choice((1, 1, 2)))))
        name = self.random.choice(TAGS)
        other = name if self.random.random() < 0.9 else self.random.choice(TAGS)
        opening, closing = self.random.choice(
            (
                (f"<{name}>", f"</{other}>"),
                (f"<{name}>", f"</{other}>"),
                (f"<{name.upper()}>", f"</{other}>"),
                (f"< {name} effort='high'>", f"</ {other.capitalize()} >"),
                (f"<{name} >", f"</{other}\n>"),
                (f"\n<{name}>", f"\n</{other}>\n"),
                *TOKENS,
            )
        )
        drawn = self.random.random()
        if drawn < 0.08:
            return f"{opening}{inside}"
        if drawn < 0.14:
            return f"{inside}{closing}"
        return f"{opening}{inside}{closing}"

    def _bad(self, depth: int) -> str:
        good = self._verdict(depth)
        name = json.dumps(self.key)
        return self.random.choice(
            (
                f"{{{name}: {self.random.choice(JUNK)}}}",
                f'{{{name}: ["Z"]}}',
                f'{{{name}: ["{self.letters[0].lower()}"]}}',
                f"{{{name}: [{self.random.choice(NUMBERS)}]}}",
                f'{{{name}: ["{self.letters[0]}", "{self.letters[0]}"]}}',
                f"{{{name}: [], {name}: []}}",
                f'{{{name}: [], "assessment": {self.random.choice(("1", "null", "[]", "NaN", "Infinity"))}}}',
                f'{{{name}: [], "n": {self.random.choice((*NUMBERS, "NaN", "-Infinity", "01", "+1", ".5", "0x1"))}}}',
                f'{{{name}: [], "o": {{"a": 1, "a": 2}}}}',
                good.replace('"', "'"),
                good[:-1] + ",}",
                good.replace("{", "{ // so\n", 1),
                good.replace(name, self.key),
                good.replace(name, json.dumps(self.key.upper())),
                good.replace(name, f'"{self.key[:2]}\\u{ord(self.key[2]):04x}{self.key[3:]}"'),
                "{}",
                "[]",
                '{"assessment": "alone"}',
                good.replace(name, f'"{self.key[:3]}\u200b{self.key[3:]}"'),
                good.replace(*self.random.choice(LOOK_ALIKES), self.random.randint(1, 3)),
                good.swapcase(),
                f'{{"name": "verdict", "arguments": {good}}}',
                f'{{"note": {{"x": 1, "x": 2}}, {good[1:]}',
                f'{{"draft": {good}{self.random.choice(CUTS)}',
                good.replace(":", ": \x01", 1),
                good.replace("{", "{\ufeff", 1),
                good.replace("{", "{\u00a0", 1),
            )
        )

    def _twice(self, depth: int) -> str:
        members = self.members()
        again = {**members, "assessment": self.random.choice(ASSESSMENTS)}
        same = self.random.random() < 0.6
        return self.glue(self.written(members), self._prose(depth), self.written(members if same else again))

    def _draft(self, depth: int) -> str:
        return self.glue("Draft:", self._verdict(depth), "No, better:", self._verdict(depth))

    def _list(self, depth: int) -> str:
        members = [self._verdict(depth) for _ in range(self.random.choice((1, 1, 2, 3)))]
        first = self.random.choice(("", "", "1, ", "[], ", '"x", '))
        return f"[{first}{', '.join(members)}{self.random.choice((']', ']', ']', ',]', ''))}"

    def _nested(self, depth: int) -> str:
        good = self._verdict(depth)
        return self.random.choice(
            (
                f'{{"result": {good}}}',
                f'{{"a": [{good}], "b": 1}}',
                f"[[{good}]]",
                f'{{"x": {{"y": {good}}}',
                f"{{{good}}}",
            )
        )

    def _quote(self, depth: int) -> str:
        quoted = self._verdict(depth)
        return self.random.choice(
            (f"The response contains {quoted}.", f"> {quoted}", f'"{quoted}"', json.dumps(quoted))
        )

    def _cut(self, depth: int) -> str:
        good = self._verdict(depth)
        return good[: self.random.randrange(1, len(good))]

    def members(self) -> dict[str, Any]:
        """A verdict's members, in some order."""
        count = self.random.choice((0, 0, 1, 1, 2, 3))
        chosen: list[Any] = self.random.sample(list(self.letters), min(count, len(self.letters)))
        if self._queries:
            chosen = [{"prompt": f"What about {letter}{self.random.choice(ASSESSMENTS)}?"} for letter in chosen]
        pairs = [(self.key, chosen), ("assessment", self.random.choice(ASSESSMENTS))]
        if self.random.random() < 0.15:
            pairs.append(("confidence", self.random.choice(EXTRAS)))
        if self.random.random() < 0.1:
            pairs.pop(1)
        self.random.shuffle(pairs)
        return dict(pairs)

    def written(self, members: dict[str, Any]) -> str:
        """Members as JSON, spaced and escaped in some way."""
        indent = self.random.choice((None, None, 1, 4))
        separators = self.random.choice((None, (",", ":"), (" , ", " : ")))
        return json.dumps(members, ensure_ascii=self.random.random() < 0.5, indent=indent, separators=separators)

    def mutated(self, text: str) -> str:
        """A few characters put in, taken out or doubled."""
        for _ in range(self.random.choice((1, 1, 2, 4))):
            at = self.random.randrange(len(text) + 1)
            drawn = self.random.random()
            if drawn < 0.5:
                new = self.random.choice('{}[]",:\\<>/ \n\x00\ud800ae1-.')
                text = text[:at] + new + text[at:]
            elif drawn < 0.8:
                text = text[:at] + text[at + 1 :]
            else:
                text = text[:at] + text[at : at + 40] + text[at:]
        return text
