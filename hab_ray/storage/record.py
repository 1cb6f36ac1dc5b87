"""A run's record: its sweep.yaml, which lists everything that the results depend on."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime
from hashlib import sha256
from typing import Annotated

import yaml
from pydantic import Field, ValidationError

from hab_ray.catalog.base import Strict
from hab_ray.catalog.models import ModelEntry
from hab_ray.config.preregistration import Declaration
from hab_ray.config.sections import Drawn
from hab_ray.config.sweep import Sweep
from hab_ray.errors import ConfigError
from hab_ray.inputs.files import BadInput, causes_of, decoded
from hab_ray.inputs.origin import Origin
from hab_ray.inputs.yaml_text import parse_yaml
from hab_ray.location import Location
from hab_ray.storage.run import SWEEP, RunFolder
from hab_ray.visible import one_line

SETTINGS_VERSION = 2
RUBRIC, SUBJECTS, JUDGES = "rubric ", "subjects: ", "judges: "
REWORDED, PARAPHRASES = "wording of ", "paraphrases of "


def derivation_sha256(sweep: Sweep, models: Iterable[ModelEntry]) -> str:
    """Return the digest of the settings by which a view is derived from the replies of these models.

    Views of equal digest differ only in how many rows they have: a run's tests, and the store's replies, are only added
    to. So the number of rows tells whether such a view is complete, and a complete one is not derived again. It may
    keep rows as substituted whose reported name only later versions take for the model's own.
    """
    settings = [sweep.accept_substitutes, sweep.samples, sweep.replicates, sweep.sentinels]
    own_names = sorted({(model.wire, *sorted(model.reports)) for model in models if model.reports is not None})
    return sha256(json.dumps([settings, own_names]).encode()).hexdigest()


class Record(Strict):
    """A run's sweep.yaml: the resolved sweep and everything that its results depend on.

    - `id` never changes; None in records of format 0.
    - `prompts_version` and `fence_version` never change, so that calls keep their keys. `reader_version` names the
      rules by which verdicts were read. With `settings_version` 1, only models that think are sent an effort.
    - `started` is the first start; `priced_on` is the day whose prices the latest start plans by. What each call cost,
      at the price of its own day, is in its reply.
    - `sources` are the origins of given data and imported rubrics (see `hab_ray.given.origins`).
    - `declarations` are the declared analyses, the current one last.
    - `drawn` says, by dimension, which given answers are read if not all are.
    - `store` is the path from the run's folder to its store at the latest start.
    - `pauses` are the times at which a run with sentinels resumed after a week or more.
    - `undigested` maps models to what views without a digest of their own are derived by, if that has changed since.

    `sources` and `store` are None in records older than these fields.
    """

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None
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
    pauses: Annotated[tuple[datetime, ...], Field(exclude_if=lambda pauses: not pauses)] = ()
    undigested: Annotated[Mapping[str, str], Field(exclude_if=lambda undigested: not undigested)] = {}

    def store_of(self, run: Location) -> Location:
        """Return the store of the latest start, seen from where the run is now."""
        return run.resolve(self.store) if self.store else self.sweep.store

    def entry(self, name: str) -> ModelEntry:
        """Return a model's catalogue entry with the settings that this run sends."""
        return self.as_asked(self.sweep.catalog.find(name))

    def as_asked(self, entry: ModelEntry) -> ModelEntry:
        """Return a model's entry with the settings that this run has sent since its start."""
        return entry.without_lone_effort() if self.settings_version < SETTINGS_VERSION else entry

    def derivations(self) -> dict[str, str]:
        """Return by model what the run's views without a digest of their own are derived by."""
        found = {}
        for name in self.sweep.model_names():
            with suppress(ConfigError):  # a later version's catalogue may lack the model
                found[name] = derivation_sha256(self.sweep, [self.entry(name)])
        return found | {**self.undigested}

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The ids of the dimensions that the sweep named at its latest start, sorted."""
        named = self.sweep.dimensions
        return tuple(self.rubric_hashes) if named == "all" else tuple(sorted(set(named)))

    @property
    def judges_so_far(self) -> tuple[str, ...]:
        """The names of all judges and variants that the run has had, also of those that the sweep no longer names."""
        return tuple(name.removeprefix(JUDGES) for name in self.hashes if name.startswith(JUDGES))

    @property
    def hashes_in_use(self) -> dict[str, str]:
        """The hashes of what the sweep names; `hashes` also has those of what it named at earlier starts."""
        sweep = self.sweep
        named = {
            RUBRIC: self.dimensions,
            SUBJECTS: [subject.name for subject in (*sweep.subjects, *sweep.varied_subjects)],
            JUDGES: [judge.name for judge in (*sweep.judges, *sweep.varied_judges)],
            REWORDED: [f"{judge.name}: {each}" for judge in sweep.varied_judges for each in self.dimensions],
            PARAPHRASES: [variant.name for variant in sweep.variants.subjects],
        }
        unnamed = {
            key
            for key in self.hashes
            for kind, names in named.items()
            if key.startswith(kind) and key.removeprefix(kind) not in names
        }
        return {key: digest for key, digest in self.hashes.items() if key not in unnamed}

    @property
    def rubric_hashes(self) -> dict[str, str]:
        """Digests of the rubrics by dimension, sorted."""
        found = {name: digest for name, digest in self.hashes.items() if name.startswith(RUBRIC)}
        return {name.removeprefix(RUBRIC): found[name] for name in sorted(found)}


def read_record(run: Location) -> Record | None:
    """Read a run's record; None if there is no run.

    Raises:
        ConfigError: the file was edited by hand, or written by another version.
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
    """Return the id of the run in a folder; None if no id can be read."""
    try:
        record = read_record(run)
    except ConfigError:
        return None
    return record.id if record else None


def put_record(run: Location, record: Record) -> None:
    """Write a run's record, or replace it."""
    RunFolder(run).folder.put(SWEEP, text_of(record))


def amend_record(run: Location, **changes: object) -> None:
    """Change these fields of a started run's record and keep all others."""
    record = read_record(run)
    assert record is not None
    put_record(run, record.model_copy(update=changes))


def text_of(record: Record) -> bytes:
    """Return the record as YAML."""
    return yaml.safe_dump(
        record.model_dump(mode="json", by_alias=True), sort_keys=False, allow_unicode=True, encoding="utf-8"
    )
