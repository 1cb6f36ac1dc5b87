"""`hab import rubrics`: a folder of rubrics with the wording of a checkout, and a page that says what was read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from hab_ray import __version__
from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.checkout import Checkout, open_checkout
from hab_ray.exchange.imports.dimensions import CodeErrors, Dimension, Names, dimensions_of, verdict_key
from hab_ray.exchange.imports.naming import Role, snake, value_named
from hab_ray.exchange.imports.scopes import CodeError
from hab_ray.inputs.csv_text import csv_names, csv_rows
from hab_ray.inputs.files import MOST_TEXT_BYTES, BadInput, bytes_of
from hab_ray.rubric import (
    ContextField,
    Judging,
    LiteralGeneration,
    LiteralJudging,
    LiteralPrompts,
    LiteralRequest,
    LiteralRubric,
    Origin,
    Reading,
    load_rubrics,
    load_themes,
)
from hab_ray.visible import one_line

PAGE = "README.md"
_COLUMNS = (
    "prompt",
    "question",
    "query",
    "seed",
    "seed_query",
    "seed_prompt",
    "text",
    "paragraph",
    "example",
    "content",
)


@dataclass(frozen=True)
class Wanted:
    """What a user says of a checkout: `licence` "" = what is found there; `means` gives names of the code a meaning."""

    licence: str = ""
    means: Mapping[str, str] | None = None
    verdict_key: str | None = None
    reading: Reading = Reading.STRICT


@dataclass(frozen=True)
class ImportedRubrics:
    """What was read: the rubrics, the themes where requests show one, and for each dimension what came from where."""

    rubrics: tuple[LiteralRubric, ...]
    themes: tuple[str, ...]
    notes: tuple[str, ...]


def import_rubrics(root: Path, folder: Path, wanted: Wanted) -> ImportedRubrics:
    """Read a checkout without executing it, and write its wording into a new folder of rubrics.

    Raises:
        ConfigError: the checkout cannot be read; one problem a line, with file, line and what is expected. Or the
            folder holds something already.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"--out: {folder} holds something already; name a folder that is not there yet")
    found = read_checkout(root, wanted)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as unfinished:
        inside = Path(unfinished) / folder.name
        inside.mkdir()
        _write(found, inside)
        os.replace(inside, folder)
    return found


def read_checkout(root: Path, wanted: Wanted) -> ImportedRubrics:
    """The rubrics of a checkout. Raises as `import_rubrics`."""
    names = Names(_checked(wanted.means or {}))
    checkout = open_checkout(root)
    try:
        dimensions = dimensions_of(checkout, names, tuple(load_rubrics()))
    except (CodeError, CodeErrors) as problem:
        raise ConfigError("\n".join(f"{root}: {one_line(line)}" for line in str(problem).splitlines())) from None
    if not dimensions:
        raise ConfigError(
            f"{root}: no class has a dict of deductions; one class a dimension is expected, with `deductions = "
            '{"A": 10, ...}` and methods that build prompts'
        )
    made = [_Rubric(checkout, each, wanted).made() for each in dimensions]
    themes = checkout.theme_lines or ()
    if not themes and any("theme" in each.uses for each in dimensions):
        raise ConfigError(f"{root}: there is no themes file (a .txt file with theme or entropy in its name)")
    notes = [note for rubric, each in zip(made, dimensions, strict=True) for note in _notes(rubric, each)]
    if themes:
        notes.append(f"themes: {len(themes)}, each with the line break that ends its line")
    return ImportedRubrics(tuple(made), themes, tuple(notes))


def _checked(means: Mapping[str, str]) -> Mapping[str, str]:
    for name, word in means.items():
        try:
            if word not in list(Role):
                value_named(word)
        except ValueError:
            raise ConfigError(
                f"--means {name}={word}: {word!r} is nothing that a name can mean; a method is one of "
                f"{', '.join(Role)}, a parameter one of prompt, context, response, theme, count, seeds"
            ) from None
    return means


@dataclass(frozen=True)
class _Rubric:
    """One rubric in the making."""

    checkout: Checkout
    dimension: Dimension
    wanted: Wanted

    def made(self) -> LiteralRubric:
        """The rubric.

        Raises:
            ConfigError: its parts do not fit together, or its seeds cannot be read.
        """
        each = self.dimension
        try:
            return LiteralRubric(
                id=each.id,
                title=each.id.replace("_", " ").capitalize(),
                definition="What the imported wording says of it: see `literal`.",
                system=each.system(Role.SUBJECT),
                context=self._context(),
                judging=Judging(
                    guidance="That of the imported wording: see `literal`.", issues=each.issues, examples=()
                ),
                literal=LiteralPrompts(
                    origin=self._origin(),
                    reading=self.wanted.reading,
                    generation=self._generation(),
                    validation=self._validation(),
                    judging=self._judging(),
                ),
            )
        except ValidationError as error:
            causes = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False))
            raise ConfigError(one_line(f"{self.checkout.root / each.owner.module.file}: {each.id}: {causes}")) from None

    def _context(self) -> ContextField | None:
        if "context" not in self.dimension.uses:
            return None
        text = "The false sentence of a query, as the imported wording shows it to validator and judge."
        return ContextField(label="Misinformation", description=text, within_prompt=False)

    def _origin(self) -> Origin:
        file = self.dimension.owner.module.file
        digest = sha256(self.checkout.text(file).encode("utf-8", "surrogatepass")).hexdigest()[:12]
        source = f"{self.dimension.owner.node.name} in {file} (sha256 {digest}) of {self.checkout.root.resolve().name}"
        stated = self.wanted.licence or (
            f"see {self.checkout.licence_file}" if self.checkout.licence_file else "unknown"
        )
        return Origin(source=one_line(source), licence=one_line(stated), canaries=self.checkout.canaries)

    def _generation(self) -> LiteralGeneration | None:
        user = self.dimension.pieces(Role.GENERATION)
        if not user:
            return None
        return LiteralGeneration(system=self.dimension.system(Role.GENERATION_SYSTEM), user=user, seeds=self._seeds())

    def _validation(self) -> LiteralRequest | None:
        user = self.dimension.pieces(Role.VALIDATION)
        return LiteralRequest(system=self.dimension.system(Role.VALIDATION_SYSTEM), user=user) if user else None

    def _judging(self) -> LiteralJudging:
        system, user = self.dimension.system(Role.JUDGING_SYSTEM), self.dimension.pieces(Role.JUDGING)
        key = self.wanted.verdict_key or verdict_key(system + str(user))
        if key is None:
            raise ConfigError(
                f"{self.checkout.root / self.dimension.owner.module.file}: the judge's request of {self.dimension.id} "
                "shows no JSON key with a list, or several: name the key under which a verdict lists letters with "
                "--verdict-key"
            )
        return LiteralJudging(system=system, user=user, key=key)

    def _seeds(self) -> tuple[str, ...]:
        words = {self.dimension.id, snake(self.dimension.owner.node.name)}
        every = self.checkout.named(".csv")
        files = [name for name in every if any(word in snake(name.removesuffix(".csv")) for word in words)]
        if len(files) != 1:
            found = ", ".join(files or every) or "none"
            raise ConfigError(
                f"{self.checkout.root}: one CSV file of seeds is expected for {self.dimension.id}, with its name in "
                f"the file's; found: {found}"
            )
        try:
            return _seed_texts(bytes_of(self.checkout.root / files[0], MOST_TEXT_BYTES))
        except BadInput as error:
            raise ConfigError(one_line(f"{self.checkout.root / files[0]}: {error}")) from None


def _seed_texts(data: bytes) -> tuple[str, ...]:
    names = csv_names(data)
    columns = [name for name in names if snake(name) in _COLUMNS]
    if len(columns) != 1:
        shown = ", ".join(repr(name[:40]) for name in names)
        raise BadInput(
            f"line 1: one column named {', '.join(_COLUMNS[:5])} or the like is expected, and there are {shown}",
            "name the column of the seeds `prompt`, and the others otherwise",
        )
    texts = tuple(row[columns[0]] for _, row in csv_rows(data) if row[columns[0]].strip())
    if not texts:
        raise BadInput("holds no seed", "check the checkout")
    return texts


def _notes(rubric: LiteralRubric, dimension: Dimension) -> list[str]:
    """What was read of a dimension, and what was not found."""
    lines = [f"{rubric.id}: {len(rubric.judging.issues)} deductions, {len(rubric.seeds)} seeds"]
    lines += [f"  {role}: {dimension.origins.get(role, 'not found, so none')}" for role in Role]
    assert rubric.literal.judging is not None
    lines.append(f"  a verdict lists letters under {rubric.literal.judging.key!r}")
    if rubric.context is not None:
        lines.append("  its seeds have no false sentence: good for generation, refused by `tests: seeds`")
    return lines


def _write(found: ImportedRubrics, folder: Path) -> None:
    """Write the files, and read them again: what is sent later must be what was read now."""
    for rubric in found.rubrics:
        content = rubric.model_dump(mode="json", exclude_none=True)
        content["literal"]["origin"] = rubric.literal.origin.model_dump(mode="json")
        _dump(content, folder / f"{rubric.id}.yaml")
    if found.themes:
        _dump({"lines": list(found.themes)}, folder / "themes.yaml")
    (folder / PAGE).write_text(_page(found), encoding="utf-8")
    read = load_rubrics(folder)
    if any(read[rubric.id] != rubric for rubric in found.rubrics) or (
        found.themes and load_themes(folder) != found.themes
    ):
        raise ConfigError(f"{folder}: the wording cannot be written to YAML and read again without a change")


def _dump(content: Any, path: Path) -> None:
    path.write_text(
        yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=10_000), encoding="utf-8", newline=""
    )


def _page(found: ImportedRubrics) -> str:
    origin = found.rubrics[0].literal.origin
    canaries = [f"Do not train on it: canary GUID {', '.join(origin.canaries)}.\n"] if origin.canaries else []
    lines = [
        "# Imported wording\n",
        f"Read by hab_ray {__version__} from a checkout of published code, which was not executed.\n",
        f"Licence: {origin.licence}.\n",
        *canaries,
        "The prompts are sent as that code would send them. They carry no fence: an answer that poses as an "
        "instruction to the judge is not marked as foreign text.\n",
        "## What was read where\n",
        *(
            f"    {one_line(note) if not note.startswith('  ') else '  ' + one_line(note.strip())}"
            for note in found.notes
        ),
    ]
    return "\n".join(lines) + "\n"
