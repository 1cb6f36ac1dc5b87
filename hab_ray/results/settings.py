"""What a run's results depend on, and what its subjects were sent."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from hab_ray.config.sweep import Sweep
from hab_ray.errors import DamagedFile
from hab_ray.inputs.files import BadInput
from hab_ray.inputs.json_text import parse_json
from hab_ray.results.views import rows_in
from hab_ray.visible import one_line

SENT_COLUMNS = ("subject", "settings", "model_reported")


@dataclass(frozen=True)
class Sent:
    """How a subject was asked.

    `responses` counts its responses of any state; `parameters` holds each parameter's values as they were sent with
    them (several if they changed during the run), `reported` the model names it answered under, with counts. `system`
    is its own system prompt; a test's own system text follows it after a blank line. Model, provider and system are
    None where the answers were given.
    """

    subject: str
    model: str | None
    provider: str | None
    system: str | None
    responses: int
    parameters: Mapping[str, tuple[str, ...]]
    reported: Mapping[str, int]


@dataclass(frozen=True)
class Settings:
    """What a run's results depend on: the sweep as resolved, what was sent, and what was in force.

    `hashes` are sha256 digests of rubrics, prompts, catalogue, prices and of every subject and judge; `versions` the
    software's; `as_of` the month in which a model's moving alias was resolved, or its weights' sha256.
    """

    sweep: Sweep
    subjects: tuple[Sent, ...]
    as_of: Mapping[str, str | None]
    hashes: Mapping[str, str]
    versions: Mapping[str, str]
    started: datetime


def sent(sweep: Sweep, responses: pa.Table) -> tuple[Sent, ...]:
    """How each subject of a sweep was asked, from the SENT_COLUMNS of its responses."""
    catalog = sweep.catalog
    settings: dict[str, set[str]] = defaultdict(set)
    reported: dict[str, Counter[str]] = defaultdict(Counter)
    total: Counter[str] = Counter()
    for subject, way, model, count in _counted(responses):
        total[subject] += count
        settings[subject].add(way)
        reported[subject].update({model: count} if model else {})
    asked = {subject.name: subject for subject in sweep.subjects}
    return tuple(
        Sent(
            subject=name,
            model=asked[name].model if name in asked else None,
            provider=catalog.find(asked[name].model).provider if name in asked else None,
            system=asked[name].system if name in asked else None,
            responses=total[name],
            parameters=_values(settings[name]),
            reported=dict(sorted(reported[name].items(), key=lambda r: (-r[1], r[0]))),
        )
        for name in sweep.subject_names
    )


def _counted(responses: pa.Table) -> Iterable[tuple[str, str, str, int]]:
    grouped = responses.group_by(list(SENT_COLUMNS)).aggregate([([], "count_all")])
    return rows_in(grouped.select([*SENT_COLUMNS, "count_all"]))


def _values(settings: Iterable[str]) -> dict[str, tuple[str, ...]]:
    values: dict[str, set[str]] = defaultdict(set)
    for text in settings:
        for name, value in _sent(text).items():
            values[name].add(str(value))
    return {name: tuple(sorted(found)) for name, found in values.items()}


def _sent(text: str) -> dict[str, object]:
    """The parameters that a response names.

    Raises:
        DamagedFile: they are no JSON object.
    """
    try:
        sent = parse_json((text or "{}").encode())
    except BadInput:
        sent = None
    if not isinstance(sent, dict):
        raise DamagedFile(
            f"responses: the column settings holds {one_line(text, 40)!r} and no JSON object; delete the run's folder "
            "responses/ and run the same command: no reply is paid for again"
        )
    return sent
