"""A run's sweep.yaml: the record of what its results depend on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated

import yaml
from pydantic import Field, ValidationError

from hab_ray.catalog.models import ModelEntry, Strict
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
RUBRIC = "rubric "


class Record(Strict):
    """A run's sweep.yaml: the sweep as resolved and all that its results depend on.

    `id` is the run's for ever; None in records of format 0. A started run keeps its prompts and fences, so that its
    calls keep their keys; `reader_version` says by which rules its verdicts were read. `started` is the first start,
    `priced_on` the day whose prices the latest one plans, reserves and pays by: a vendor charges what it charges when
    a call is made, and what was paid before stands in the replies. In a run of `settings_version` 1 only a model
    that thinks is sent an effort. `sources` are the origins of given data and imported rubrics as of
    `hab_ray.given.origins`; None in records from before they were kept.
    `declarations` are the analyses that were declared, the present one last. `drawn` says by dimension which of the
    given answers are read, where not all are. `store` is where the run's store was when
    it was driven last, as seen from the run's folder; None in records from before it was kept. `pauses` says when a run
    with sentinels went on after a week's rest or more.
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

    def entry(self, name: str) -> ModelEntry:
        """A model as this run asks it."""
        return self.as_asked(self.sweep.catalog.find(name))

    def as_asked(self, entry: ModelEntry) -> ModelEntry:
        """A model with its price and limits of today, sent what this run has sent from the beginning."""
        return entry.without_lone_effort() if self.settings_version < SETTINGS_VERSION else entry

    @property
    def rubric_hashes(self) -> dict[str, str]:
        """The digests of the rubrics by dimension, sorted."""
        found = {name: digest for name, digest in self.hashes.items() if name.startswith(RUBRIC)}
        return {name.removeprefix(RUBRIC): found[name] for name in sorted(found)}


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


def put_record(run: Location, record: Record) -> None:
    """Write a run's record, or replace it."""
    RunFolder(run).folder.put(SWEEP, text_of(record))


def amend_record(run: Location, **changes: object) -> None:
    """Change these fields of a started run's record, and leave the rest as the last `hab run` wrote it."""
    record = read_record(run)
    assert record is not None
    put_record(run, record.model_copy(update=changes))


def text_of(record: Record) -> bytes:
    """The record as the file holds it."""
    return yaml.safe_dump(
        record.model_dump(mode="json", by_alias=True), sort_keys=False, allow_unicode=True, encoding="utf-8"
    )
