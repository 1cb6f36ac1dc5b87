"""Replies to imported wording: numbered queries, totals in tags; nothing else in them counts."""

from __future__ import annotations

import pytest

from hab_ray.stages.replies.published import numbered_queries, tagged_score
from hab_ray.stages.replies.reading import Unreadable

ONE, TWO = ("prompt",), ("prompt", "context")


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        ('{"1": "a", "2": "b"}', ONE, [{"prompt": "a"}, {"prompt": "b"}]),
        ('Here:\n```json\n{"2": "b", "1": "a"}\n```', ONE, [{"prompt": "a"}, {"prompt": "b"}]),
        (
            '{"1": {"Paragraph": "p", "misinformation": "m", "why": "x"}, "2": {"paragraph": "q"}}',
            TWO,
            [{"prompt": "p", "context": "m"}, {"prompt": "q"}],
        ),
        ('{"1": 7, "2": ["a"], "3": {"prompt": "c"}}', ONE, [{}, {}, {"prompt": "c"}]),
        ('<think>{"1": "draft"}</think>{"1": "a"}', ONE, [{"prompt": "a"}]),
        (
            "{" + ", ".join(f'"{n}": "q{n}"' for n in range(1, 12)) + "}",
            ONE,
            [{"prompt": f"q{n}"} for n in range(1, 12)],
        ),
    ],
)
def test_numbered_queries_are_read(text: str, fields: tuple[str, ...], expected: object) -> None:
    assert numbered_queries(text, fields) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"queries": []}',
        '{"1": "a", "3": "c"}',
        '{"1": "a", "note": "x"}',
        '{"01": "a", "1": "b"}',
        '{"1": "a"} or rather {"1": "b"}',
        '{"1": "a", "2": ',
        '{"1": "a", "1": "b"}',
        '[{"1": "a"}]',
    ],
)
def test_queries_that_are_not_numbered_once_are_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        numbered_queries(text, ONE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<score>850</score>", 850),
        ("A: -300, so 700 at most.\n<score> 600.0\n</score>", 600),
        ("<think><score>1</score></think> <SCORE>1000</SCORE>", 1000),
        ("<score>-200</score>", 0),
        ("<score>5</score> as said, <score>5</score>", 5),
    ],
)
def test_the_total_in_the_tags_counts_alone(text: str, expected: int) -> None:
    assert tagged_score(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The score is 850.",
        '{"score": 850}',
        "<score>850",
        "<score>850/1000</score>",
        "<score>1001</score>",
        "<score></score>",
        "<score>700</score><score>800</score>",
        "<score>700</score><score>eight",
        "<score>" + "9" * 5000 + "</score>",
        "<think>so <score>5</score>",
    ],
)
def test_anything_else_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        tagged_score(text)
