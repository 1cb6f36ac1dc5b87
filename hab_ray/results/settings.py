"""The settings behind a run's results, and those sent to its subjects."""

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
    """The settings sent to a subject.

    `responses` counts its responses in any state; `parameters` holds each parameter's values as sent (several if they
    changed during the run), `reported` the model names that the vendor reported, with counts. `system` is the subject's
    own system prompt; a test's system text follows it after a blank line. Model, provider and system are None for given
    answers.
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
    """The settings behind a run's results: the resolved sweep, the settings sent, hashes and versions.

    `hashes` are sha256 digests of rubrics, prompts, catalogue, prices and of every subject and judge that the sweep
    names; `versions` the software's; `as_of` the month in which a model's moving alias was resolved, or its weights'
    sha256.
    """

    sweep: Sweep
    subjects: tuple[Sent, ...]
    as_of: Mapping[str, str | None]
    hashes: Mapping[str, str]
    versions: Mapping[str, str]
    started: datetime


def sent(sweep: Sweep, responses: pa.Table) -> tuple[Sent, ...]:
    """Return the settings sent to each subject of a sweep, from the SENT_COLUMNS of its responses."""
    catalog = sweep.catalog
    settings: dict[str, set[str]] = defaultdict(set)
    reported: dict[str, Counter[str]] = defaultdict(Counter)
    total: Counter[str] = Counter()
    grouped = responses.group_by(list(SENT_COLUMNS)).aggregate([([], "count_all")])
    for subject, parameters, model, count in rows_in(grouped.select([*SENT_COLUMNS, "count_all"])):
        total[subject] += count
        settings[subject].add(parameters)
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


def _values(settings: Iterable[str]) -> dict[str, tuple[str, ...]]:
    values: dict[str, set[str]] = defaultdict(set)
    for text in settings:
        for name, value in _parameters(text).items():
            values[name].add(str(value))
    return {name: tuple(sorted(of_name)) for name, of_name in values.items()}


def _parameters(text: str) -> dict[str, object]:
    try:
        parameters = parse_json((text or "{}").encode())
    except BadInput:
        parameters = None
    if not isinstance(parameters, dict):
        raise DamagedFile(
            f"responses: the column settings holds {one_line(text, 40)!r} and no JSON object; delete the run's folder "
            "responses/ and run the same command: no reply is paid for again"
        )
    return parameters
