"""Checks a sweep before it starts: keys, retired models, prices. Reports all problems at once, with remedies."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from itertools import chain, product, starmap
from pathlib import Path

from hab_ray.catalog.addresses import cluster_address
from hab_ray.catalog.models import (
    OF_ACCOUNTS,
    SURELY_LIKE,
    Capabilities,
    Limits,
    Model,
    ProviderEntry,
    Purpose,
)
from hab_ray.config.preregistration import OVERALL, Compared
from hab_ray.config.sweep import Sweep
from hab_ray.errors import ConfigError, HabError, installing
from hab_ray.local import SERVER_PACKAGE
from hab_ray.location import Location
from hab_ray.planning.counting import models_to_call
from hab_ray.planning.models import lifecycle, price, rise, settings, unlisted
from hab_ray.planning.problems import LEAVE_OUT, Problem, Severity
from hab_ray.providers import load_vendor
from hab_ray.providers.access import how_to_set, secret_problem
from hab_ray.resolve import resolve
from hab_ray.resources import is_ray_job
from hab_ray.rubric import short_assessments
from hab_ray.stages.added import changed_packages
from hab_ray.stages.prompts.wording import unshown_values
from hab_ray.stages.views import responses_file, verdicts_file
from hab_ray.storage.folder import reach
from hab_ray.storage.format import refuse_newer
from hab_ray.storage.modes import refuse_unwritable
from hab_ray.storage.record import Record, read_record
from hab_ray.storage.run import RunFolder
from hab_ray.work import Work

_OF_RAY = "runtime_resources"  # Ray's folder for what it unpacks
_CORRECT = "correct it: a change after the first answer is listed in the report"


def prepare(sweep: Sweep, now: datetime, failures_since: int = 0) -> tuple[Work, list[Problem]]:
    """Resolve a sweep, and return its work and its problems; see `preflight` for `failures_since`.

    Raises:
        ConfigError: the sweep cannot be resolved at all.
    """
    if is_ray_job(os.environ):
        refuse_paths_in_package(sweep, Path.cwd())
    if sweep.executor != "local":
        cluster_address(os.environ)
    reach(sweep.run_folder)
    refuse_newer(reach(sweep.store), f"store at {sweep.store}")
    work = resolve(sweep, now)
    return work, preflight(work, os.environ, now.date(), failures_since)


def refuse_second_run(sweep: Sweep, file: Path) -> None:
    """Check that a sweep file whose run is in the file's folder is not started in another folder by mistake.

    `run` and `store` are relative to the current folder, so that there every call would be paid for again. Raise
    ConfigError if both are relative, and the run is beside the file but not here.
    """
    folder, run = file.parent.resolve(), sweep.run_folder
    is_relative = all(each.is_local and not Path(str(each)).is_absolute() for each in (run, sweep.store))
    with suppress(PermissionError):  # another user's run, which is not this one
        if is_relative and RunFolder(Location.of(folder) / str(run)).exists() and not RunFolder(run).exists():
            raise ConfigError(
                f"{file}: its run is in {folder / str(run)}, but you are in {Path.cwd()}, where a new run would pay "
                f"for every call again; work in {folder}, or, if you mean a new run, give `run:` and `store:` absolute "
                "paths, or name them by --run and --store"
            )


def refuse_paths_in_package(sweep: Sweep, folder: Path) -> None:
    """Check that a Ray job whose working directory is `folder` keeps its results and its store elsewhere.

    Raises:
        ConfigError: they would be deleted with the job's package.
    """
    places = {"run": sweep.run_folder, "store": sweep.store}
    if lost := [f"`{key}: {place}`" for key, place in places.items() if _is_lost(place, folder)]:
        raise ConfigError(
            f"{' and '.join(lost)}: this is a Ray job, which works in a temporary copy of the uploaded package. Ray "
            "deletes that copy, and the next submit would pay for every call again. Give both places an address that "
            "outlives the job: put `run: s3://BUCKET/hab/runs/NAME` and `store: s3://BUCKET/hab/store` (or absolute "
            "paths on a disk that every node mounts) into the sweep, or add --run and --store to the submitted line"
        )


def _is_lost(place: Location, folder: Path) -> bool:
    """Whether a location is relative, or an absolute path into the copy of the package."""
    if not place.is_local:
        return False
    path, is_copy = Path(str(place)), _OF_RAY in folder.parts
    return not path.is_absolute() or (is_copy and path.resolve().is_relative_to(folder.resolve()))


def preflight(work: Work, environ: Mapping[str, str], today: date, failures_since: int = 0) -> list[Problem]:
    """Return all problems of a resolved sweep that can be found without a call. API keys are in `environ`.

    A model without open calls needs no key, and that it was retired is only a warning: its answers stay. Permanent
    failures of epochs before `failures_since` count as open calls.
    """
    to_call = cache(lambda: _models_to_call(work, failures_since))
    record = read_record(work.run_path)
    found = [
        *_places(work.sweep),
        *_vendors(work),
        *_weights(work),
        *(_unless_answered(problem, to_call) for problem in _server(work)),
        *_overrides(work),
        *_limits(work),
        *_keys(work, environ, to_call),
        *settings(work),
        *_batches(work),
        *unlisted(work),
        *_analysis(work, record),
        *_own_texts(work, record),
        *(chain(_packages(record, work), _left_out(record, work)) if record else ()),
    ]
    for model in work.models.values():
        found += [_unless_answered(problem, to_call) for problem in lifecycle(work.sweep, model, today)]
        found += [*price(model), *rise(work.sweep, model, today)]
    return found


def _models_to_call(work: Work, failures_since: int) -> Set[str]:
    """Return the models with open calls; all of them if files cannot be read, which later steps report."""
    with suppress(OSError, HabError):
        return models_to_call(work, failures_since)
    return work.models.keys()


def _places(sweep: Sweep) -> Iterator[Problem]:
    """Find run and store folders that are not writable; a missing permission is a warning, as a cluster may have it."""
    for key, place in (("run", sweep.run_folder), ("store", sweep.store)):
        if place.is_local:
            try:
                refuse_unwritable(place.path)
            except OSError as error:
                severity = Severity.WARNING if isinstance(error, PermissionError) else Severity.ERROR
                cause = f"{key}: {place} cannot be written here ({error.strerror})"
                yield Problem(severity, (), cause, f"name another `{key}:`, on a disk that this user may write")


def _analysis(work: Work, record: Record | None) -> Iterator[Problem]:
    """Find names in the declared analysis that the sweep does not have, or that its families do not use."""
    sweep, plan = work.sweep, work.sweep.analysis
    if plan is not None:
        judges = [judge.name for judge in sweep.judges]
        for unknown in plan.unknown_names(sweep.subject_names, judges, work.rubrics):
            yield Problem(Severity.WARNING, (), f"{unknown} is not in this sweep", _CORRECT)
        for number, family in enumerate(plan.families):
            if family.compares is Compared.DIMENSIONS and OVERALL in family.among:
                cause = f"analysis.families.{number}.among: {OVERALL} is the mean of the dimensions and not one of them"
                yield Problem(Severity.WARNING, (), f"{cause}: it is compared with none", _CORRECT)
            if family.compares is Compared.DIMENSIONS and family.dimensions != (OVERALL,):
                cause = f"analysis.families.{number}.dimensions: has no effect, as this family compares dimensions"
                remedy = "name those to compare in `among:`, and leave `dimensions:` out"
                yield Problem(Severity.WARNING if record else Severity.ERROR, (), cause, remedy)


def _own_texts(work: Work, record: Record | None) -> Iterator[Problem]:
    """Find what spoils replies in the sweep's own rubrics and prompts; a run that has started may go on with it."""
    severity = Severity.WARNING if record else Severity.ERROR
    reworded = ((judge.rubrics, work.wordings[judge.name]) for judge in work.sweep.varied_judges)
    folders = ((folder, rubrics) for folder, rubrics in ((work.sweep.rubrics, work.rubrics), *reworded) if folder)
    files = ((rubric, folder / f"{name}.yaml") for folder, rubrics in folders for name, rubric in rubrics.items())
    short = (short_assessments(rubric, file) for rubric, file in files)
    for problem in (*chain.from_iterable(short), *unshown_values(work.prompts)):
        yield Problem(severity, (), f"{problem.file}: {problem.field}: {problem.cause}", problem.remedy)


def _packages(record: Record, work: Work) -> Iterator[Problem]:
    """Find stages and vendors whose packages are others than those that made the run's rows."""
    for cause in changed_packages(record.versions, work):
        remedy = "rows from now on may differ from earlier ones: install the earlier package, or name another `run:`"
        yield Problem(Severity.WARNING, (), cause, remedy)


def _left_out(record: Record, work: Work) -> Iterator[Problem]:
    """Find subjects, judges, variants and dimensions that the run has answers of and the sweep no longer names."""
    so_far = _named_so_far(record, work)
    if gone := [what for what, is_named, files in so_far if not is_named and any(map(work.run.count, files))]:
        cause = f"{work.run_path} also holds {', '.join(gone)}, which this sweep no longer names"
        remedy = "left out of the scores and the report from now on; what they cost still counts as spent"
        yield Problem(Severity.WARNING, (), cause, remedy)


def _named_so_far(record: Record, work: Work) -> Iterator[tuple[str, bool, Iterable[str]]]:
    """Yield what the run has named so far, whether the sweep still names it, and the files of its rows."""
    before, sweep, variants = record.sweep, work.sweep, work.sweep.variants
    subjects, dimensions = before.subject_names, record.dimensions
    for name in (subject.name for subject in before.subjects):
        yield name, name in sweep.subject_names, starmap(responses_file, product([name], dimensions))
    for name in (judge.name for judge in before.judges):
        files = starmap(verdicts_file, product([name], subjects, dimensions))
        yield f"judge {name}", name in {judge.name for judge in sweep.judges}, files
    for name in dimensions:
        yield f"dimension {name}", name in work.rubrics, starmap(responses_file, product(subjects, [name]))
    for variant in before.variants.subjects:
        answers = product([variant.of(subject).name for subject in before.subjects], dimensions)
        is_named = variant.name in {one.name for one in variants.subjects}
        yield f"variant {variant.name}", is_named, starmap(responses_file, answers)
    for reading in before.variants.judges:
        read = product([reading.of(judge).name for judge in before.judges], subjects, dimensions)
        is_named = reading.name in {one.name for one in variants.judges}
        yield f"judges' variant {reading.name}", is_named, starmap(verdicts_file, read)


def available_only(sweep: Sweep, problems: Sequence[Problem]) -> Sweep:
    """Return the sweep without the subjects and judges that have an error.

    Raises:
        ConfigError: nothing would be left, or tests cannot be made without one of the models.
    """
    errors = [p for p in problems if p.severity is Severity.ERROR]
    failing = {name for problem in errors for name in problem.models}
    making = [(key, name) for key, name, _ in sweep.modes_by_key() if not key.startswith(("subjects.", "judges."))]
    if needed := [f"{key}: {name}" for key, name in making if name in failing]:
        raise ConfigError("\n".join([f"tests cannot be made without {', '.join(needed)}", *map(str, errors)]))
    subjects = tuple(s for s in sweep.subjects if s.model not in failing)
    judges = tuple(j for j in sweep.judges if j.model not in failing)
    for key, asked, left in (("subjects", sweep.subjects, subjects), ("judges", sweep.judges, judges)):
        if asked and not left:
            listed = "\n".join(f"  {p}" for p in errors)
            raise ConfigError(f"{key}: none of them can be called:\n{listed}")
    return sweep.model_copy(update={"subjects": subjects, "judges": judges})


def left_out(problems: Sequence[Problem]) -> list[Problem]:
    """Return the errors because of which models are left out, as warnings that name them."""
    return [
        replace(problem, severity=Severity.WARNING, remedy=f"left out: {', '.join(problem.models)}")
        for problem in problems
        if problem.severity is Severity.ERROR and problem.models
    ]


def _models_of(work: Work) -> Mapping[str, list[str]]:
    users: dict[str, list[str]] = defaultdict(list)
    for model in work.models.values():
        users[model.entry.provider].append(model.name)
    return users


def _vendors(work: Work) -> Iterator[Problem]:
    """Find provider kinds that cannot be used."""
    for name, models in _models_of(work).items():
        try:
            vendor = load_vendor(work.catalog.providers[name].kind)
        except ConfigError as error:
            yield Problem(Severity.ERROR, tuple(models), f"providers.{name}.kind: {error}", LEAVE_OUT)
            continue
        by_batch = [model for model in models if work.models[model].entry.batch]
        if vendor.connect_batch is None and by_batch:
            cause = f"providers.{name}: its kind does not support batches; `batch:` is set for {', '.join(by_batch)}"
            yield Problem(Severity.ERROR, tuple(by_batch), cause, "remove `batch:`")


def _unfit_secrets(name: str, provider: ProviderEntry, environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return, by variable, what it should hold and why that cannot be sent."""
    wanted = {provider.key_env: f"a key of {name}"} if provider.key_env else {}
    wanted |= {variable: f"the value of the header {header}" for header, variable in provider.headers_env.items()}
    problems = ((variable, value, secret_problem(variable, environ)) for variable, value in wanted.items())
    return {variable: (value, problem) for variable, value, problem in problems if problem}


def _runs_without(sweep: Sweep, failing: Set[str]) -> bool:
    making = {name for key, name, _ in sweep.modes_by_key() if not key.startswith(("subjects.", "judges."))}
    subjects, judges = {s.model for s in sweep.subjects}, {j.model for j in sweep.judges}
    return not making & failing and all(not asked or asked - failing for asked in (subjects, judges))


def _weights(work: Work) -> Iterator[Problem]:
    """Find different weights that the local server could not tell apart, because it knows them by the same name."""
    served: dict[str, list[Model]] = defaultdict(list)
    for model in work.models.values():
        if work.catalog.providers[model.entry.provider].serve:
            served[model.entry.wire].append(model)
    for wire, models in served.items():
        if len({model.entry.weights for model in models}) > 1:
            names = tuple(model.name for model in models)
            cause = f"{' and '.join(names)}: the local server would know both by the name {wire}"
            yield Problem(Severity.ERROR, names, cause, "keep one of them, or rename one of the files")


def _server(work: Work) -> Iterator[Problem]:
    """Find chat models of the local server if the package that it needs for them is missing."""
    chat = [model for model in work.models.values() if model.entry.purpose is Purpose.CHAT]
    served = tuple(model.name for model in chat if work.catalog.providers[model.entry.provider].serve)
    if served and find_spec(SERVER_PACKAGE) is None:
        cause = f"{', '.join(served)}: the package {SERVER_PACKAGE}, which runs local models, is not installed"
        yield Problem(Severity.ERROR, served, cause, installing("local"))


def _overrides(work: Work) -> Iterator[Problem]:
    """Find overrides for models that are not there. A provider of the sweep's own may have more models than it uses."""
    for name in work.sweep.providers:
        given = work.catalog.providers[name].models.keys()
        shipped = {known: entry.wire for known, entry in work.catalog.models.items() if entry.provider == name}
        models = [model for model in work.models.values() if model.entry.provider == name]
        asked = {wire: wire for model in models for wire in (model.entry.wire, model.name.partition("/")[2])}
        likely = {known.lower(): wire for known, wire in {**shipped, **asked}.items() if wire not in given}
        for key in sorted(given - {*shipped.values(), *asked}):
            near = get_close_matches(key.lower(), likely, 1, SURELY_LIKE)
            if near or shipped:
                cause = f"providers.{name}.models.{key}: {name} has no model of this wire name, so this has no effect"
                remedy = f"write {likely[near[0]]}" if near else "write a model's wire name, as `provider/model` has it"
                yield Problem(Severity.WARNING, (), cause, remedy)


def _limits(work: Work) -> Iterator[Problem]:
    """Find limits of single models that only an account can have."""
    for model in (model.entry for model in work.models.values()):
        provider = work.catalog.providers[model.provider]
        given = provider.models.get(model.wire, Capabilities()).limits or Limits()
        for name in sorted(OF_ACCOUNTS & given.model_fields_set):
            if getattr(given, name) == getattr(provider.limits, name):
                continue
            key = f"providers.{model.provider}.models.{model.wire}.limits.{name}"
            remedy = f"give it under providers.{model.provider}.limits"
            yield Problem(Severity.WARNING, (), f"{key}: has no effect at a single model", remedy)


def _keys(work: Work, environ: Mapping[str, str], to_call: Callable[[], Set[str]]) -> Iterator[Problem]:
    providers = work.catalog.providers
    unfit = {name: _unfit_secrets(name, providers[name], environ) for name in _models_of(work)}
    users = {
        name: [model for model in models if model in to_call()]
        for name, models in _models_of(work).items()
        if unfit[name] or not (providers[name].url or providers[name].serve)
    }
    failing = {model for name, models in users.items() if unfit[name] for model in models}
    others = ", or run with --available-only" if _runs_without(work.sweep, failing) else ""
    for name, models in ((name, models) for name, models in users.items() if models):
        for variable, (value, problem) in unfit[name].items():
            cause = f"providers.{name}: {problem}, and {', '.join(models)} cannot be called without it"
            remedy = f"{how_to_set(variable, value, environ)}{others}; without a key: `hab rehearse FILE`"
            yield Problem(Severity.ERROR, tuple(models), cause, remedy)
        if providers[name].url is None and not providers[name].serve:
            cause = f"providers.{name}: no `url`"
            yield Problem(Severity.ERROR, tuple(models), cause, "give the address of its API")


def _unless_answered(problem: Problem, to_call: Callable[[], Set[str]]) -> Problem:
    """Return an error of a model that the run has no open calls to as a warning."""
    if problem.severity is Severity.WARNING or not to_call().isdisjoint(problem.models):
        return problem
    return replace(
        problem, severity=Severity.WARNING, remedy="the run needs no more calls to it, and keeps its answers"
    )


def _batches(work: Work) -> Iterator[Problem]:
    """Find models with `mode: batch` whose vendor is not known to accept batches of them."""
    for key, name, mode in work.sweep.modes_by_key():
        entry = work.models[name].entry
        listed = work.catalog.providers[entry.provider].models.get(entry.wire)
        if mode == "batch" and name not in work.catalog.models and not (listed and listed.batch):
            cause = f"{key}: it is not known whether {entry.provider} accepts batches for {name}"
            remedy = "if it refuses them the rows stay open; `mode: auto` would send them online"
            yield Problem(Severity.WARNING, (name,), cause, remedy)
