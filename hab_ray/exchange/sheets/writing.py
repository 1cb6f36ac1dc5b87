"""Writes a drawn sheet: a CSV table and a form per rater, and the key into the run folder.

Neither the columns nor the names of the raters' files reveal a subject or model; in texts "[name]" replaces them. Texts
of a simulator lose the markers of what it planted.
"""

from __future__ import annotations

import csv
import io
import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

from hab_ray.exchange.folders import new_folder, refuse_full
from hab_ray.exchange.sheets.drawing import order_for
from hab_ray.given.sheets import SheetItem
from hab_ray.inputs.csv_text import FORMULA
from hab_ray.location import Location
from hab_ray.results import Run, rows_in
from hab_ray.rows import ChosenTest, from_table
from hab_ray.rubric import Rubric
from hab_ray.storage.run import SHEETS, RunFolder
from hab_ray.storage.simulated import without_markers
from hab_ray.visible import visible

_SHOWN = ("item", "rater", "kind", "dimension", "prompt", "context", "answer", "choices")
_FILLED = ("issues", "failed", "comment")
_FORMULA = re.compile(FORMULA)
_MIN_NAME = 3
_PACKAGE = "hab_ray.exchange.sheets"
_ESCAPED = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


def write_sheet(run: Run, items: Sequence[SheetItem], folder: Path) -> Location:
    """Write a sheet's files into a new folder, and its key, which raters must not see, into the run folder.

    Return the key's place.

    Raises:
        ConfigError: the folder is not empty, or a rubric is missing.
        DamagedFile: a view of the run cannot be read.
    """
    refuse_full(folder)
    rubrics, questions = run.rubrics, _questions(run, items)
    key = f"{SHEETS}/{items[0].sheet}.parquet"
    RunFolder(run.location).write(SheetItem, key, list(items))
    with new_folder(folder) as unfinished:
        for rater in items[0].raters:
            ordered = [questions[item.item] for item in order_for(rater, items)]
            for name, text in (
                (f"{rater}.html", form(items[0].sheet, rater, ordered, rubrics)),
                (f"{rater}.csv", _csv(rater, ordered, rubrics)),
            ):
                (unfinished / name).write_text(text, encoding="utf-8", newline="")
    return run.location / key


def _questions(run: Run, items: Sequence[SheetItem]) -> Mapping[str, Question]:
    tests: dict[tuple[str, str], ChosenTest] = {}  # those of two dimensions may share an id
    texts: dict[tuple[str, str, str, int], str] = {}
    for dimension in dict.fromkeys(item.dimension for item in items):
        tests |= {(dimension, test.id): test for test in from_table(ChosenTest, run.tests(dimension))}
        for subject in dict.fromkeys(item.subject for item in items if item.dimension == dimension):
            table = run.responses(subject, dimension, columns=["test_id", "sample", "text"])
            for test_id, sample, text in rows_in(table):
                texts[dimension, subject, test_id, sample] = text
    names, unmarked = _names(run), without_markers(run.location)

    def shown(text: str) -> str:
        return visible(names.sub("[name]", unmarked(text)))

    return {
        item.item: Question(
            item=item.item,
            dimension=item.dimension,
            prompt=shown(tests[item.dimension, item.test_id].prompt),
            context=shown(tests[item.dimension, item.test_id].context),
            answer=shown(texts[item.dimension, item.subject, item.test_id, item.sample]),
        )
        for item in items
    }


def _names(run: Run) -> re.Pattern[str]:
    names = {subject.name for subject in run.record.sweep.subjects} | {*run.subjects}
    names |= {part for sent in run.settings().subjects for part in (sent.model, *sent.reported) if part}
    names |= {name.rpartition("/")[2] for name in names}
    hidden = sorted((name for name in names if len(name) >= _MIN_NAME), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, hidden))})(?!\w)" if hidden else r"(?!)", re.IGNORECASE)


def _csv(rater: str, questions: Sequence[Question], rubrics: Mapping[str, Rubric]) -> str:
    """Return the table for use in a spreadsheet: `issues` takes letters or `none`; empty rows are unrated."""
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow((*_SHOWN, *_FILLED))
    for question in questions:
        choices = "; ".join(f"{issue.letter}: {issue.text}" for issue in rubrics[question.dimension].judging.issues)
        texts = (question.prompt, question.context, question.answer, choices)
        cells = (question.item, rater, "person", question.dimension, *texts, *("" for _ in _FILLED))
        writer.writerow([f"'{cell}" if _FORMULA.match(cell) else cell for cell in cells])
    return table.getvalue()


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
