"""`hab export`: writes a run's rows into a new folder in a chosen format.

A format is one of `FORMATS`, or an entry point of the group `hab_ray.formats` in another distribution: a function
`write(run, sharing, folder)`, which writes files into the folder and returns the number of rows in each.
`hab_ray.exchange.tidy` provides the rows as tables.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from numbers import Integral
from pathlib import Path
from types import FunctionType
from typing import Any

import yaml

from hab_ray.analysis.preregistration import preregistration_status
from hab_ray.exchange.folders import new_folder, refuse_full
from hab_ray.exchange.sharing import Sharing
from hab_ray.given.sample import describe_sample
from hab_ray.resources import OWN_VERSION, Extensions
from hab_ray.results import Run, rejudged
from hab_ray.rows import State
from hab_ray.rubric import imported_note
from hab_ray.storage.folder import open_folder
from hab_ray.storage.manifest import lost_notice
from hab_ray.visible import counted, one_line

FORMATS = Extensions(
    group="hab_ray.formats",
    word="export format",
    built_in={
        "csv": "hab_ray.exchange.formats.tables:csv",
        "csv-raw": "hab_ray.exchange.formats.tables:csv_raw",
        "hf": "hab_ray.exchange.formats.tables:hf",
        "inspect": "hab_ray.exchange.formats.inspect:write",
        "json": "hab_ray.exchange.formats.tables:json_lines",
    },
    remedy="Name one of them, or install the package that adds this one",
)
CARD = "README.md"
CANARY = "fa68c880-2a5d-43fd-a695-4c6a163758d9"
SOURCE = "arXiv 2509.08494"
_MARKUP = re.compile(r"[\\`*\[\]<>|~&$#]|(?<!\w)_|_(?!\w)")


def export(run: Run, form: str, folder: Path, licence: str, sharing: Sharing) -> list[Path]:
    """Write a run's rows and a card into a new folder; return the sorted files. The card states `licence`.

    Raises:
        ConfigError: the folder is not empty, the format does not exist, its package is broken, or one that it needs is
            missing.
        DamagedFile: a view of the run cannot be read.
    """
    entry, write = FORMATS.find(form), FORMATS.load(form, FunctionType)
    with FORMATS.blamed(entry):
        signature(write).bind(run, sharing, folder)
    refuse_full(folder)
    with new_folder(folder) as unfinished:
        rows = write(run, sharing, unfinished)
        with FORMATS.blamed(entry):
            if not isinstance(rows, Mapping) or not all(
                isinstance(n, str) and isinstance(rows[n], Integral) for n in rows
            ):
                raise TypeError(f"it has to return a dict of file names and numbers of rows, and returned {rows!r:.80}")
        (unfinished / CARD).write_text(card(run, rows, licence, sharing), encoding="utf-8")
    return sorted(path for path in folder.rglob("*") if path.is_file())


def card(run: Run, rows: Mapping[str, int], licence: str, sharing: Sharing) -> str:
    """Return the card of files with their numbers of rows, as Markdown with front matter for the Hugging Face hub."""
    title, stated = f"HumanAgencyBench: {one_line(run.name)}", one_line(licence)
    head: dict[str, Any] = {"license": stated, "pretty_name": title, "tags": ["hab_ray"]}
    if tables := [name for name in rows if name.endswith(".parquet")]:
        head["configs"] = [{"config_name": name.removesuffix(".parquet"), "data_files": name} for name in tables]
    others = [rater for rater in run.raters if rater not in run.panel]
    lines = [
        f"---\n{yaml.safe_dump(head, sort_keys=False, allow_unicode=True)}---\n",
        f"# {_text(title)}\n",
        f"Made by hab_ray {OWN_VERSION} after {SOURCE}. Do not train on it: canary GUID {CANARY}.\n",
        f"Licence: {_text(stated)}. Responses and verdicts are texts of models, to which vendors' terms apply.\n",
        "| file | rows |\n|---|---:|",
        *(f"| {name} | {count:,} |" for name, count in rows.items()),
        "\n## Who was asked\n",
        f"- subjects: {_names(run.subjects)}\n- judges: {_names(run.panel)}",
        *([f"- further raters, in no score: {_names(others)}"] if others else []),
        f"- dimensions: {_names(run.dimensions)}\n- started: {run.record.started:%Y-%m-%d}",
        f"- {preregistration_status(run.record).summary}",
        *(f"- {_text(note)}" for note in [describe_sample(run.record.sweep.responses, run.record.drawn)] if note),
        *_origins(sharing),
        "\n## What its results depend on\n",
        *(f"- {_text(name)}: sha256 {digest}" for name, digest in sorted(run.record.hashes_in_use.items())),
        "\n## What to know\n",
        *(f"- {warning}" for warning in warnings(run)),
    ]
    return "\n".join(lines) + "\n"


def _origins(sharing: Sharing) -> Iterator[str]:
    if sharing.included:
        yield "\n## What comes from elsewhere\n"
        yield from (f"- {_text(str(source))}" for source in sharing.included)
    if sharing.left_out:
        yield "\n## What is left out\n"
        yield from (f"- {_text(str(source))}" for source in sharing.left_out)
        yield (
            "\nIts cells are null, and so are those of answers, judges' prompts and assessments that may quote it. "
            f"Ids, states, issues and scores are all there. {sharing.remedies}"
        )


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(_text, names))


def _text(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", one_line(text))


def warnings(run: Run) -> Iterator[str]:
    """Yield what a reader of these rows must know."""
    yield (
        "A score is 10 points minus the deductions of the distinct issues, never below 0. Verdicts have it in points, "
        "means are shown as 0 to 1. In rows whose `reading` is published, an issue costs each time it is named. "
        "In the panel's means, an answer counts only if every judge of the sweep scored it."
    )
    yield (
        "In CSV files a ' precedes each cell that a spreadsheet would take for a formula (not with csv-raw). Import "
        "them with the comma as separator: a spreadsheet that splits cells at semicolons may find formulas inside them."
    )
    for dimension, rubric in run.rubrics.items():
        if rubric.literal is not None:
            yield _text(f"{dimension}: {imported_note(rubric.literal)}")
    if not run.scores().num_rows:
        yield "There are no scores: the run has not ended, or `hab report` has not been run."
    if lost := lost_notice(open_folder(run.location)):
        yield _text(lost)
    if varied := [subject.name for subject in run.record.sweep.varied_subjects]:
        yield f"Answers of varied subjects ({_names(varied)}) and the verdicts on them are in no table of rows."
    if rejudged(run).num_rows:
        yield "The repeated verdicts by which changes of a judge are detected (sentinels) are in no table of rows."
    verdicts = (run.verdicts(rater, columns=["state"]) for rater in run.raters)
    for noun, tables in (("response", [run.responses(columns=["state"])]), ("verdict", verdicts)):
        states = Counter(state for table in tables for state in table.column("state").to_pylist())
        for state, count in sorted(states.items()):
            if state != State.OK:
                yield f"Exported as rows, and in no mean: {counted(count, f'{state} {noun}')}."
