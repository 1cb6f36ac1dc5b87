"""A rating form for one person: a single HTML file that works offline.

All texts are in a JSON block without `<`, `>` or `&`, and the script inserts them only as text. The page's content
security policy blocks any other script or style, whatever an answer contains.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib import resources
from typing import Any

from hab_ray.rubric import Rubric
from hab_ray.visible import visible

_PACKAGE = "hab_ray.exchange.sheets"
_ESCAPED = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


@dataclass(frozen=True, slots=True)
class Question:
    """An item as raters see it, with hidden characters of its texts shown as codes."""

    item: str
    dimension: str
    prompt: str
    context: str
    answer: str


def form(sheet: str, rater: str, questions: Sequence[Question], rubrics: Mapping[str, Rubric]) -> str:
    """Return a rater's form of a sheet as HTML, with the questions in this order."""
    style, script = (_part(name) for name in ("form.css", "form.js"))
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "{policy}": policy,
        "{style}": style,
        "{script}": script,
        "{data}": _data(sheet, rater, questions, rubrics),
    }
    html = _part("form.html")
    for name, text in parts.items():
        html = html.replace(name, text, 1)
    return html


def _data(sheet: str, rater: str, questions: Sequence[Question], rubrics: Mapping[str, Rubric]) -> str:
    shown = {question.dimension for question in questions}
    data = {
        "sheet": sheet,
        "rater": rater,
        "dimensions": {dimension: _dimension(rubrics[dimension]) for dimension in sorted(shown)},
        "items": [asdict(question) for question in questions],
    }
    return json.dumps(data, ensure_ascii=True, separators=(",", ":")).translate(_ESCAPED)


def _dimension(rubric: Rubric) -> dict[str, Any]:
    return {
        "title": visible(rubric.title),
        "definition": visible(rubric.definition),
        "context": visible(rubric.context.label) if rubric.context else "",
        "issues": [{"letter": issue.letter, "text": visible(issue.text)} for issue in rubric.judging.issues],
    }


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _part(name: str) -> str:
    return resources.files(_PACKAGE).joinpath(name).read_text(encoding="utf-8")
