"""From a sweep file to a run: models pinned, rubrics read and hashed, the record kept in the run's sweep.yaml.

A run's tests are made once. What they were made with, and what an existing subject or judge is, must not change
under a run: another `run:` with the same `store:` reuses every call that stays the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, ValidationError

from hab_ray.catalog import Model, ModelEntry, Purpose, Strict, folder_name
from hab_ray.config import Sweep
from hab_ray.errors import ConfigError
from hab_ray.inputs.files import BadInput, causes_of, decoded
from hab_ray.inputs.yaml_text import parse_yaml
from hab_ray.local import LocalError, default_cache, embedding_weights, pull, sha256_of
from hab_ray.location import Location
from hab_ray.preregistration import Declaration
from hab_ray.prices import priced
from hab_ray.resources import installed_versions
from hab_ray.rows import ChosenTest, Paraphrase, RaterView
from hab_ray.rubric import Origin, Rubric, load_rubrics, load_themes
from hab_ray.sections import Generate, Select, Validate
from hab_ray.stages.prompts.rewording import wordings_of
from hab_ray.stages.prompts.wording import Prompts, load_prompts
from hab_ray.stages.replies.reading import READER_VERSION
from hab_ray.stages.views import tests_file
from hab_ray.storage.answer_sample import Drawn, changed_draw
from hab_ray.storage.folder import open_folder
from hab_ray.storage.given import given_file
from hab_ray.storage.given_paraphrases import read_paraphrases
from hab_ray.storage.modes import refuse_others
from hab_ray.storage.once import ReadOnce
from hab_ray.storage.origins import origins_of, wording_origins
from hab_ray.storage.registry import RUN_ID, Registry, new_run_id
from hab_ray.storage.run import RATERS, SWEEP, RunFolder
from hab_ray.visible import one_line
from hab_ray.work import Work, drawn_tests, given_ratings, given_tests, who_answered

SETTINGS_VERSION = 2
_MAY_CHANGE = ("catalogue", "prices")
_RUBRIC = "rubric "
_JUDGES = "judges: "
_RATERS = "raters "
_PANEL = "panel"
_OF_THE_TESTS = ("seed", "generate", "validation", "select", "tests", "deduplicate")


class Record(Strict):
    """A run's sweep.yaml: the sweep as resolved and all that its results depend on.

    `id` is the run's for ever; None in records of format 0. A started run keeps its prompts and fences, so that its
    calls keep their keys; `reader_version` says by which rules its verdicts were read. `started` is the first start,
    `priced_on` the day whose prices the latest one plans, reserves and pays by: a vendor charges what it charges when
    a call is made, and what was paid before stands in the replies. In a run of `settings_version` 1 only a model
    that thinks is sent an effort. `sources` are the origins of given data and imported rubrics as of
    `hab_ray.storage.origins`; None in records from before they were kept.
    `declarations` are the analyses that were declared, the present one last. `drawn` says by dimension which of the
    given answers are read, where not all are. `store` is where the run's store was when
    it was driven last, as seen from the run's folder; None in records from before it was kept.
    """

    id: Annotated[str, Field(pattern=RUN_ID)] | None = None
    sweep: Sweep
    as_of: dict[str, str | None]
    hashes: dict[str, str]
    versions: Mapping[str, str]
    started: datetime
    priced_on: date | None = None
    prompts_version: int = 1
    fence_version: int = 1
    reader_version: int = 1
    settings_version: int = 1
    sources: Mapping[str, Origin] | None = None
    declarations: tuple[Declaration, ...] = ()
    drawn: Mapping[str, Drawn] = {}
    store: str | None = None

    def entry(self, name: str) -> ModelEntry:
        """A model as this run asks it."""
        return _entry(self.sweep, name, self)

    @property
    def rubric_hashes(self) -> dict[str, str]:
        """The digests of the rubrics by dimension, sorted."""
        found = {name: digest for name, digest in self.hashes.items() if name.startswith(_RUBRIC)}
        return {name.removeprefix(_RUBRIC): found[name] for name in sorted(found)}


def resolve(sweep: Sweep, now: datetime) -> Work:
    """Pin and read everything a sweep depends on, prices as of `now`; writes nothing.

    Local weights that are missing are fetched here.

    Raises:
        ConfigError: rubrics, dimensions, weights or the run's own record do not fit the sweep.
    """
    earlier = read_record(sweep.run_folder)
    once = ReadOnce()
    work = _pinned(_with_who_answered(sweep, _rubrics(sweep, earlier), once), earlier, now, once)
    origins_of(sweep, work.rubrics, {})  # one that cannot be read is an error before anything is asked or paid
    if earlier:
        refuse_other_store(work)
        _must_fit(work, earlier)
        _check_judges(work)
    if sweep.raters:
        _check_raters(work, earlier)
    _check_paraphrases(work)
    return work


def refuse_other_store(work: Work) -> None:
    """Check that a run is driven with the store that knows what it has spent, wherever the two were moved.

    Raises:
        ConfigError: it is another store, or a copy beside the one that is still there.
    """
    run, store, record = work.run_path, work.sweep.store, read_record(work.run_path)
    before = run.follow(record.store) if record and record.store else (record.sweep.store if record else store)
    if before.absolute() == store.absolute() or before.is_same(store):
        return
    knowing = [place for place in (before, store) if Registry(open_folder(place), place).epochs(work.run_id, run)]
    if knowing != [store]:
        there, remedy = "knows nothing of them", "or its new place if it was moved"
        if store in knowing:
            there, remedy = "is a copy of it", f"or remove it if {store} has taken its place"
        raise ConfigError(
            f"{run}: this run's replies and what it has spent of its budget are in the store {before.absolute()}, and "
            f"{store.absolute()} {there}. Name that store as `store:` or with --store, {remedy}; to spend from "
            "another, give the sweep another `run:`"
        )


def _with_who_answered(sweep: Sweep, rubrics: Mapping[str, Rubric], once: ReadOnce) -> Sweep:
    """The same sweep with the names of those whose answers are given, where it names none."""
    given = sweep.responses
    if given is None or given.subjects:
        return sweep
    names = who_answered(sweep, given, rubrics, once)
    asked = {subject.name for subject in (*sweep.subjects, *sweep.varied_subjects)}.intersection(names)
    if asked or not names:
        none = "has no answer that a person in `raters:` has rated" if given.only else "has no answers"
        what = f"has answers of {', '.join(sorted(asked))}, which `subjects:` asks" if asked else none
        raise ConfigError(f"responses: {given.file} {what}; name those that are meant: {{file: ..., subjects: [...]}}")
    return sweep.model_copy(update={"responses": given.model_copy(update={"subjects": names})})


def _pinned(sweep: Sweep, earlier: Record | None, now: datetime, once: ReadOnce) -> Work:
    rubrics = _rubrics(sweep, earlier)
    catalog = sweep.catalog
    models = {}
    for name in sweep.model_names():
        entry = priced(_entry(sweep, name, earlier), now.date())
        as_of = _as_of(name, entry, catalog.providers[entry.provider].serve, now)
        if earlier and entry.alias == "moving":
            as_of = earlier.as_of.get(name, as_of)
        models[name] = Model(name, entry, as_of)
    return Work(
        sweep=sweep,
        catalog=catalog,
        models=models,
        rubrics=rubrics,
        themes=load_themes(sweep.rubrics, earlier.hashes.get("themes") if earlier else None),
        prompts=_prompts(sweep, earlier),
        run_path=sweep.run_folder.absolute(),
        run_id=(earlier and earlier.id) or new_run_id(),
        wordings={judge.name: wordings_of(judge, rubrics) for judge in sweep.varied_judges},
        paraphrases=_paraphrases(sweep, rubrics),
        given=once,
    )


def _entry(sweep: Sweep, name: str, record: Record | None) -> ModelEntry:
    entry = sweep.catalog.find(name)
    return entry.without_lone_effort() if record and record.settings_version < SETTINGS_VERSION else entry


def _paraphrases(sweep: Sweep, rubrics: Mapping[str, Rubric]) -> dict[str, dict[str, dict[str, Paraphrase]]]:
    """The words in which varied subjects are asked, by subject and dimension; each file is read once."""
    files = {variant.tests for variant in sweep.variants.subjects if variant.tests is not None}
    read = {file: read_paraphrases(file, rubrics) for file in files}
    return {subject.name: read[subject.tests] for subject in sweep.varied_subjects if subject.tests is not None}


def _check_paraphrases(work: Work) -> None:
    """Every paraphrase is of a test that is known: given, or chosen before.

    Raises:
        ConfigError: one is not. Were it passed over until tests are chosen, the run could not go on after that.
    """
    if not work.paraphrases:
        return
    known = given_tests(work) if work.sweep.gives_tests else _chosen_before(work)
    for subject in work.sweep.varied_subjects:
        for dimension, words in work.paraphrases.get(subject.name, {}).items():
            tests = known.get(dimension, [])
            if words and not tests:
                raise ConfigError(
                    f"variants.subjects.tests: {subject.tests}: the tests of {dimension} are not chosen yet; run the "
                    "sweep without this variant first, or give tests (`tests: FILE`)"
                )
            unknown = words.keys() - {test.id for test in tests} - {test.prompt for test in tests}
            if unknown:
                raise ConfigError(
                    one_line(f"variants.subjects.tests: {subject.tests}: {dimension} has no test {min(unknown)!r}")
                    + "; name tests by their ids or their whole prompts, as they are in the run's tests/"
                )


def _chosen_before(work: Work) -> dict[str, list[ChosenTest]]:
    files = {dimension: tests_file(dimension) for dimension in work.rubrics}
    return {name: work.run.read(ChosenTest, file) for name, file in files.items() if work.run.has(file)}


def _prompts(sweep: Sweep, earlier: Record | None) -> Prompts:
    if earlier is None:
        return load_prompts(sweep.rubrics)
    return load_prompts(sweep.rubrics, earlier.prompts_version, earlier.fence_version)


def _rubrics(sweep: Sweep, earlier: Record | None) -> dict[str, Rubric]:
    known = load_rubrics(sweep.rubrics, earlier.rubric_hashes if earlier else {})
    chosen = _chosen_rubrics(sweep, known)
    for rubric in chosen.values():
        if lacking := _lacking(sweep, rubric):
            raise ConfigError(
                f"{'tests' if sweep.tests else 'generate'}: the rubric of {rubric.id} has no `{lacking}` section, "
                "which this sweep needs: write it, give tests of your own (`tests: FILE`), or leave the dimension out"
            )
        lack_context = any(seed.context is None for seed in rubric.seeds)
        if sweep.tests == "seeds" and rubric.context and lack_context:
            raise ConfigError(
                f"tests: the seeds of {rubric.id} have no {rubric.context.label.lower()}, which its judges are shown, "
                "so they cannot be asked as tests: generate tests from them, name a file of tests (`hab import "
                "tests` writes one), or leave the dimension out"
            )
    return chosen


def _lacking(sweep: Sweep, rubric: Rubric) -> str | None:
    """The section that the sweep needs of a rubric and that it does not have."""
    makes_tests = not sweep.gives_tests and sweep.generate is not None
    if not rubric.can_generate and (makes_tests or sweep.tests == "seeds"):
        return "generation"
    validates = makes_tests and isinstance(sweep.validation, Validate)
    return "validation" if validates and not rubric.can_validate else None


def _chosen_rubrics(sweep: Sweep, known: dict[str, Rubric]) -> dict[str, Rubric]:
    if sweep.dimensions == "all":
        return known
    for dimension in sweep.dimensions:
        if dimension not in known:
            where = f"{sweep.rubrics} or the built-in rubrics" if sweep.rubrics else "the built-in rubrics"
            raise ConfigError(
                f"dimensions: there is no rubric {dimension}.yaml in {where}; there are {', '.join(known)}"
            )
    return {dimension: known[dimension] for dimension in sorted(set(sweep.dimensions))}


def weights_of(name: str, entry: ModelEntry) -> Path:
    """The file of a served model's weights, fetched where it is missing.

    Raises:
        ConfigError: it cannot be had.
    """
    refuse_others(default_cache().parent, "HAB_CACHE")
    try:
        if entry.purpose is Purpose.EMBEDDING:
            return embedding_weights(entry.wire)
        return pull(entry.weights or entry.wire, cache=default_cache())
    except LocalError as error:
        raise ConfigError(f"model {name}: {error}") from None


def _as_of(name: str, entry: ModelEntry, served: bool, now: datetime) -> str | None:
    if served:
        return sha256_of(weights_of(name, entry))
    return f"{now:%Y-%m}" if entry.alias == "moving" else None


def hashes(work: Work) -> dict[str, str]:
    """The hashes of the data that a run's results depend on."""
    found = {f"{_RUBRIC}{name}": rubric.sha256 for name, rubric in work.rubrics.items()}
    for judge, wordings in work.wordings.items():
        found |= {f"wording of {judge}: {name}": rubric.sha256 for name, rubric in wordings.items()}
    for variant in work.sweep.variants.subjects:
        if variant.tests is not None:
            found[f"paraphrases of {variant.name}"] = sha256(given_file(variant.tests)).hexdigest()
    found["prompts"] = work.prompts.sha256
    found["themes"] = sha256("\n".join(work.themes).encode()).hexdigest()
    found["catalogue"] = work.catalog.sha256
    found["prices"] = _prices_sha256(work)
    if isinstance(work.sweep.tests, Location):
        found["tests"] = sha256(given_file(work.sweep.tests)).hexdigest()
    if work.sweep.responses is not None:
        found["responses"] = sha256(given_file(work.sweep.responses.file, "responses")).hexdigest()
    for file in work.sweep.raters:
        found[f"{_RATERS}{file}"] = sha256(given_file(file, "raters")).hexdigest()
    return found


def _check_judges(work: Work) -> None:
    """Refuse judges whose verdicts would be filed among the ratings that are in the run.

    Raises:
        ConfigError: a judge has the name of a rater.
    """
    raters = {view.rater for view in work.run.read(RaterView, RATERS)}
    judges = (*work.sweep.judges, *work.sweep.varied_judges)
    if taken := [judge.name for judge in judges if judge.name in raters]:
        remedy = "give the judge another `name:`"
        raise ConfigError(one_line(f"judges: {taken[0]!r} is a rater whose ratings are in {work.run_path}; {remedy}"))


def _check_raters(work: Work, earlier: Record | None) -> None:
    """Refuse raters whose ratings would be taken for verdicts of others, and ratings that cannot be read.

    Raises:
        ConfigError: a rater has the name of a judge, also of one of the run's earlier judges, or of the panel.
    """
    before = [name for name in (earlier.hashes if earlier else ()) if name.startswith(_JUDGES)]
    asked = (*work.sweep.judges, *work.sweep.varied_judges)
    judges = {*(judge.name for judge in asked), *(name.removeprefix(_JUDGES) for name in before)}
    taken = {folder_name(name): name for name in (*sorted(judges), _PANEL)}
    for rater in given_ratings(work).raters:
        other = taken.setdefault(folder_name(rater), rater)
        if other != rater or rater in judges or rater == _PANEL:
            whose = "stands for all judges together" if other == _PANEL else "is taken, as a judge's or another rater's"
            raise ConfigError(
                one_line(f"raters: the name {rater!r} {whose}; give the rater another, such as 'published {rater}'")
            )


def _entry_hashes(work: Work) -> dict[str, str]:
    sweep = work.sweep
    subjects = {f"subjects: {s.name}": s.sha256 for s in (*sweep.subjects, *sweep.varied_subjects)}
    return subjects | {f"{_JUDGES}{j.name}": j.sha256 for j in (*sweep.judges, *sweep.varied_judges)}


def _without_mode(part: object) -> object:
    """A section without its mode: how calls are sent changes nothing that is compared."""
    return part.model_copy(update={"mode": None}) if isinstance(part, Generate | Validate | Select) else part


def _prices_sha256(work: Work) -> str:
    lines = (f"{name} {model.entry.price!r} {model.entry.batch!r}" for name, model in sorted(work.models.items()))
    return sha256("\n".join(lines).encode()).hexdigest()


def write_record(work: Work, now: datetime) -> None:
    """Keep what a run depends on in its sweep.yaml.

    The first start's time stays, and so does what the sweep no longer names: its rows are still in the run, and
    it must be the same when it comes back.

    Raises:
        ConfigError: another process, which holds another store, has started the run meanwhile.
    """
    earlier = read_record(work.run_path)
    record = Record(
        id=work.run_id,
        sweep=work.sweep,
        as_of=(earlier.as_of if earlier else {}) | {name: model.as_of for name, model in work.models.items()},
        hashes=(earlier.hashes if earlier else {}) | hashes(work) | _entry_hashes(work),
        versions=installed_versions(),
        started=earlier.started if earlier else now,
        priced_on=now.date(),
        prompts_version=work.prompts.version,
        fence_version=work.prompts.fence,
        reader_version=READER_VERSION,
        settings_version=earlier.settings_version if earlier else SETTINGS_VERSION,
        declarations=earlier.declarations if earlier else (),
        drawn={**(earlier.drawn if earlier else {}), **drawn_tests(work)},
        sources=origins_of(work.sweep, work.rubrics, (earlier and earlier.sources) or {})
        | wording_origins(work.wordings),
        store=work.sweep.store.seen_from(work.run_path),
    )
    if earlier:
        return _put_record(work.run_path, record)
    try:
        RunFolder(work.run_path).folder.put_new(SWEEP, _text_of(record))
    except FileExistsError:
        if not RunFolder(work.run_path).exists():
            raise
        raise ConfigError(f"{work.run_path}: another process has just started this run; wait until it ends") from None


def keep_id(work: Work) -> None:
    """Keep the run's id in its record and leave the rest: only `hab run` checks what the run's results depend on."""
    _amend_record(work.run_path, {"id": work.run_id})


def keep_reader(work: Work) -> None:
    """Note in the run's record that its verdicts were read by the present rules, and leave the rest as `keep_id`."""
    _amend_record(work.run_path, {"reader_version": READER_VERSION})


def keep_declaration(work: Work, made: Declaration) -> None:
    """Add to the analyses that the run's record lists, and leave the rest as `keep_id`."""
    record = read_record(work.run_path)
    assert record is not None
    _amend_record(work.run_path, {"declarations": (*record.declarations, made)})


def _amend_record(run: Location, changes: Mapping[str, object]) -> None:
    record = read_record(run)
    assert record is not None
    _put_record(run, record.model_copy(update=changes))


def _put_record(run: Location, record: Record) -> None:
    RunFolder(run).folder.put(SWEEP, _text_of(record))


def _text_of(record: Record) -> bytes:
    return yaml.safe_dump(
        record.model_dump(mode="json", by_alias=True), sort_keys=False, allow_unicode=True, encoding="utf-8"
    )


def read_record(run: Location) -> Record | None:
    """A run's record; None where there is no run.

    Raises:
        ConfigError: the file was changed by hand, or is another version's.
    """
    folder = RunFolder(run)
    if not folder.exists():
        return None
    try:
        return Record.model_validate(parse_yaml(decoded(folder.folder.get(SWEEP))))
    except BadInput as error:
        cause = error.cause
    except ValidationError as error:
        cause = causes_of(error)
    raise ConfigError(
        one_line(f"{run / SWEEP}: not a record this version wrote ({cause}); use another `run:`, the store is kept")
    )


def run_id_in(run: Location) -> str | None:
    """The id of the run in a folder; None where there is none that can be read."""
    try:
        record = read_record(run)
    except ConfigError:
        return None
    return record.id if record else None


def load_work(run: Location, now: datetime) -> Work:
    """The work of a run from its folder alone, for status and report; rubric texts may have changed since.

    Raises:
        ConfigError: there is no run.
    """
    RunFolder(run).require()
    record = read_record(run)
    assert record is not None
    return _pinned(record.sweep.model_copy(update={"run": run}), record, now, ReadOnce())


def _must_fit(work: Work, earlier: Record) -> None:
    problems = list(_changes(work, earlier))
    if problems:
        listed = "\n".join(f"  {p}" for p in problems)
        raise ConfigError(
            f"{work.run_path / SWEEP}: this run was started with other settings:\n{listed}\n"
            "put them back, or give the sweep another `run:`; with the same `store:` no call is paid for again"
        )


def _changes(work: Work, earlier: Record) -> Iterator[str]:
    before = earlier.sweep
    for key in _OF_THE_TESTS:
        if _without_mode(getattr(work.sweep, key)) != _without_mode(getattr(before, key)):
            yield f"{'validate' if key == 'validation' else key}: differs"
    yield from changed_draw(before.responses, work.sweep.responses)
    for dimension, drawn in drawn_tests(work).items():
        if earlier.drawn.get(dimension, drawn) != drawn:
            yield f"responses: other answers of {dimension} are drawn; the subjects or what `raters:` rate have changed"
    if (work.sweep.samples - before.samples) * (work.sweep.replicates - before.replicates) < 0:
        # A view is known to be complete by the number of its rows, which may be the same after such a change.
        yield "samples, replicates: one is more and the other less than before; change one of them at a time"
    for name, digest in _entry_hashes(work).items():
        if earlier.hashes.get(name, digest) != digest:
            yield f"{name} has changed; a new variant needs a `name:` of its own"
    for name, digest in hashes(work).items():
        if name not in _MAY_CHANGE and not name.startswith(_RATERS) and earlier.hashes.get(name, digest) != digest:
            yield f"{name}: its text has changed"
    for name, model in work.models.items():
        if earlier.as_of.get(name, model.as_of) != model.as_of:
            yield f"model {name}: its weights are others than before"
