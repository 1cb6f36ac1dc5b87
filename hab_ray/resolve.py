"""From a sweep file to a run: pin models, read and hash rubrics, and keep the record in the run's sweep.yaml.

A run creates its tests once. The settings they were made with, and existing subjects and judges, must not change in a
run; another `run:` with the same `store:` reuses the replies of every unchanged call.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from operator import attrgetter
from pathlib import Path

from hab_ray.catalog.models import Model, ModelEntry, Purpose, folder_name
from hab_ray.catalog.prices import priced
from hab_ray.config.changes import changes, changes_of_tests, remedies
from hab_ray.config.preregistration import PANEL
from hab_ray.config.sections import AskedModel, Validate
from hab_ray.config.sweep import Sweep
from hab_ray.errors import ConfigError, DamagedFile, Exit
from hab_ray.given.origins import origins_of, wording_origins
from hab_ray.given.paraphrases import read_paraphrases
from hab_ray.given.rows import ReadOnce, given_file
from hab_ray.given.sample import changed_draw
from hab_ray.location import Location
from hab_ray.progress import PROGRESS, read_progress
from hab_ray.resources import installed_versions
from hab_ray.rows import ChosenTest, Paraphrase, RaterView
from hab_ray.rubric import KeptTexts, Rubric, RubricLibrary, read_library, unknown_dimensions
from hab_ray.stages.added import stage_changes, with_added
from hab_ray.stages.prompts.rewording import wordings_of
from hab_ray.stages.prompts.wording import load_prompts
from hab_ray.stages.replies.reading import READER_VERSION
from hab_ray.stages.views import tests_file
from hab_ray.storage.modes import refuse_others
from hab_ray.storage.own_texts import library_of_run
from hab_ray.storage.record import (
    JUDGES,
    PARAPHRASES,
    REWORDED,
    RUBRIC,
    SETTINGS_VERSION,
    SUBJECTS,
    Record,
    put_record,
    read_record,
    text_of,
)
from hab_ray.storage.registry import Registry, new_run_id, refuse_lost
from hab_ray.storage.run import RATERS, SWEEP, TEXTS, RunFolder
from hab_ray.visible import counted, one_line
from hab_ray.work import Work, answering_subjects, drawn_tests, given_ratings, given_tests, is_complete

_MAY_CHANGE = ("catalogue", "prices")
_RATERS = "raters "
_ROW_KEYS = ("dimensions", "subjects", "judges", "responses", "samples", "replicates", "sentinels")
SENTINEL_REST = timedelta(days=7)
_MAY_GROW = ("generate", "validate", "select", "tests", "deduplicate")
_test_content = attrgetter("id", "prompt", "context", "system")


def resolve(sweep: Sweep, now: datetime) -> Work:
    """Pin and read everything that a sweep depends on, with prices as of `now`, and write nothing to the run.

    Missing local weights are downloaded. Raise ConfigError if rubrics, dimensions, weights or the run's record do not
    fit the sweep.
    """
    earlier = read_record(sweep.run_folder)
    cache = ReadOnce()
    library = read_library(sweep.rubrics)
    sweep = _with_answering_subjects(sweep, _rubrics(sweep, library, earlier), cache)
    work = _pinned(sweep, library, earlier, {}, now, cache)
    origins_of(sweep, work.rubrics, {})  # fail now, before anything is paid for, if an origin cannot be read
    if earlier:
        refuse_other_store(work)
        _refuse_changes(work, earlier)
        _check_judges(work)
        work = replace(work, pauses=_pauses(work, earlier, now))
    if sweep.raters:
        _check_raters(work, earlier)
    _check_paraphrases(work)
    return work


def _pauses(work: Work, earlier: Record, now: datetime) -> tuple[datetime, ...]:
    """Return when a run with sentinels was resumed after a week or more, in which its judges may have changed.

    The present start counts if it is one, unless the run was complete and nothing is left to judge.
    """
    if not work.sweep.sentinels:
        return earlier.pauses
    last_active, was_complete = earlier.started, False
    with suppress(FileNotFoundError, ValueError):
        last = read_progress(RunFolder(work.run_path).folder.get(PROGRESS))
        last_active = datetime.fromisoformat(last.at)
        was_complete = last.end is not None and last.end.status == Exit.COMPLETE
    rested = now - max(last_active, *earlier.pauses, earlier.started)
    if rested < SENTINEL_REST or not _has_rereadings(work):
        return earlier.pauses
    has_more = any(getattr(work.sweep, key) != getattr(earlier.sweep, key) for key in _ROW_KEYS)
    has_more = has_more or _is_another_file(work, earlier)
    has_more = has_more or not (was_complete or _has_all_rows(replace(work, pauses=earlier.pauses)))
    return (*earlier.pauses, now) if has_more else earlier.pauses


def _has_all_rows(work: Work) -> bool:
    """Return whether the views have all rows, as of a complete run whose last start was interrupted."""
    asked = (shard for shard in work.shards() if shard.spec.makes_calls and shard.spec.has_view)
    with suppress(DamagedFile):
        return all(is_complete(work, shard, len(work.tasks(shard))) for shard in asked)
    return False


def _has_rereadings(work: Work) -> bool:
    """Return whether judges have read any sentinel a second time; if not, the present start asks for that reading."""
    return any(work.run.count(view) for view in work.run.folder.list("rejudged"))


def refuse_other_store(work: Work) -> None:
    """Check that a run uses the store that records its spending, even if the run or the store was moved.

    Raises:
        ConfigError: it is another store, a copy while the original still exists, or not there.
    """
    run, store, record = work.run_path, work.sweep.store, read_record(work.run_path)
    before = record.store_of(run) if record else store
    if before.absolute() == store.absolute() or before.is_same(store):
        return refuse_lost(run, store)
    knowing = [place for place in (before, store) if Registry(place).epochs(work.run_id, run)]
    if knowing != [store]:
        there, remedy = "knows nothing of them", "or its new place if it was moved"
        if store in knowing:
            there, remedy = "is a copy of it", f"or remove it if {store} has taken its place"
        raise ConfigError(
            f"{run}: this run's replies and what it has spent of its budget are in the store {before.absolute()}, and "
            f"{store.absolute()} {there}. Name that store as `store:` or with --store, {remedy}; to spend from "
            "another, give the sweep another `run:`"
        )


def _with_answering_subjects(sweep: Sweep, rubrics: Mapping[str, Rubric], cache: ReadOnce) -> Sweep:
    """Fill in the subjects of given answers if the sweep names none."""
    given = sweep.responses
    if given is None or given.subjects:
        return sweep
    names = answering_subjects(sweep, given, rubrics, cache)
    asked = {subject.name for subject in (*sweep.subjects, *sweep.varied_subjects)}.intersection(names)
    if asked or not names:
        none = "has no answer that a person in `raters:` has rated" if given.only else "has no answers"
        what = f"has answers of {', '.join(sorted(asked))}, which `subjects:` asks" if asked else none
        raise ConfigError(f"responses: {given.file} {what}; name those that are meant: {{file: ..., subjects: [...]}}")
    return sweep.model_copy(update={"responses": given.model_copy(update={"subjects": names})})


def _pinned(
    sweep: Sweep,
    library: RubricLibrary,
    earlier: Record | None,
    recorded: Mapping[str, str | None],
    now: datetime,
    cache: ReadOnce,
) -> Work:
    """Pin and read what a sweep names; the weights of models in `recorded`, by their `as_of`, are not looked at."""
    rubrics = _rubrics(sweep, library, earlier)
    asked = (earlier.prompts_version, earlier.fence_version, library.kept.text("prompts")) if earlier else ()
    catalog = sweep.catalog
    models = {}
    for name in sweep.model_names():
        entry = catalog.find(name)
        entry = priced(earlier.as_asked(entry) if earlier else entry, now.date())
        served = catalog.providers[entry.provider].serve
        as_of = recorded[name] if name in recorded else _as_of(name, entry, served, now)
        if earlier and entry.alias == "moving":
            as_of = earlier.as_of.get(name, as_of)
        models[name] = Model(name, entry, as_of)
    return Work(
        sweep=sweep,
        catalog=catalog,
        models=models,
        rubrics=rubrics,
        themes=library.shown_themes(earlier.hashes.get("themes") if earlier else None),
        prompts=load_prompts(sweep.rubrics, *asked),
        run_path=sweep.run_folder.absolute(),
        run_id=(earlier and earlier.id) or new_run_id(),
        wordings={judge.name: wordings_of(judge, rubrics, library.kept) for judge in sweep.varied_judges},
        paraphrases=_paraphrases(sweep, rubrics, library.kept),
        given=cache,
        pauses=earlier.pauses if earlier else (),
        undigested=earlier.derivations() if earlier else {},
    )


def _paraphrases(
    sweep: Sweep, rubrics: Mapping[str, Rubric], kept: KeptTexts
) -> dict[str, dict[str, dict[str, Paraphrase]]]:
    files = {variant.tests: f"{PARAPHRASES}{variant.name}" for variant in sweep.variants.subjects if variant.tests}
    read = {file: read_paraphrases(file, rubrics, kept.text(name)) for file, name in files.items()}
    return {subject.name: read[subject.tests] for subject in sweep.varied_subjects if subject.tests is not None}


def _check_paraphrases(work: Work) -> None:
    """Refuse paraphrases of tests that are neither given nor chosen yet.

    If this waited until tests are chosen, the run could not continue then.
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
            if unknown := words.keys() - {test.id for test in tests} - {test.prompt for test in tests}:
                raise ConfigError(
                    one_line(f"variants.subjects.tests: {subject.tests}: {dimension} has no test {min(unknown)!r}")
                    + "; name tests by their ids or their whole prompts, as they are in the run's tests/"
                )


def _chosen_before(work: Work) -> dict[str, list[ChosenTest]]:
    files = {dimension: tests_file(dimension) for dimension in work.rubrics}
    return {name: work.run.read(ChosenTest, file) for name, file in files.items() if work.run.has(file)}


def _rubrics(sweep: Sweep, library: RubricLibrary, earlier: Record | None) -> dict[str, Rubric]:
    known = library.rubrics(earlier.rubric_hashes if earlier else {})
    chosen = _chosen_rubrics(sweep, known)
    for rubric in chosen.values():
        if missing := _missing_section(sweep, rubric):
            raise ConfigError(
                f"{'tests' if sweep.tests else 'generate'}: the rubric of {rubric.id} has no `{missing}` section, "
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


def _missing_section(sweep: Sweep, rubric: Rubric) -> str | None:
    makes_tests = not sweep.gives_tests and sweep.generate is not None
    if not rubric.can_generate and (makes_tests or sweep.tests == "seeds"):
        return "generation"
    validates = makes_tests and isinstance(sweep.validation, Validate)
    return "validation" if validates and not rubric.can_validate else None


def _chosen_rubrics(sweep: Sweep, known: dict[str, Rubric]) -> dict[str, Rubric]:
    if sweep.dimensions == "all":
        return known
    for problem in unknown_dimensions(sweep.dimensions, sweep.rubrics, known):
        raise ConfigError(problem)
    return {dimension: known[dimension] for dimension in sorted(set(sweep.dimensions))}


def weights_of(name: str, entry: ModelEntry) -> Path:
    """Return the file with a served model's weights, downloading it if it is missing.

    Raises:
        ConfigError: the weights cannot be downloaded.
    """
    from hab_ray.local import LocalError, default_cache, embedding_weights, pull

    refuse_others(default_cache().parent, "HAB_CACHE")
    try:
        if entry.purpose is Purpose.EMBEDDING:
            return embedding_weights(entry.wire)
        return pull(entry.weights or entry.wire, cache=default_cache())
    except LocalError as error:
        raise ConfigError(f"model {name}: {error}") from None


def _as_of(name: str, entry: ModelEntry, served: bool, now: datetime) -> str | None:
    if served:
        from hab_ray.local import sha256_of

        return sha256_of(weights_of(name, entry))
    return f"{now:%Y-%m}" if entry.alias == "moving" else None


def hashes(work: Work) -> dict[str, str]:
    """Return the hashes of the data that a run's results depend on."""
    found = {f"{RUBRIC}{name}": rubric.sha256 for name, rubric in work.rubrics.items()}
    for judge, wordings in work.wordings.items():
        found |= {f"{REWORDED}{judge}: {name}": rubric.sha256 for name, rubric in wordings.items()}
    for variant in work.sweep.variants.subjects:
        if variant.tests is not None:
            found[f"{PARAPHRASES}{variant.name}"] = sha256(given_file(variant.tests)).hexdigest()
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
    """Refuse judges with the name of a rater, because their verdicts would be mixed with the ratings in the run."""
    raters = {view.rater for view in work.run.read(RaterView, RATERS)}
    judges = (*work.sweep.judges, *work.sweep.varied_judges)
    if taken := [judge.name for judge in judges if judge.name in raters]:
        remedy = "give the judge another `name:`"
        raise ConfigError(one_line(f"judges: {taken[0]!r} is a rater whose ratings are in {work.run_path}; {remedy}"))


def _check_raters(work: Work, earlier: Record | None) -> None:
    """Refuse raters with the name of a current or earlier judge or of the panel, and unreadable ratings."""
    asked = (*work.sweep.judges, *work.sweep.varied_judges)
    judges = {*(judge.name for judge in asked), *(earlier.judges_so_far if earlier else ())}
    taken = {folder_name(name): name for name in (*sorted(judges), PANEL)}
    for rater in given_ratings(work).raters:
        other = taken.setdefault(folder_name(rater), rater)
        if other != rater or rater in judges or rater == PANEL:
            whose = "stands for all judges together" if other == PANEL else "is taken, as a judge's or another rater's"
            raise ConfigError(
                one_line(f"raters: the name {rater!r} {whose}; give the rater another, such as 'published {rater}'")
            )


def _entries(sweep: Sweep) -> dict[str, AskedModel]:
    subjects = {f"{SUBJECTS}{subject.name}": subject for subject in (*sweep.subjects, *sweep.varied_subjects)}
    return {**subjects, **{f"{JUDGES}{judge.name}": judge for judge in (*sweep.judges, *sweep.varied_judges)}}


def _is_another_file(work: Work, earlier: Record) -> bool:
    """Return whether the sweep names a file of tests with other content than the run had, or the run had none."""
    return isinstance(work.sweep.tests, Location) and hashes(work)["tests"] != earlier.hashes.get("tests")


def _has_all_tests(work: Work) -> bool:
    """Return whether the sweep's file of tests contains all tests of the run, and possibly more."""
    if not isinstance(work.sweep.tests, Location) or work.sweep.responses is not None:
        return False
    before = _chosen_before(work)
    return bool(before) and not _lost_tests(work, before)


def _lost_tests(work: Work, before: Mapping[str, Sequence[ChosenTest]]) -> list[str]:
    """Return the ids of the tests of `before` that the sweep no longer gives, or gives with another text."""
    given = {dimension: set(map(_test_content, tests)) for dimension, tests in given_tests(work).items()}
    return [
        test.id
        for dimension, tests in before.items()
        for test in tests
        if _test_content(test) not in given.get(dimension, ())
    ]


def _with_hint(work: Work, lines: Sequence[str]) -> Iterator[str]:
    """Yield differences, and how to add tests if the differences suggest that more tests are wanted."""
    yield from lines
    if any(line.startswith(("select.tests", "tests")) for line in lines):
        yield (
            f"  a run's tests are chosen once. To add some, also of another dimension: `hab export {work.run_path} "
            "--format json --out more`, add lines to more/tests.jsonl, and name that file as `tests:` in this sweep: "
            "what it was asked before stays, and is not paid for again"
        )


def _prices_sha256(work: Work) -> str:
    lines = (f"{name} {model.entry.price!r} {model.entry.batch!r}" for name, model in sorted(work.models.items()))
    return sha256("\n".join(lines).encode()).hexdigest()


def write_record(work: Work, now: datetime) -> None:
    """Write everything that a run depends on to its sweep.yaml.

    The time of the first start is kept, and so are entries that the sweep no longer names: their rows are still in the
    run, so they must be the same if they return. Ratings leave the run with their file, and so do the files' hashes.
    Additional tests of a file are added to the run first, before the record has the file's hash. Raise ConfigError if
    another process with another store has started the run meanwhile, or a view of an added stage would replace another
    file.
    """
    work.shards()  # refuses wrong views of added stages before anything is recorded
    earlier = read_record(work.run_path)
    before = earlier.hashes if earlier else {}
    record = Record(
        id=work.run_id,
        sweep=work.sweep,
        as_of=(earlier.as_of if earlier else {}) | {name: model.as_of for name, model in work.models.items()},
        hashes={name: digest for name, digest in before.items() if not name.startswith(_RATERS)}
        | hashes(work)
        | {name: entry.sha256 for name, entry in _entries(work.sweep).items()},
        versions=installed_versions() | with_added(earlier.versions if earlier else {}, work),
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
        store=work.sweep.store.relative_to(work.run_path),
        pauses=work.pauses,
    )
    if earlier:
        derivations = earlier.derivations()
        if not derivations.items() <= record.derivations().items():
            record = record.model_copy(update={"undigested": derivations})
        if _is_another_file(work, earlier) and _has_all_tests(work):
            for dimension, tests in given_tests(work).items():
                work.run.write(ChosenTest, tests_file(dimension), _with_known_calls(work, dimension, tests))
        return put_record(work.run_path, record)
    try:
        RunFolder(work.run_path).folder.put_new(SWEEP, text_of(record))
    except FileExistsError:
        if not RunFolder(work.run_path).exists():
            raise
        raise ConfigError(f"{work.run_path}: another process has just started this run; wait until it ends") from None


def _with_known_calls(work: Work, dimension: str, tests: Sequence[ChosenTest]) -> list[ChosenTest]:
    """Return tests of a file with the generation calls that the run knows of them, where the file names none."""
    known = {test.id: test.call for test in work.run.read(ChosenTest, tests_file(dimension))}
    return [replace(test, call=test.call or known.get(test.id)) for test in tests]


def load_work(run: Location, now: datetime) -> Work:
    """Load the work of a run from its folder alone, for status and report.

    Weights, rubrics, themes, prompts and variants are as recorded, and their files are not needed, except for own texts
    in runs of versions that kept no copy. Raise ConfigError if there is no run, or such a file is gone.
    """
    RunFolder(run).require()
    record = read_record(run)
    assert record is not None
    sweep = record.sweep.model_copy(update={"run": run})
    library = library_of_run(run, record)
    work = _pinned(sweep, library, record, record.as_of, now, ReadOnce())
    if work.prompts.sha256 != record.hashes.get("prompts"):
        library.refuse_problems()
    return work


def _refuse_changes(work: Work, earlier: Record) -> None:
    if refused := list(_changes(work, earlier)):
        listed = "\n".join(f"  {change}" for change in refused)
        raise ConfigError(
            f"{work.run_path / SWEEP}: this run was started with other settings:\n{listed}\n"
            f"{remedies(refused, work.sweep)}"
        )


def _changes(work: Work, earlier: Record) -> Iterator[str]:
    before = earlier.sweep
    lines = list(map(str, changes_of_tests(before, work.sweep)))
    grows = (bool(lines) or _is_another_file(work, earlier)) and _has_all_tests(work)
    yield from _with_hint(work, [line for line in lines if not (grows and line.startswith(_MAY_GROW))])
    yield from stage_changes(earlier.versions, work, earlier.rubric_hashes)
    yield from changed_draw(before.responses, work.sweep.responses)
    for dimension, drawn in drawn_tests(work).items():
        if earlier.drawn.get(dimension, drawn) != drawn:
            yield f"responses: other answers of {dimension} are drawn; the subjects or what `raters:` rate have changed"
    if (work.sweep.samples - before.samples) * (work.sweep.replicates - before.replicates) < 0:
        yield "samples, replicates: one is more and the other less than before; change one of them at a time"
    known = _entries(before)
    for name, entry in _entries(work.sweep).items():
        if earlier.hashes.get(name, entry.sha256) != entry.sha256:
            keys = map(str, changes("", known[name].hashed, entry.hashed)) if name in known else ()
            yield f"{'; '.join((f'{name} has changed', *keys))}; a new variant needs a `name:` of its own"
    for name, digest in hashes(work).items():
        may_change = name in _MAY_CHANGE or name.startswith(_RATERS) or (grows and name == "tests")
        if not may_change and earlier.hashes.get(name, digest) != digest:
            lost = _lost_tests(work, _chosen_before(work)) if name == "tests" else []
            which = f": {counted(len(lost), 'test')} changed or missing, such as {lost[0]}" if lost else ""
            if work.run.has(kept := f"{TEXTS}/{earlier.hashes[name]}"):
                which = f"; {work.run_path / kept} has the earlier one"
            yield one_line(f"{name}: its text has changed{which}")
    for name, model in work.models.items():
        if earlier.as_of.get(name, model.as_of) != model.as_of:
            yield f"model {name}: its weights have changed"
