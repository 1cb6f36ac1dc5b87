"""The sweep file: what a run asks, of whom, and where it keeps it.

Everything wrong is said at once, before anything starts, each problem naming file, key and remedy. Files that a sweep
file names are beside it (see `hab_ray.config.paths`); `run` and `store` are in the present folder.
"""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails

from hab_ray.bounds import MAX_LISTED, BudgetUsd, Replicates, Samples, Seed, Sentinels
from hab_ray.catalog.models import Catalog, ModelEntry, ProviderEntry, Purpose, Strict, folder_name, load_catalog
from hab_ray.catalog.vendors import VENDORS
from hab_ray.config.paths import beside_the_file
from hab_ray.config.preregistration import AnalysisPlan
from hab_ray.config.sections import (
    Deduplicate,
    ExecutorName,
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
from hab_ray.inputs.files import BadInput
from hab_ray.inputs.yaml_text import yaml_file
from hab_ray.location import Location
from hab_ray.resources import bundled
from hab_ray.visible import one_line

MAX_PROBLEMS, MAX_ERRORS = 50, 500
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def _only_budget(budget: SpendingLimit | None, info: ValidationInfo) -> SpendingLimit | None:
    if budget and info.data.get("budget_usd") is not None:
        raise ValueError(
            "budget_usd and budget name two limits; write one of them: `budget_usd: 25` is `budget: {usd: 25}`"
        )
    return budget


class Sweep(Strict):
    """A sweep file. `tests` names a file of tests, or `seeds`: the rubrics' own seed queries are asked.

    `responses` names a file of answers, given beside those of the `subjects` that are asked or instead of them. Its
    rows say which tests they answer, so that it may go without `tests`.

    `samples` is how often each subject is asked each test, `replicates` how often each judge reads each answer.
    `sentinels` is how many answers each judge is given once more when the answers beside them are judged, and again
    where the run goes on after a week or more: a judge whose vendor changes it meanwhile scores them otherwise.

    `variants` stand beside the subjects and judges that they vary: in no panel, and in no mean of the comparison.

    `raters` are files of ratings by people or by judges of earlier studies, which are shown beside the panel's verdicts
    and enter no score. They may be added once answers are there.

    `mode` holds for stages and models that name none. `deadline`, such as 90m, 6h or 2d,
    counts from the run's first start. `executor` says where online calls are made: in this process (`local`) or by
    workers of Ray (`ray`). `shared_filesystem`: local paths of `run` and `store` are one folder on every machine that
    works on them, such as NFS. `analysis` declares beforehand what the run is for.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    run: Place | None = None
    store: Place = Location("store")
    shared_filesystem: bool = False
    lease: LeaseTimes = LeaseTimes()
    seed: Seed = 0
    dimensions: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_LISTED)] | Literal["all"] = "all"
    rubrics: Path | None = None
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
    tests: Annotated[Literal["seeds"] | Place | None, Field(union_mode="left_to_right")] = None
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
    def _somebody_answers(cls, subjects: tuple[Subject, ...], info: ValidationInfo) -> tuple[Subject, ...]:
        if not subjects and info.data.get("responses") is None:
            raise ValueError("is missing; name at least one model, or a file of answers under `responses:`")
        return subjects

    @property
    def gives_tests(self) -> bool:
        """Whether the tests are given, with or without responses; else they are made."""
        return self.tests is not None or self.responses is not None

    @property
    def subject_names(self) -> tuple[str, ...]:
        """Those whose answers are judged: the subjects that are asked, then those whose answers are given."""
        return (*(subject.name for subject in self.subjects), *(self.responses.subjects if self.responses else ()))

    @property
    def varied_subjects(self) -> tuple[VariedSubject, ...]:
        """Each subject under each of its variants. The judges read their answers, the judges' variants do not."""
        return tuple(variant.of(subject) for subject in self.subjects for variant in self.variants.subjects)

    @property
    def varied_judges(self) -> tuple[VariedJudge, ...]:
        """Each judge under each of its variants. They read what `subject_names` answered."""
        return tuple(variant.of(judge) for judge in self.judges for variant in self.variants.judges)

    @property
    def run_folder(self) -> Location:
        """The run's folder: as given, else `runs/<name>`."""
        return self.run if self.run is not None else Location("runs") / self.name

    @property
    def time_limit(self) -> timedelta | None:
        """The deadline as a span of time."""
        if self.deadline is None:
            return None
        return timedelta(**{_UNITS[self.deadline[-1]]: float(self.deadline[:-1])})

    @property
    def catalog(self) -> Catalog:
        """The shipped catalogue with this sweep's own providers."""
        return load_catalog().extended(self.providers)

    def model_names(self) -> list[str]:
        """Every model the sweep calls, each once, in the order of the stages."""
        return list(dict.fromkeys(name for _, name in self.models_by_key()))

    def modes_by_key(self) -> Iterator[tuple[str, str, ModeName]]:
        """Where in the file a model is named, its name, and how its calls are to be sent."""
        own = {f"subjects.{i}.model": s.mode for i, s in enumerate(self.subjects)}
        own |= {f"judges.{i}.model": j.mode for i, j in enumerate(self.judges)}
        sections = {"generate.model": self.generate, "validate.model": self.validation, "select.embedding": self.select}
        own |= {key: part.mode for key, part in sections.items() if isinstance(part, Generate | Validate | Select)}
        for key, name in self.models_by_key():
            yield key, name, own[key] or self.mode

    def models_by_key(self) -> Iterator[tuple[str, str]]:
        """Where in the file a model is named, and its name, in the order of the stages."""
        if self.generate and not self.gives_tests:
            yield "generate.model", self.generate.model
            if isinstance(self.validation, Validate):
                yield "validate.model", self.validation.model
            if self.select:
                yield "select.embedding", self.select.embedding
        for number, subject in enumerate(self.subjects):
            yield f"subjects.{number}.model", subject.model
        for number, judge in enumerate(self.judges):
            yield f"judges.{number}.model", judge.model

    def on_local_weights(self, weights: Path) -> Sweep:
        """The same sweep with every chat model that `hab` serves itself replaced by a .gguf file.

        It gets a run folder of its own, because its subjects are others. A subject or judge that was called after
        its model is called after the file; where there are several such, each keeps its old name behind the new.
        """
        catalog = self.catalog

        def other(name: str) -> str:
            provider = catalog.find(name).provider
            return f"{provider}/{weights}" if catalog.providers[provider].serve else name

        def changed(entry: Generate | Validate) -> Any:
            return entry.model_copy(update={"model": other(entry.model)})

        def renamed(entries: tuple[Any, ...]) -> tuple[Any, ...]:
            bare = {entry.name for entry in entries if entry.name == entry.model != other(entry.model)}
            names = {old: weights.stem if len(bare) == 1 else f"{weights.stem} for {old}" for old in bare}
            return tuple(
                e.model_copy(update={"model": other(e.model), "name": names.get(e.name, e.name)}) for e in entries
            )

        name = folder_name(f"{self.name}-{weights.stem}".lower())
        return self.model_copy(
            update={
                "name": name,
                "run": self.run_folder.beside(name),
                "generate": changed(self.generate) if self.generate else None,
                "validation": changed(self.validation) if isinstance(self.validation, Validate) else self.validation,
                "subjects": renamed(self.subjects),
                "judges": renamed(self.judges),
            }
        )


def load_sweep(path: Path, changes: Mapping[str, Any] | None = None) -> Sweep:
    """Read and check a sweep file, or the one of this name that ships.

    `changes` replace top-level keys (the command line's options).

    Raises:
        ConfigError: with one line for each problem.
    """
    file = shipped_or_own(path)
    try:
        given = yaml_file(file)
    except BadInput as error:
        raise ConfigError(one_line(f"{path}: {error}")) from None
    if not isinstance(given, dict):
        raise ConfigError(f"{path}: a sweep file is a mapping of keys; see jobs/demo.yaml")
    return checked_sweep(beside_the_file(given, file) | dict(changes or {}), str(path))


def checked_sweep(given: Mapping[str, Any], where: str) -> Sweep:
    """The sweep that a mapping of keys describes; `where` says in messages whose keys they are.

    Raises:
        ConfigError: with one line for each problem.
    """
    try:
        sweep = Sweep.model_validate(given)
    except ValidationError as error:
        found = error.errors(include_url=False)[:MAX_ERRORS]
        lines = [
            one_line(f"{where}: {_explained(given, e)}") for e in found if not _follows_from_another(e, given, found)
        ]
        raise ConfigError(_listed(dict.fromkeys(lines))) from None
    return without_contradictions(sweep, where)


def without_contradictions(sweep: Sweep, where: str) -> Sweep:
    """The same sweep, whose keys are right each by itself, once they fit each other and the catalogue.

    Raises:
        ConfigError: with one line for each problem.
    """
    problems = list(_problems(sweep))
    if problems:
        raise ConfigError(_listed(one_line(f"{where}: {p}") for p in problems))
    return sweep


def shipped_or_own(path: Path) -> Path:
    """The file itself, else the sweep of this name that ships with the package."""
    if os.path.exists(path) or path.parts[:1] != ("jobs",):
        return path
    shipped = Path(str(bundled("jobs").joinpath(*path.parts[1:])))
    return shipped if shipped.is_file() else path


def _listed(problems: Iterable[str]) -> str:
    """Problems one a line, the first of them where there are very many."""
    shown = list(problems)
    more = [f"and {len(shown) - MAX_PROBLEMS:,} more"] if len(shown) > MAX_PROBLEMS else []
    return "\n".join([*shown[:MAX_PROBLEMS], *more])


def _follows_from_another(error: ErrorDetails, given: Any, found: Sequence[ErrorDetails]) -> bool:
    """Whether pydantic says it only because a list's or section's own error, which it names too, came before."""
    value = error["input"]
    if error["type"] == "too_short":
        return isinstance(value, Collection) and len(value) > 0
    if error["type"] != "literal_error" or not isinstance(value, list | dict):
        return False
    keys = _keys(given, error)
    return any(e["type"] != "literal_error" and _keys(given, e)[: len(keys)] == keys for e in found)


def _explained(given: Any, error: ErrorDetails) -> str:
    if error["type"] == "invalid_key":
        return f"{error['input']!r}: a key is text; correct it or put it in quotes"
    keys = _keys(given, error)
    where = ".".join(keys)
    if error["type"] != "extra_forbidden":
        return f"{where}: {error['msg'].removeprefix('Value error, ')}"
    near = difflib.get_close_matches(keys[-1], _known_keys(keys), n=1)
    hint = f"did you mean {near[0]!r}?" if near else "remove it, or see the sweep file's keys in README.md"
    return f"{where}: unknown key; {hint}"


def _keys(given: Any, error: ErrorDetails) -> list[str]:
    """The way to what is wrong, as the file has it: pydantic also names the members of unions it tried."""
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
    """The keys that may stand where the last of these does; numbers in lists and names in mappings lead nowhere."""
    sections: list[type[Strict]] = [Sweep]
    for key in keys[:-1]:
        every = ((name, field) for section in sections for name, field in section.model_fields.items())
        fields = [field for name, field in every if key == (field.alias or name)]
        sections = [inner for field in fields for inner in _sections_in(field.annotation)] or sections
    return [field.alias or name for section in sections for name, field in section.model_fields.items()]


def _sections_in(annotation: Any) -> Iterator[type[Strict]]:
    """The sections that a type has in it, at any depth."""
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
    yield from _likes(sweep.providers)
    yield from _unknown_kinds(catalog)
    for key, name, mode in sweep.modes_by_key():
        try:
            entry = catalog.find(name)
        except ConfigError as error:
            yield f"{key}: {error}"
            continue
        wanted = Purpose.EMBEDDING if key.startswith("select") else Purpose.CHAT
        if entry.purpose is not wanted:
            yield f"{key}: {name} is for {entry.purpose}, and this needs a model for {wanted}; name another"
        if mode == "batch" and entry.batch is None:
            yield f"{key}: {_without_batches(name, entry, sweep)}"
    if sweep.rubrics is not None and not os.path.isdir(sweep.rubrics):
        yield f"rubrics: there is no folder {sweep.rubrics}; name one that holds <dimension>.yaml files"
    for number, variant in enumerate(sweep.variants.judges):
        if variant.rubrics is not None and not os.path.isdir(variant.rubrics):
            yield f"variants.judges.{number}.rubrics: there is no folder {variant.rubrics}; name one with rubric files"
    if sweep.variants.subjects and not sweep.subjects:
        yield "variants.subjects: no subject is asked, so that none can be varied; name some, or leave the variants out"
    if isinstance(sweep.tests, Location) and sweep.tests.is_local and not os.path.isfile(sweep.tests.path):
        yield f"tests: there is no file {sweep.tests}; name a .parquet, .csv or .jsonl file, or 'seeds'"
    if sweep.responses and sweep.responses.only and not sweep.raters:
        yield "responses.only: needs `raters:`; name the files of people's ratings there, or leave it out"
    yield from _doubled("raters", map(str, sweep.raters))
    for number, file in enumerate(sweep.raters):
        if file.is_local and not os.path.isfile(file.path):
            yield f"raters.{number}: there is no file {file}; name a .parquet, .csv or .jsonl file"
    if not sweep.gives_tests and not (sweep.generate and sweep.select):
        yield "generate, select: both are needed unless `tests:` names given tests or 'seeds'"


def _without_batches(name: str, entry: ModelEntry, sweep: Sweep) -> str:
    """Why a model cannot go by batch, and what to do."""
    online = "give it `mode: online` of its own, or the sweep `mode: auto`"
    own = sweep.providers.get(entry.provider)
    told = f"{name} has no batch API that hab can use, and `mode: batch` holds for it"
    if own is None or own.url is None:
        return f"{told}; {online}"
    is_likes = own.like is not None and own.batch is None
    terms = "true`" if is_likes else "{discount: 0.5}` (the share taken off the online price)"
    return (
        f"{told}: an endpoint with a `url:` of its own is not taken to have one; if {entry.provider} does, say so by "
        f"`providers.{entry.provider}.batch: {terms}, else {online}"
    )


def _likes(providers: Mapping[str, ProviderEntry]) -> Iterable[str]:
    """What is wrong with endpoints that are said to be like a vendor."""
    vendors = load_catalog().vendors
    for name, own in providers.items():
        key, vendor = f"providers.{name}", load_catalog().gateway_to(own.like)
        if own.like is None:
            if own.batch is True:
                yield f"{key}.batch: `true` needs `like:`; give the terms: {{discount: 0.5}} is half the online price"
        elif vendor is None:
            near = difflib.get_close_matches(own.like, vendors, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            listed = ", ".join(vendors)
            yield f"{key}.like: the catalogue has no vendor {own.like!r}; {hint}It has {listed}. Or give its `kind:`"
        elif own.kind != vendor.kind:
            yield f"{key}.kind: {own.kind!r} is not how {own.like} speaks ({vendor.kind}); leave out `kind` or `like`"
        elif name in vendors and name != own.like:
            yield f"{key}.like: {name} is a vendor itself, among whose replies these would be kept; rename the provider"


def _unknown_kinds(catalog: Catalog) -> Iterable[str]:
    for name, provider in catalog.providers.items():
        if provider.like and provider.like not in catalog.vendors:
            continue
        try:
            VENDORS.find(provider.kind)
        except ConfigError as error:
            yield f"providers.{name}.kind: {error}"


def _doubled(key: str, names: Iterable[str]) -> Iterable[str]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{key}: {name!r} appears {count} times; give each entry a `name:` of its own"


def spending_limit(sweep: Sweep) -> SpendingLimit | None:
    """The most that a run may spend, and how surely; None without a budget."""
    return sweep.budget or (None if sweep.budget_usd is None else SpendingLimit(usd=sweep.budget_usd))
