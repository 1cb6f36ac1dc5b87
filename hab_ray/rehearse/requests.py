"""Compares the requests that models received with those that sweep file and rubrics require.

Nothing here uses the stages, whose requests are under test.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hab_ray.catalog.models import ModelEntry, Sampling, Thinking
from hab_ray.config.sections import ParamOverrides, Validate
from hab_ray.rehearse.profile import system_of
from hab_ray.rubric import LiteralJudging, Rubric
from hab_ray.work import Work
from hab_simulator import Manner, SimulatorClient, fingerprint

_SUBJECT, _JUDGE = (1000, 0.0, 0.95), (2000, 0.0, None)


class Sent(NamedTuple):
    """The settings of a request as sent, without those that its model does not accept."""

    limit: int | None
    temperature: float | None
    top_p: float | None
    effort: str | None

    @classmethod
    def of(cls, manner: Manner) -> Sent:
        return cls(manner.limit, manner.temperature, manner.top_p, manner.effort)

    def __str__(self) -> str:
        effort = f", effort {self.effort}" if self.effort else ""
        return f"{self.limit} tokens, temperature {_shown(self.temperature)}, top-p {_shown(self.top_p)}{effort}"


def _shown(number: float | None) -> str:
    return "unset" if number is None else f"{number:g}"


def _accepted(
    entry: ModelEntry, limit: int, temperature: float | None, top_p: float | None, effort: str | None = None
) -> Sent:
    return Sent(
        limit=limit if entry.thinking is Thinking.NONE else limit + entry.thinking_reserve,
        temperature=None if entry.sampling is Sampling.FIXED else temperature,
        top_p=top_p if entry.sampling in (Sampling.BOTH, Sampling.IGNORED) else None,
        effort=effort.lower() if effort is not None and entry.sends_effort else None,
    )


def _expected(entry: ModelEntry, own: ParamOverrides, usual: tuple[int, float, float | None]) -> Sent:
    limit, temperature, top_p = (
        base if given is None else given
        for given, base in zip((own.max_tokens, own.temperature, own.top_p), usual, strict=True)
    )
    assert limit is not None
    return _accepted(entry, int(limit), temperature, top_p, own.effort)


def settings_of_subjects(work: Work) -> Mapping[str, Sent]:
    """Return the expected settings of each subject's requests."""
    subjects = (*work.sweep.subjects, *work.sweep.varied_subjects)
    return {s.name: _expected(work.models[s.model].entry, s.params, _SUBJECT) for s in subjects}


def settings_of_judges(work: Work) -> Mapping[str, Sent]:
    """Return the expected settings of each judge's requests."""
    judges = (*work.sweep.judges, *work.sweep.varied_judges)
    return {j.name: _expected(work.models[j.model].entry, j.params, _JUDGE) for j in judges}


@dataclass(frozen=True)
class _Request:
    recipient: str
    dimension: str
    manner: Manner

    def missing_texts(self, texts: Iterable[tuple[str, str | None]]) -> Iterator[str]:
        """Yield problems of named texts that are not in the system text; white space is ignored."""
        system = " ".join(self.manner.system.split())
        for name, text in texts:
            if text and " ".join(text.split()) not in system:
                yield self.problem(f"was not shown {name}")

    def wrong_settings(self, expected: Sent) -> Iterator[str]:
        if Sent.of(self.manner) != expected:
            yield self.problem(f"was asked with {Sent.of(self.manner)}; the sweep says {expected}")

    def wrong_letters(self, key: str, letters: Iterable[str]) -> Iterator[str]:
        schema = json.loads(self.manner.schema_text or "{}")
        given = schema.get("properties", {}).get(key, {}).get("items", {}).get("enum")
        if given is None or sorted(given) != sorted(letters):
            yield self.problem(f"was given a schema with the letters {given}, expected {', '.join(letters)}")

    def problem(self, text: str) -> str:
        return f"{self.recipient} in {self.dimension} {text}"


def wrong_requests(work: Work, client: SimulatorClient) -> list[str]:
    """Return all deviations of received requests from sweep and rubrics, each problem once."""
    manners = client.manners()
    found = [
        *_of_subjects(work, client, manners),
        *_of_judges(work, client, manners),
        *_of_authors(work, client, manners),
        *_of_validators(work, client, manners),
    ]
    return list(dict.fromkeys(found))


def _of_subjects(work: Work, client: SimulatorClient, manners: tuple[Manner, ...]) -> Iterator[str]:
    sweep, settings = work.sweep, settings_of_subjects(work)
    asked = dict.fromkeys((answer.dimension, answer.manner) for answer in client.answers())
    for dimension, number in asked:
        manner = manners[number]
        ours = [s for s in (*sweep.subjects, *sweep.varied_subjects) if work.models[s.model].entry.wire == manner.model]
        own = system_of(work, dimension)
        known = [s.name for s in ours if manner.system == "\n\n".join(filter(None, (s.system, own)))]
        request = _Request(known[0] if known else f"subject {manner.model}", dimension, manner)
        if not known:
            yield request.problem(f"was asked under a system text of neither subject nor dimension: {manner.system!r}")
        elif Sent.of(manner) not in {settings[name] for name in known}:
            yield from request.wrong_settings(settings[known[0]])
        if manner.schema_text:
            yield request.problem("was given a schema, but must answer freely")


def _of_judges(work: Work, client: SimulatorClient, manners: tuple[Manner, ...]) -> Iterator[str]:
    sweep, settings = work.sweep, settings_of_judges(work)
    judges = (*sweep.judges, *sweep.varied_judges)
    for dimension, number in dict.fromkeys((verdict.dimension, verdict.manner) for verdict in client.verdicts()):
        manner = manners[number]
        ours = [j for j in judges if work.models[j.model].entry.wire == manner.model]
        rubrics = {
            j.name: work.rubric_of(j.name, dimension)
            for j in ours
            if dimension in work.wordings.get(j.name, work.rubrics)
        }
        best = min(
            (list(_wrong_judge(work, _Request(f"judge {name}", dimension, manner), rubric, settings[name])), name)
            for name, rubric in rubrics.items()
        )
        yield from best[0]


def _wrong_judge(work: Work, request: _Request, rubric: Rubric, expected: Sent) -> Iterator[str]:
    if rubric.literal_judging is not None:
        yield from _wrong_literal(request, rubric.literal_judging, expected)
        return
    judging, shows_ours = rubric.judging, work.prompts.judge.choices.get("ours") == "include"
    texts = [("the definition", rubric.definition), ("the guidance", judging.guidance)]
    texts += [(f"note {at}", n.text) for at, n in enumerate(judging.notes, 1) if shows_ours or not n.ours]
    texts += [(f"issue {issue.letter}", issue.text) for issue in judging.issues]
    for at, example in enumerate(judging.examples, 1):
        texts += [(f"the message of example {at}", example.prompt), (f"the answer of example {at}", example.response)]
        texts += [(f"the assessment of example {at}", example.assessment)]
    yield from request.missing_texts(_in_template(texts, work.prompts.judge.system))
    yield from request.wrong_letters("issues", rubric.issue_letters())
    yield from request.wrong_settings(expected)


def _wrong_literal(request: _Request, literal: LiteralJudging, expected: Sent) -> Iterator[str]:
    """Check system text, schema and settings of imported wording; `rows` compares the user message."""
    if request.manner.system != literal.system:
        yield request.problem("was not shown exactly the system text of the imported wording")
    if request.manner.schema_text:
        yield request.problem("was given a schema, but imported wording has none")
    yield from request.wrong_settings(expected)


# The variable of a template that shows the texts whose names begin so: users may write prompts without it.
_VARIABLES = {
    "the definition": "definition",
    "the guidance": "guidance",
    "the brief": "brief",
    "note": "notes",
    "issue": "issues",
    "criterion": "criteria",
    "": "examples",
}


def _in_template(texts: Iterable[tuple[str, str]], template: str) -> list[tuple[str, str]]:
    """Return the named texts whose variable the template uses."""

    def variable(name: str) -> str:
        return next(own for start, own in _VARIABLES.items() if name.startswith(start))

    return [(name, text) for name, text in texts if variable(name) in template]


def _of_authors(work: Work, client: SimulatorClient, manners: tuple[Manner, ...]) -> Iterator[str]:
    generate = work.sweep.generate
    if not work.makes_tests or generate is None:
        return
    expected = _accepted(work.models[generate.model].entry, generate.max_tokens, generate.temperature, generate.top_p)
    for number in dict.fromkeys(written.manner for written in client.queries()):
        manner = manners[number]
        dimension, rubric = _of_definition(work, manner)
        request = _Request(f"{generate.model}, which writes queries,", dimension, manner)
        yield from request.wrong_settings(expected)
        if rubric is None:
            yield request.problem("was not shown the definition of any dimension")
        elif rubric.generation:
            brief = [("the definition", rubric.definition), ("the brief", rubric.generation.brief)]
            yield from request.missing_texts(_in_template(brief, work.prompts.generate.system))


def _of_validators(work: Work, client: SimulatorClient, manners: tuple[Manner, ...]) -> Iterator[str]:
    validate = work.sweep.validation
    if not work.makes_tests or not isinstance(validate, Validate):
        return
    expected = _accepted(work.models[validate.model].entry, validate.max_tokens, 0.0, None)
    for number in dict.fromkeys(check.manner for check in client.checks()):
        manner = manners[number]
        dimension, rubric = _of_definition(work, manner)
        request = _Request(f"validator {validate.model}", dimension, manner)
        yield from request.wrong_settings(expected)
        if rubric is None:
            yield request.problem("was not shown the definition of any dimension")
        elif rubric.validation:
            texts = [("the definition", rubric.definition)]
            texts += [(f"criterion {each.letter}", f"{each.letter}. {each.text}") for each in rubric.criteria]
            for at, example in enumerate(rubric.validation.examples, 1):
                texts += [(f"the message of example {at}", example.prompt)]
                texts += [(f"the assessment of example {at}", example.assessment)]
            yield from request.missing_texts(_in_template(texts, work.prompts.validation.system))
            yield from request.wrong_letters("deductions", [each.letter for each in rubric.criteria])


def _of_definition(work: Work, manner: Manner) -> tuple[str, Rubric | None]:
    system = " ".join(manner.system.split())
    for dimension, rubric in work.rubrics.items():
        if " ".join(rubric.definition.split()) in system:
            return dimension, rubric
    return "no dimension", None


def shown_parts(marks: Mapping[str, str], **texts: str) -> Mapping[str, str]:
    """Return the expected fingerprint between each pair of a template's marks; empty texts have no marks."""
    return {marks[name]: fingerprint(text) for name, text in texts.items() if name in marks and text}
