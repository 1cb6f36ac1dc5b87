"""Settings that differ between two runs and that scores depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from hab_ray.config.changes import Change, changes, changes_of_tests
from hab_ray.errors import ConfigError
from hab_ray.results import Run, Sent

_SHOWN = 12
_MAX_OF_RUBRIC = 8
_OF_RUN = ("samples", "replicates", "truncated", "accept_substitutes")


def settings_apart(first: Run, second: Run) -> list[Change]:
    """Return the settings that differ: those of the runs, their rubrics and tests, then of each subject of both.

    `before` is a setting's value in the first run, `now` that in the second.
    """
    found = [*_apart(_of_run(first), _of_run(second)), *_of_rubrics(first, second), *_of_tests(first, second)]
    asked = {sent.subject: sent for sent in second.settings().subjects}
    for sent in first.settings().subjects:
        if other := asked.get(sent.subject):
            parameters = sorted({*sent.parameters, *other.parameters})
            found += _apart(_of_subject(sent, parameters), _of_subject(other, parameters))
    return found


def _apart(own: Mapping[str, str], theirs: Mapping[str, str]) -> list[Change]:
    shared = (setting for setting in own if setting in theirs)
    return [Change(each, own[each], theirs[each]) for each in shared if own[each] != theirs[each]]


def _of_run(run: Run) -> Mapping[str, str]:
    record = run.record
    shown = {name: digest[:_SHOWN] for name, digest in record.hashes.items()}
    return {
        "judges, of equal weight in the panel": ", ".join(run.panel),
        **{f"settings of judge {judge}": shown.get(f"judges: {judge}", "") for judge in run.panel},
        "rules by which verdicts are read": str(record.reader_version),
        "wording of prompts": shown.get("prompts", ""),
        **{name: str(getattr(record.sweep, name)) for name in _OF_RUN},
    }


def _of_rubrics(first: Run, second: Run) -> Iterator[Change]:
    """Yield the keys in which rubrics differ, or their digests if a text is gone or they differ in many keys."""
    for dimension, digest in first.record.rubric_hashes.items():
        other = second.record.rubric_hashes.get(dimension, digest)
        if digest == other or dimension not in first.dimensions or dimension not in second.dimensions:
            continue
        found: list[Change] = []
        with suppress(ConfigError, KeyError):
            rubrics = first.rubrics[dimension], second.rubrics[dimension]
            if (rubrics[0].sha256, rubrics[1].sha256) == (digest, other):
                found = list(changes(f"rubric of {dimension}", *(rubric.model_dump() for rubric in rubrics)))
        if 0 < len(found) <= _MAX_OF_RUBRIC:
            yield from found
        else:
            yield Change(f"rubric of {dimension}", digest[:_SHOWN], other[:_SHOWN])


def _of_tests(first: Run, second: Run) -> Iterator[Change]:
    """Yield what makes the tests of the runs; if both were given theirs, only whether it is another file."""
    sweeps = first.record.sweep, second.record.sweep
    are_given = all(sweep.gives_tests for sweep in sweeps)
    if not are_given:
        yield from changes_of_tests(*sweeps)
    for name in ("tests", "responses") if are_given else ("themes",):
        own, theirs = (run.record.hashes.get(name, "")[:_SHOWN] for run in (first, second))
        if own != theirs:
            yield Change(f"text of `{name}`", own, theirs)


def _of_subject(sent: Sent, parameters: Sequence[str]) -> Mapping[str, str]:
    values = {
        "model": sent.model or "given answers",
        "provider": sent.provider or "",
        "system prompt": sent.system or "",
        **{name: " / ".join(sent.parameters.get(name, ("not sent",))) for name in parameters},
        "name reported by the vendor": ", ".join(sent.reported),
    }
    return {f"{name} of {sent.subject}": value for name, value in values.items()}
