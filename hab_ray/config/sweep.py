"""Reads and checks the sweep file.

All problems are reported at once, before anything starts, each with file, key and remedy. `hab_ray.config.paths` says
where the files are that a sweep file names.
"""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails

from hab_ray.bounds import MAX_LISTED, BudgetUsd, Replicates, Samples, Seed, Sentinels
from hab_ray.catalog.base import Strict
from hab_ray.catalog.models import Catalog, ModelEntry, ProviderEntry, Purpose, folder_name, load_catalog
from hab_ray.catalog.vendors import RECORDED, VENDORS
from hab_ray.config.paths import nearest_sweep, resolve_paths
from hab_ray.config.preregistration import AnalysisPlan
from hab_ray.config.sections import (
    Deduplicate,
    ExecutorName,
    Folder,
    Generate,
    GivenAnswers,
    Judge,
    LeaseTimes,
    ModeName,
    Name,
    Place,
    Select,
    SpendingLimit,
    Subject,
    Validate,
    Validation,
    Variants,
    VariedJudge,
    VariedSubject,
)
from hab_ray.errors import ConfigError
from hab_ray.inputs.files import BadInput, plain_words
from hab_ray.inputs.yaml_text import yaml_file
from hab_ray.location import Location
from hab_ray.resources import bundled
from hab_ray.visible import one_line

MAX_PROBLEMS, MAX_ERRORS = 50, 500
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_FORMS = {
    "name": "takes at most 64 small letters, digits and . _ - and begins with a letter or digit, such as first-sweep",
    "deadline": "takes a number with m, h or d for minutes, hours or days, such as 90m, 6h or 2d",
}
_OR = {"dimensions": ", or `all`", "validate": ", or `off`"}


def _only_budget(budget: SpendingLimit | None, info: ValidationInfo) -> SpendingLimit | None:
    if budget and info.data.get("budget_usd") is not None:
        raise ValueError(
            "budget_usd and budget name two limits; write one of them: `budget_usd: 25` is `budget: {usd: 25}`"
        )
    return budget


def _file_or_seeds(given: Any) -> Any:
    if given is None or isinstance(given, str | os.PathLike | Location):
        return given
    raise ValueError(
        "takes the path of a file of tests, or `seeds` for the rubrics' own queries; how many tests to make per "
        "dimension is `tests:` under `select:`, as in `select: {embedding: text-embedding-3-small, tests: 30}`"
    )


class Sweep(Strict):
    """A sweep file. `tests` names a file of tests, or is `seeds` to use the rubrics' seed queries.

    `responses` names a file of given answers, to be judged besides or instead of those of the `subjects`. Its rows name
    the tests that they answer, so it needs no `tests`.

    `samples` is how often each subject is asked each test, `replicates` how often each judge reads each answer.
    `sentinels` is how many answers each judge reads again, with the other answers and when the run continues after a
    week or more: different scores reveal that the vendor has changed the judge. Each subject and dimension has an equal
    share, rounded up.

    `variants` enter neither the panel nor the means of the comparison. `raters` are files of ratings by people or by
    judges of earlier studies, shown beside the panel's verdicts; they enter no score and may be added later.

    `mode` is the default of stages and models. `deadline`, such as 90m, 6h or 2d, counts from the run's first start.
    `executor` makes online calls in this process (`local`) or by workers of Ray (`ray`). `shared_filesystem`: the local
    paths of `run` and `store` are the same folder on every machine, such as NFS. `analysis` is the preregistration.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    run: Place | None = None
    store: Place = Location("store")
    shared_filesystem: bool = False
    lease: LeaseTimes = LeaseTimes()
    seed: Seed = 0
    dimensions: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_LISTED)] | Literal["all"] = "all"
    rubrics: Folder | None = None
    budget_usd: BudgetUsd | None = None
    budget: Annotated[
        SpendingLimit | None, AfterValidator(_only_budget), Field(exclude_if=lambda budget: budget is None)
    ] = None
    deadline: Annotated[str, Field(pattern=r"^[0-9]{1,6}(\.[0-9]{1,6})?[mhd]$")] | None = None
    mode: ModeName = "auto"
    executor: ExecutorName = "auto"
    generate: Generate | None = None
    validation: Validation | None = Field(default=None, alias="validate")
    select: Select | None = None
    tests: Annotated[
        Literal["seeds"] | Place | None, Field(union_mode="left_to_right"), BeforeValidator(_file_or_seeds)
    ] = None
    providers: Mapping[Name, ProviderEntry] = {}
    responses: GivenAnswers | None = None
    subjects: Annotated[tuple[Subject, ...], Field(validate_default=True, max_length=MAX_LISTED)] = ()
    judges: tuple[Judge, ...] = Field(min_length=1, max_length=MAX_LISTED)
    raters: Annotated[tuple[Place, ...], Field(max_length=MAX_LISTED)] = ()
    samples: Samples = 1
    replicates: Replicates = 1
    sentinels: Annotated[Sentinels, Field(exclude_if=lambda number: number == 0)] = 0
    variants: Variants = Variants()
    truncated: Literal["judge", "exclude"] = "judge"
    accept_substitutes: bool = False
    deduplicate: Deduplicate = "exact"
    analysis: AnalysisPlan | None = None

    @field_validator("subjects")
    @classmethod
    def _has_answers(cls, subjects: tuple[Subject, ...], info: ValidationInfo) -> tuple[Subject, ...]:
        if not subjects and info.data.get("responses") is None:
            raise ValueError("is missing; name at least one model, or a file of answers under `responses:`")
        return subjects

    @property
    def gives_tests(self) -> bool:
        """Whether the tests are given, alone or with responses, and not generated."""
        return self.tests is not None or self.responses is not None

    @property
    def subject_names(self) -> tuple[str, ...]:
        """The subjects whose answers are judged: those that are asked, then those whose answers are given."""
        return (*(subject.name for subject in self.subjects), *(self.responses.subjects if self.responses else ()))

    @property
    def varied_subjects(self) -> tuple[VariedSubject, ...]:
        """Every subject under every subject variant. Judges read their answers; judge variants do not."""
        return tuple(variant.of(subject) for subject in self.subjects for variant in self.variants.subjects)

    @property
    def varied_judges(self) -> tuple[VariedJudge, ...]:
        """Every judge under every judge variant. They read the answers of `subject_names`."""
        return tuple(variant.of(judge) for judge in self.judges for variant in self.variants.judges)

    @property
    def run_folder(self) -> Location:
        """The run's folder; by default `runs/<name>`."""
        return self.run if self.run is not None else Location("runs") / self.name

    @property
    def time_limit(self) -> timedelta | None:
        """The deadline as a duration."""
        if self.deadline is None:
            return None
        return timedelta(**{_UNITS[self.deadline[-1]]: float(self.deadline[:-1])})

    @property
    def catalog(self) -> Catalog:
        """The shipped catalogue with this sweep's providers."""
        return load_catalog().extended(self.providers)

    def model_names(self) -> list[str]:
        """Return every model the sweep calls, without duplicates, in the order of the stages."""
        return list(dict.fromkeys(name for _, name, _ in self.modes_by_key()))

    def modes_by_key(self) -> Iterator[tuple[str, str, ModeName]]:
        """Yield the key that names a model, the model's name and how its calls are sent, in the order of the stages."""
        if self.generate and not self.gives_tests:
            yield "generate.model", self.generate.model, self.generate.mode or self.mode
            if isinstance(self.validation, Validate):
                yield "validate.model", self.validation.model, self.validation.mode or self.mode
            if self.select:
                yield "select.embedding", self.select.embedding, self.select.mode or self.mode
        for number, subject in enumerate(self.subjects):
            yield f"subjects.{number}.model", subject.model, subject.mode or self.mode
        for number, judge in enumerate(self.judges):
            yield f"judges.{number}.model", judge.model, judge.mode or self.mode

    def on_local_weights(self, weights: Path) -> Sweep:
        """Return the sweep with every chat model that `hab` serves itself replaced by a .gguf file.

        It has its own run folder, because its subjects differ, and its own store if that is in the run folder. A
        subject or judge named after its model is renamed after the file; if several are, each keeps its old name after
        the new one.
        """
        catalog = self.catalog

        def replaced(name: str) -> str:
            provider = catalog.find(name).provider
            return f"{provider}/{weights}" if catalog.providers[provider].serve else name

        def changed(entry: Generate | Validate) -> Any:
            return entry.model_copy(update={"model": replaced(entry.model)})

        def renamed(entries: tuple[Any, ...]) -> tuple[Any, ...]:
            unnamed = {entry.name for entry in entries if entry.name == entry.model != replaced(entry.model)}
            names = {old: weights.stem if len(unnamed) == 1 else f"{weights.stem} for {old}" for old in unnamed}
            return tuple(
                changed(entry).model_copy(update={"name": names.get(entry.name, entry.name)}) for entry in entries
            )

        name = folder_name(f"{self.name}-{weights.stem}".lower())
        run = self.run_folder.sibling(name)
        has_own_store = self.store == self.run_folder / self.store.name
        return self.model_copy(
            update={
                "name": name,
                "run": run,
                "store": run / self.store.name if has_own_store else self.store,
                "generate": changed(self.generate) if self.generate else None,
                "validation": changed(self.validation) if isinstance(self.validation, Validate) else self.validation,
                "subjects": renamed(self.subjects),
                "judges": renamed(self.judges),
            }
        )


def load_sweep(path: Path, changes: Mapping[str, Any] | None = None) -> Sweep:
    """Read and check a sweep file, or the shipped one of this name.

    `changes` replace top-level keys (the command line's options).

    Raises:
        ConfigError: with one line per problem.
    """
    file = shipped_or_own(path)
    try:
        given = yaml_file(file)
    except BadInput as error:
        near = None if os.path.lexists(file) else nearest_sweep(path)
        told = f"{error.cause}; did you mean {near}?" if near else str(error)
        raise ConfigError(one_line(f"{path}: {told}")) from None
    if not isinstance(given, dict):
        raise ConfigError(
            f"{path}: a sweep file is a mapping of keys, such as `name: first` with a space after the colon; "
            "see jobs/demo.yaml"
        )
    if given.keys() >= {"id", "sweep", "as_of"}:
        raise ConfigError(
            f"{path}: is the record that a run keeps of itself, not a sweep file; name that file or, if it is lost, "
            "copy what is under `sweep:` here into a new one"
        )
    return checked_sweep(resolve_paths(given, file) | dict(changes or {}), str(path))


def checked_sweep(given: Mapping[str, Any], where: str) -> Sweep:
    """Return the sweep that a mapping of keys describes; `where` names the source of the keys in messages.

    Raises:
        ConfigError: keys are invalid, or do not fit each other, the catalogue or existing files; a line per problem.
    """
    try:
        sweep = Sweep.model_validate(given)
    except ValidationError as error:
        errors = error.errors(include_url=False)[:MAX_ERRORS]
        causes = [each for each in errors if not _is_consequence(each, given, errors)]
        raise ConfigError(_listed(one_line(f"{where}: {_explained(given, each)}") for each in causes)) from None
    if problems := list(_problems(sweep)):
        raise ConfigError(_listed(one_line(f"{where}: {p}") for p in problems))
    return sweep


def shipped_or_own(path: Path) -> Path:
    """Return the path itself if it exists, else that of the shipped sweep of this name, if there is one."""
    if os.path.exists(path) or path.parts[:1] != ("jobs",):
        return path
    shipped = Path(str(bundled("jobs").joinpath(*path.parts[1:])))
    return shipped if shipped.is_file() else path


def _listed(problems: Iterable[str]) -> str:
    shown = list(dict.fromkeys(problems))
    more = [f"and {len(shown) - MAX_PROBLEMS:,} more"] if len(shown) > MAX_PROBLEMS else []
    return "\n".join([*shown[:MAX_PROBLEMS], *more])


def _is_consequence(error: ErrorDetails, given: Any, errors: Sequence[ErrorDetails]) -> bool:
    """Whether the error only follows from another, inside the same list or section, which pydantic reports too."""
    value = error["input"]
    if error["type"] == "too_short":
        return isinstance(value, Collection) and len(value) > 0
    if error["type"] == "missing" and error["loc"][-1] == "name":  # a subject or judge is named by its model
        return any(each["type"] == "missing" and each["loc"] == (*error["loc"][:-1], "model") for each in errors)
    if error["type"] != "literal_error":
        return False
    keys = _keys(given, error)
    others = (_keys(given, each) for each in errors if each["type"] != "literal_error" or _keys(given, each) != keys)
    return any(other[: len(keys)] == keys for other in others)


def _explained(given: Any, error: ErrorDetails) -> str:
    if error["type"] == "invalid_key":
        return f"{error['input']!r}: keys must be text; correct it or put it in quotes"
    keys = _keys(given, error)
    where = ".".join(keys)
    if error["type"] != "extra_forbidden":
        return f"{where}: {_wrong_type(where, error) or plain_words(error)}"
    near = difflib.get_close_matches(keys[-1], _known_keys(keys), n=1)
    hint = f"did you mean {near[0]!r}?" if near else "remove it, or see docs/sweep.md for the keys of a sweep file"
    return f"{where}: unknown key; {hint}"


def _wrong_type(where: str, error: ErrorDetails) -> str | None:
    """Return how to write what is empty, needs another form, or looks like a number; None for any other error."""
    value, kind = error["input"], error["type"]
    if value is None and kind != "value_error":
        return "is empty; write its value, or remove the key"
    if kind == "string_pattern_mismatch" or (kind == "string_type" and where == "deadline"):
        return _FORMS.get(where)
    if kind == "string_type" and isinstance(value, bool | int | float | date):
        return "must be text; put it in quotes"
    if kind == "tuple_type":
        written = f"; write [{value}]" if isinstance(value, str) and value else ""
        return f"takes a list{_OR.get(where, '')}{written}"
    if kind == "model_type" and where in _OR:
        return f"{plain_words(error)}{_OR[where]}"
    if where == "budget" and isinstance(value, int | float) and not isinstance(value, bool):
        return f"takes a mapping; for a hard limit write `budget_usd: {value}`"
    return None


def _keys(given: Any, error: ErrorDetails) -> list[str]:
    """Return the path of the wrong value in the file; pydantic's path also names the members of unions it tried."""
    keys = []
    for part in error["loc"]:
        inside = part in given if isinstance(given, dict) else isinstance(given, list) and isinstance(part, int)
        if inside:
            given = given[part]
            keys.append(str(part))
    if error["type"] == "missing" or (error["loc"] and not keys):
        keys.append(str(error["loc"][-1]))
    return keys


def _known_keys(keys: Sequence[str]) -> list[str]:
    """Return the keys allowed in place of the last one; list indices and names in mappings select no section."""
    sections: list[type[Strict]] = [Sweep]
    for key in keys[:-1]:
        every = ((name, field) for section in sections for name, field in section.model_fields.items())
        fields = [field for name, field in every if key == (field.alias or name)]
        sections = [inner for field in fields for inner in _sections_in(field.annotation)] or sections
    return [field.alias or name for section in sections for name, field in section.model_fields.items()]


def _sections_in(annotation: Any) -> Iterator[type[Strict]]:
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        yield annotation
    for part in get_args(annotation):
        yield from _sections_in(part)


def _problems(sweep: Sweep) -> Iterable[str]:
    yield from _doubled("subjects", (*sweep.subject_names, *(s.name for s in sweep.varied_subjects)))
    yield from _doubled("judges", (j.name for j in (*sweep.judges, *sweep.varied_judges)))
    if "panel" in {j.name for j in sweep.judges}:
        yield "judges: the name 'panel' stands for all judges together; give this judge another `name:`"
    catalog = sweep.catalog
    yield from _gateway_problems(sweep.providers)
    yield from _unknown_kinds(catalog, sweep.providers, sweep.run_folder)
    for key, name, mode in sweep.modes_by_key():
        try:
            entry = catalog.find(name)
        except ConfigError as error:
            yield f"{key}: {error}"
            continue
        wanted = Purpose.EMBEDDING if key.startswith("select") else Purpose.CHAT
        if entry.purpose is not wanted:
            yield f"{key}: {name} is a model for {entry.purpose}, and this key needs one for {wanted}; name another"
        if mode == "batch" and entry.batch is None:
            yield f"{key}: {_no_batches(name, entry, sweep)}"
    yield from _unknown_dimensions(sweep)
    yield from _missing_files(sweep)
    yield from _doubled("raters", map(str, sweep.raters))
    if sweep.variants.subjects and not sweep.subjects:
        yield "variants.subjects: the sweep asks no subject that could be varied; name some, or leave the variants out"
    if sweep.responses and sweep.responses.only and not sweep.raters:
        yield "responses.only: needs `raters:`; name the files of people's ratings there, or leave it out"
    if not sweep.gives_tests and not (sweep.generate and sweep.select):
        yield "generate, select: both are needed unless `tests:` names given tests or 'seeds'"


def _unknown_dimensions(sweep: Sweep) -> Iterable[str]:
    if sweep.dimensions == "all" or (sweep.rubrics and not os.path.isdir(sweep.rubrics)):
        return
    from hab_ray.rubric import rubric_names, unknown_dimensions  # not needed to read a run

    yield from unknown_dimensions(sweep.dimensions, sweep.rubrics, rubric_names(sweep.rubrics))


def _missing_files(sweep: Sweep) -> Iterable[str]:
    if sweep.rubrics is not None and not os.path.isdir(sweep.rubrics):
        yield f"rubrics: there is no folder {sweep.rubrics}; name one that holds <dimension>.yaml files"
    for number, variant in enumerate(sweep.variants.judges):
        if variant.rubrics is not None and not os.path.isdir(variant.rubrics):
            yield f"variants.judges.{number}.rubrics: there is no folder {variant.rubrics}; name one with rubric files"
    if isinstance(sweep.tests, Location) and sweep.tests.is_local and not os.path.isfile(sweep.tests.path):
        yield f"tests: there is no file {sweep.tests}; name a .parquet, .csv or .jsonl file, or 'seeds'"
    for number, file in enumerate(sweep.raters):
        if file.is_local and not os.path.isfile(file.path):
            yield f"raters.{number}: there is no file {file}; name a .parquet, .csv or .jsonl file"


def _no_batches(name: str, entry: ModelEntry, sweep: Sweep) -> str:
    online = "give the model `mode: online`, or the sweep `mode: auto`"
    own = sweep.providers.get(entry.provider)
    cause = f"{name} has no batch API that hab can use, but its calls have `mode: batch`"
    if own is None or own.url is None:
        return f"{cause}; {online}"
    has_vendor_terms = own.like is not None and own.batch is None
    terms = "true`" if has_vendor_terms else "{discount: 0.5}` (the share taken off the online price)"
    return (
        f"{cause}: an endpoint with its own `url:` is assumed to have none; if {entry.provider} has one, write "
        f"`providers.{entry.provider}.batch: {terms}, else {online}"
    )


def _gateway_problems(providers: Mapping[str, ProviderEntry]) -> Iterable[str]:
    vendors = load_catalog().vendors
    for name, own in providers.items():
        key, vendor = f"providers.{name}", load_catalog().gateway_to(own.like)
        if own.like is None:
            if own.batch is True:
                yield f"{key}.batch: `true` needs `like:`; else give the terms ({{discount: 0.5}} is half the price)"
        elif vendor is None:
            near = difflib.get_close_matches(own.like, vendors, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            listed = ", ".join(vendors)
            yield f"{key}.like: the catalogue has no vendor {own.like!r}; {hint}It has {listed}. Or give its `kind:`"
        elif own.kind != vendor.kind:
            yield f"{key}.kind: {own.like} is of kind {vendor.kind!r}, not {own.kind!r}; leave out `kind` or `like`"
        elif name in vendors and name != own.like:
            yield f"{key}.like: {name} is a vendor itself, and these replies would be stored as its own; rename it"


def _unknown_kinds(catalog: Catalog, own: Iterable[str], run: Location) -> Iterable[str]:
    for name in own:
        provider = catalog.providers[name]
        if provider.like and provider.like not in catalog.vendors:
            continue
        try:
            VENDORS.find(provider.kind)
        except ConfigError as error:
            yield f"providers.{name}.kind: {error}{_from_package(run, provider.kind)}"


def _from_package(run: Location, kind: str) -> str:
    """Return which package added a kind to a run on this machine, by its record; "" if that does not say so."""
    with suppress(BadInput, ConfigError, KeyError, TypeError):
        package = yaml_file(run.path / "sweep.yaml")["versions"][f"{RECORDED}{kind}"]
        return f": the run in {run} has it from the package {package}"
    return ""


def _doubled(key: str, names: Iterable[str]) -> Iterable[str]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{key}: {name!r} appears {count} times; give each entry a `name:` of its own"


def spending_limit(sweep: Sweep) -> SpendingLimit | None:
    """Return the budget, from `budget` or `budget_usd`; None without one."""
    return sweep.budget or (None if sweep.budget_usd is None else SpendingLimit(usd=sweep.budget_usd))
