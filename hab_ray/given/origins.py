"""Origins of a run's data: source records beside given files, and imported rubrics."""

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AliasChoices, ConfigDict, Field, ValidationError

from hab_ray.catalog.base import Strict
from hab_ray.config.sweep import Sweep
from hab_ray.errors import ConfigError
from hab_ray.given.rows import ORIGIN, given_file, given_records
from hab_ray.inputs.files import MAX_TEXT_BYTES, BadInput, causes_of, decoded
from hab_ray.inputs.origin import Origin
from hab_ray.inputs.yaml_text import parse_yaml
from hab_ray.location import Location
from hab_ray.rubric import Rubric
from hab_ray.storage.folder import open_folder
from hab_ray.visible import one_line

TESTS, RESPONSES, RUBRIC, WORDING = "tests", "responses", "rubric ", "wording of "
_STATED = ".source.yaml"


class _Stated(Strict):
    """The fields of a source record that are used here; `hab import` writes more."""

    model_config = ConfigDict(extra="ignore")

    source: Annotated[str, Field(min_length=1)]
    licence: Annotated[str, Field(validation_alias=AliasChoices("licence", "license"))] = "unknown"
    canaries: tuple[str, ...] = ()


def source_record(file: str) -> str:
    """Return the name of a file's source record, which is in the same folder."""
    return f"{file}{_STATED}"


def stated_origin(file: Location, key: str) -> Origin | None:
    """Read the source record beside a file that a sweep names under `key`; None if there is no record.

    Raises:
        ConfigError: the record cannot be read.
    """
    record = file.sibling(source_record(file.name))
    if not open_folder(record.parent).exists(record.name):
        return None
    try:
        stated = _Stated.model_validate(parse_yaml(decoded(given_file(record, key, MAX_TEXT_BYTES))))
    except BadInput as error:
        cause = str(error)
    except ValidationError as error:
        cause = causes_of(error)
    else:
        canaries = tuple(one_line(canary) for canary in stated.canaries if canary.strip())
        return Origin(
            source=one_line(stated.source) or "not stated",
            licence=one_line(stated.licence) or "unknown",
            canaries=canaries,
        )
    raise ConfigError(one_line(f"{key}: {record}: {cause}; write `source:` and `licence:` there, or remove the file"))


def origins_of(sweep: Sweep, rubrics: Mapping[str, Rubric], earlier: Mapping[str, Origin]) -> dict[str, Origin]:
    """Return the origins of a sweep's given files and rubrics, by `TESTS`, `RESPONSES` and `RUBRIC` with the dimension.

    A file of tests without a stated origin, beside it or in its rows, is the user's own. Source records take precedence
    over `earlier`, the origins in the run's record, so that a file moved away from its source record keeps its origin.
    Raise ConfigError if a source record or the tests cannot be read.
    """
    unstated = {RESPONSES: Origin(source=sweep.responses.file.name)} if sweep.responses else {}
    inside = {TESTS: origin} if isinstance(sweep.tests, Location) and (origin := _inside(sweep.tests)) else {}
    return {**unstated, **inside, **earlier, **dict(_stated_today(sweep, rubrics))}


def _inside(tests: Location) -> Origin | None:
    """Return the origin that the rows of imported tests state. If their licences differ, the licence is unknown."""
    if not open_folder(tests.parent).exists(tests.name):
        return None
    rows = (record for record in given_records(tests, TESTS, ORIGIN) if isinstance(record, dict))
    stated = {tuple(one_line(str(row.get(name) or "")) for name in ORIGIN.texts) for row in rows if row.get("source")}
    if not stated:
        return None
    sources, licences, canaries = (sorted(set(column)) for column in zip(*stated, strict=True))
    return Origin(
        source="; ".join(sources),
        licence=(licences[0] if len(licences) == 1 else "") or "unknown",
        canaries=tuple(sorted({canary for each in canaries for canary in each.split()})),
    )


def _stated_today(sweep: Sweep, rubrics: Mapping[str, Rubric]) -> Iterator[tuple[str, Origin]]:
    for key, file in given_files(sweep).items():
        if origin := stated_origin(file, key):
            yield key, origin
    for dimension, rubric in rubrics.items():
        if rubric.literal is not None:
            yield f"{RUBRIC}{dimension}", rubric.literal.origin


def wording_origins(wordings: Mapping[str, Mapping[str, Rubric]]) -> dict[str, Origin]:
    """Return the origins of varied judges' imported rubrics, by `WORDING` with the judge's name.

    If the origins of a judge's dimensions differ, one without a known licence is returned.
    """
    found: dict[str, Origin] = {}
    for judge, rubrics in wordings.items():
        for rubric in rubrics.values():
            known = found.get(f"{WORDING}{judge}")
            if rubric.literal is not None and (known is None or known.has_licence):
                found[f"{WORDING}{judge}"] = rubric.literal.origin
    return found


def given_files(sweep: Sweep) -> dict[str, Location]:
    """Return the files of tests and responses that a sweep names, by key."""
    files = {TESTS: sweep.tests, RESPONSES: sweep.responses and sweep.responses.file}
    return {key: file for key, file in files.items() if isinstance(file, Location)}
