"""`hab import rubrics`: writes a folder of rubrics with a checkout's wording, and a page on their sources."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from hab_ray.errors import ConfigError
from hab_ray.exchange.folders import new_folder, refuse_full
from hab_ray.exchange.imports.checkout import THEMES, Checkout, Digests, known_digests, open_checkout
from hab_ray.exchange.imports.executing import GENERATION, JUDGING, VALIDATION, Executed, executed
from hab_ray.inputs.files import causes_of
from hab_ray.inputs.origin import Origin
from hab_ray.resources import OWN_VERSION
from hab_ray.rubric import (
    LiteralJudging,
    LiteralPrompts,
    LiteralRequest,
    LiteralRubric,
    LiteralValues,
    Reading,
    read_library,
    rendered,
)
from hab_ray.rubric.literal import LiteralGeneration
from hab_ray.rubric.parts import ContextField, Criterion, Judging
from hab_ray.visible import counted, one_line

PAGE = "README.md"


@dataclass(frozen=True)
class ImportWishes:
    """The user's choices: `licence` ("" = the one found), whether to execute unknown code, how to read replies."""

    licence: str = ""
    execute_unknown: bool = False
    reading: Reading = Reading.STRICT


@dataclass(frozen=True)
class ImportedRubrics:
    """The rubrics and themes read, and notes on their sources."""

    rubrics: tuple[LiteralRubric, ...]
    themes: tuple[str, ...]
    notes: tuple[str, ...]


def import_rubrics(root: Path, folder: Path, wanted: ImportWishes, known: Digests | None = None) -> tuple[str, ...]:
    """Execute a checkout's prompts in a separate process, write their wording as a new folder of rubrics; return notes.

    Raises:
        ConfigError: the checkout cannot be read, is not the published one, or its texts cannot be reproduced exactly;
            or the folder is not empty.
    """
    refuse_full(folder)
    checkout = open_checkout(root, known or known_digests())
    if checkout.unknown and not wanted.execute_unknown:
        raise ConfigError(
            f"{root}: not the published {', '.join(checkout.unknown)} (another sha256); nothing was executed. Check "
            "out one of the published revisions without a change, or read the code and add --execute-unknown"
        )
    if checkout.mixed:
        raise ConfigError(f"{root}: its prompts are of several revisions ({', '.join(checkout.mixed)}); check out one")
    imported = _import(checkout, wanted)
    with new_folder(folder) as unfinished:
        _write(imported, unfinished)
    return imported.notes


def _import(checkout: Checkout, wanted: ImportWishes) -> ImportedRubrics:
    by_dimension = executed(checkout)
    differing = {name.removesuffix(".csv") for name in checkout.files if name.endswith(".csv")} ^ set(by_dimension)
    if differing:
        names = one_line(", ".join(sorted(differing)))
        raise ConfigError(f"{checkout.root}: its prompts and its files of seeds differ in their dimensions: {names}")
    theme_lists = {executed.answer.themes for executed in by_dimension.values()}
    if len(theme_lists) != 1:
        raise ConfigError(f"{checkout.root}: its dimensions draw from different themes; expected one list")
    (themes,) = theme_lists
    rubrics = tuple(_rubric(name, executed, checkout, wanted) for name, executed in sorted(by_dimension.items()))
    notes = [note for rubric in rubrics for note in _notes(rubric, checkout)]
    notes.append(f"themes: {len(themes)}, with their line breaks, from {checkout.files[THEMES].source}")
    if checkout.unknown:
        notes.append(f"Not the published code, executed all the same: {', '.join(checkout.unknown)}")
    return ImportedRubrics(rubrics, themes, tuple(one_line(note) for note in notes))


def _rubric(name: str, executed: Executed, checkout: Checkout, wanted: ImportWishes) -> LiteralRubric:
    code = checkout.files[f"{name}.py"]
    licence = wanted.licence or (f"see {checkout.licence_file}" if checkout.licence_file else "unknown")
    context = ContextField(
        label="Misinformation",
        description="The false sentence of a query, as the imported wording shows it to validator and judge.",
        within_prompt=False,
    )
    answer, system, pieces = executed.answer, executed.answer.system, executed.pieces
    try:
        return LiteralRubric(
            id=name,
            title=name.replace("_", " ").capitalize(),
            definition="What the imported wording says of it: see `literal`.",
            system=system["subject_model"],
            context=context if "misinformation" in answer.parameters[JUDGING] else None,
            judging=Judging(
                guidance="That of the imported wording: see `literal`.", issues=_issues(executed), examples=()
            ),
            literal=LiteralPrompts(
                origin=Origin(
                    source=one_line(f"{answer.owner} in {code.source}"),
                    licence=one_line(licence),
                    canaries=checkout.canaries,
                ),
                reading=wanted.reading,
                generation=LiteralGeneration(system=system["generative"], user=pieces[GENERATION], seeds=answer.seeds),
                validation=LiteralRequest(system=system["relevance_check"], user=pieces[VALIDATION]),
                judging=LiteralJudging(system=system["subject_evaluation"], user=pieces[JUDGING]),
            ),
        )
    except ValidationError as error:
        raise ConfigError(one_line(f"{checkout.root / code.path}: {causes_of(error)}")) from None


def _issues(executed: Executed) -> tuple[Criterion, ...]:
    """Return letters, points and texts; a text is the only line of the judge's request that begins with its letter."""
    request = rendered(executed.pieces[JUDGING], LiteralValues())
    issues = []
    for letter, points in sorted(executed.answer.deductions.items()):
        lines = re.findall(rf"(?m)^[ \t]*(?:[-*][ \t]*)?\(?\**{re.escape(letter)}\**[).:][ \t]*(\S.*)$", request)
        text = lines[0].strip() if len(lines) == 1 else f"Deduction {letter} of the imported wording."
        issues.append(Criterion(letter=letter, deduction=points, text=text))
    return tuple(issues)


def _notes(rubric: LiteralRubric, checkout: Checkout) -> list[str]:
    seeds = checkout.files[f"{rubric.id}.csv"].source
    lines = [
        f"{rubric.id}: {counted(len(rubric.judging.issues), 'deduction')}, from {rubric.literal.origin.source}; "
        f"{counted(len(rubric.seeds), 'seed')}, from {seeds}"
    ]
    if rubric.context is not None:
        lines.append(f"{rubric.id}: its seeds have no false sentence: good for generation, refused by `tests: seeds`")
    return lines


def _write(imported: ImportedRubrics, folder: Path) -> None:
    for rubric in imported.rubrics:
        content = rubric.model_dump(mode="json", exclude_none=True)
        content["literal"]["origin"] = rubric.literal.origin.model_dump(mode="json")
        _dump(content, folder / f"{rubric.id}.yaml")
    _dump({"lines": list(imported.themes)}, folder / "themes.yaml")
    (folder / PAGE).write_text(_page(imported), encoding="utf-8")
    library = read_library(folder)
    read = library.rubrics()
    if any(read[rubric.id] != rubric for rubric in imported.rubrics) or library.shown_themes() != imported.themes:
        raise ConfigError(f"{folder}: the wording changes when written to YAML and read back")


def _dump(content: Any, path: Path) -> None:
    path.write_text(
        yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=10_000), encoding="utf-8", newline=""
    )


def _page(imported: ImportedRubrics) -> str:
    origin = imported.rubrics[0].literal.origin
    canaries = [f"Do not train on it: canary GUID {', '.join(origin.canaries)}.\n"] if origin.canaries else []
    lines = [
        "# Imported wording\n",
        f"Read by hab_ray {OWN_VERSION} by executing a checkout's prompts, and equal to them over hostile values.\n",
        f"Licence: {origin.licence}.\n",
        *canaries,
        "The prompts are sent as that code would send them. They carry no fence: an answer that poses as an "
        "instruction to the judge is not marked as foreign text.\n",
        "## What was read where\n",
        *(f"    {note}" for note in imported.notes),
    ]
    return "\n".join(lines) + "\n"
