"""What a run's tests cost to make, by the calls for their candidates, and which candidates became no test.

Views of candidates and validations have no costs, and embeddings have no view, so costs are read from the run's store.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress

from hab_ray.catalog.models import Model
from hab_ray.config.sections import Validate
from hab_ray.errors import ConfigError, DamagedFile
from hab_ray.results import Run
from hab_ray.rows import Candidate, R, State, Validation
from hab_ray.stages.base import Rows
from hab_ray.stages.method.embed import embedding_keys
from hab_ray.stages.views import candidates_file, validations_file
from hab_ray.storage.folder import reach
from hab_ray.storage.replies.store import Store
from hab_ray.storage.run import RunFolder


def costs_of_making(run: Run) -> Mapping[str, int]:
    """Return by dimension what its tests cost to make, in nano-dollars, whichever run paid for the calls.

    Empty if the tests were given, or if the store cannot be read or lacks one of the calls.
    """
    if run.record.sweep.gives_tests:
        return {}
    with suppress(ConfigError, DamagedFile, OSError):
        store = Store(reach(run.record.store_of(run.location)))
        calls = {dimension: _calls(run, dimension) for dimension in run.dimensions}
        for model in {model for own in calls.values() for model in own}:
            store.refresh(model)
        return {dimension: _cost(store, dimension, own) for dimension, own in calls.items()}
    return {}


def fewer_tests(run: Run) -> str:
    """Say which candidates were rejected, if a run has fewer tests than its sweep asks for.

    Empty if it has all of them, if its tests were given, or if its candidates cannot be read.
    """
    sweep = run.record.sweep
    made = {dimension: run.tests(dimension, columns=["id"]).num_rows for dimension in run.dimensions}
    if sweep.gives_tests or not sweep.select or not all(made.values()) or min(made.values()) >= sweep.select.tests:
        return ""
    with suppress(DamagedFile, OSError):
        asked, candidates = len(made) * sweep.select.tests, _views(run, Candidate, candidates_file)
        lost = {"as a repeat": sum(row.state is State.REJECTED for row in candidates)}
        if isinstance(sweep.validation, Validate):
            floor, scores = sweep.validation.floor, [row.score for row in _views(run, Validation, validations_file)]
            lost["without a readable validation"] = scores.count(None)
            lost[f"with a score below {floor} (`floor`)"] = sum(score is not None and score < floor for score in scores)
        told = ", ".join(f"{count:,} {why}" for why, count in lost.items() if count)
        if candidates:
            tests = f"{sum(made.values()):,} of the {asked:,} tests asked for were made"
            return f"{tests} from {len(candidates):,} candidates{'; dropped: ' * bool(told)}{told}"
    return ""


def _views(run: Run, row_type: type[R], file: Callable[[str], str]) -> list[R]:
    return [row for dimension in run.dimensions for row in RunFolder(run.location).read(row_type, file(dimension))]


def _cost(store: Store, dimension: str, calls: Mapping[str, set[str]]) -> int:
    """Return the cost of a dimension's calls; raises DamagedFile if the store lacks one."""
    found = {model: store.costs(model, sorted(keys)) for model, keys in calls.items()}
    if not any(calls.values()) or any(len(found[model]) < len(keys) for model, keys in calls.items()):
        raise DamagedFile(f"{store.folder} lacks calls that made the tests of {dimension}")
    return sum(sum(costs.values()) for costs in found.values())


def _calls(run: Run, dimension: str) -> Mapping[str, set[str]]:
    """Return the keys of the calls that made a dimension's tests, by model."""
    sweep, folder, keys = run.record.sweep, RunFolder(run.location), defaultdict[str, set[str]](set)
    candidates = folder.read(Candidate, candidates_file(dimension))
    validate = sweep.validation if isinstance(sweep.validation, Validate) else None
    validations = folder.read(Validation, validations_file(dimension)) if validate else []
    if sweep.generate:
        keys[sweep.generate.model].update(row.reply_key for row in candidates)
    if validate:
        keys[validate.model].update(row.reply_key for row in validations)
    if sweep.select:
        rows = Rows({Candidate: candidates, Validation: validations})
        name = sweep.select.embedding
        model = Model(name, run.record.entry(name), run.record.as_of.get(name))
        keys[name].update(embedding_keys(rows, model, sweep.select, validate, sweep.seed))
    return keys
