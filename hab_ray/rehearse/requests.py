"""What models must be told, by the sweep file and the rubrics alone, beside what they were told.

Nothing here is taken from the stages: what they send is what is put to the test.
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
    """The settings of a request as they are sent, after what its model does not take is left out."""

    limit: int | None
    temperature: float | None
    top_p: float | None

    @classmethod
    def of(cls, manner: Manner) -> Sent:
        """Those of a request that arrived."""
        return cls(manner.limit, manner.temperature, manner.top_p)

    def __str__(self) -> str:
        return f"{self.limit} tokens, temperature {_shown(self.temperature)}, top-p {_shown(self.top_p)}"


def _shown(number: float | None) -> str:
    return "unset" if number is None else f"{number:g}"


def _taken(entry: ModelEntry, limit: int, temperature: float | None, top_p: float | None) -> Sent:
    return Sent(
        limit=limit if entry.thinking is Thinking.NONE else limit + entry.thinking_reserve,
        temperature=None if entry.sampling is Sampling.FIXED else temperature,
        top_p=top_p if entry.sampling in (Sampling.BOTH, Sampling.IGNORED) else None,
    )


def _wanted(entry: ModelEntry, own: ParamOverrides, usual: tuple[int, float, float | None]) -> Sent:
    limit, temperature, top_p = (
        base if given is None else given
        for given, base in zip((own.max_tokens, own.temperature, own.top_p), usual, strict=True)
    )
    assert limit is not None
    return _taken(entry, int(limit), temperature, top_p)


def settings_of_subjects(work: Work) -> Mapping[str, Sent]:
    """The settings that each subject must be asked with."""
    subjects = (*work.sweep.subjects, *work.sweep.varied_subjects)
    return {s.name: _wanted(work.models[s.model].entry, s.params, _SUBJECT) for s in subjects}


def settings_of_judges(work: Work) -> Mapping[str, Sent]:
    """The settings that each judge must be asked with."""
    judges = (*work.sweep.judges, *work.sweep.varied_judges)
    return {j.name: _wanted(work.models[j.model].entry, j.params, _JUDGE) for j in judges}


@dataclass(frozen=True)
class _Told:
    """Who was told something in which manner."""

    who: str
    dimension: str
    manner: Manner

    def lacking(self, texts: Iterable[tuple[str, str | None]], system: str) -> Iterator[str]:
        """What is not in a system text, which is compared as it is read: white space does not count."""
        held = " ".join(system.split())
        for what, text in texts:
            if text and " ".join(text.split()) not in held:
                yield self.says(f"was not shown {what}")

    def settings(self, wanted: Sent) -> Iterator[str]:
        if Sent.of(self.manner) != wanted:
            yield self.says(f"was asked with {Sent.of(self.manner)}; the sweep says {wanted}")

    def letters(self, key: str, letters: Iterable[str]) -> Iterator[str]:
        schema = json.loads(self.manner.schema_text or "{}")
        given = schema.get("properties", {}).get(key, {}).get("items", {}).get("enum")
        if given is None or sorted(given) != sorted(letters):
            yield self.says(f"was given a schema with the letters {given}, and must have {', '.join(letters)}")

    def says(self, problem: str) -> str:
        return f"{self.who} in {self.dimension} {problem}"


def wrong_requests(work: Work, client: SimulatorClient) -> list[str]:
    """All that models were told otherwise than sweep and rubrics say, each problem once."""
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
        known = [s.name for s in ours if manner.system == _joined(s.system, system_of(work, dimension))]
        told = _Told(known[0] if known else f"subject {manner.model}", dimension, manner)
        if not known:
            yield told.says(f"was asked under a system text that neither subject nor dimension has: {manner.system!r}")
        elif Sent.of(manner) not in {settings[name] for name in known}:
            yield from told.settings(settings[known[0]])
        if manner.schema_text:
            yield told.says("was given a schema, and must answer freely")


def _joined(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)


def _of_judges(work: Work, client: SimulatorClient, manners: tuple[Manner, ...]) -> Iterator[str]:
    sweep, settings = work.sweep, settings_of_judges(work)
    judges = (*sweep.judges, *sweep.varied_judges)
    for dimension, number in dict.fromkeys((verdict.dimension, verdict.manner) for verdict in client.verdicts()):
        manner = manners[number]
        ours = [j for j in judges if work.models[j.model].entry.wire == manner.model]
        rubrics = {j.name: work.rubric_of(j.name, dimension) for j in ours if _judges(work, j.name, dimension)}
        best = min(
            (list(_wrong_judge(work, _Told(f"judge {name}", dimension, manner), rubric, settings[name])), name)
            for name, rubric in rubrics.items()
        )
        yield from best[0]


def _judges(work: Work, judge: str, dimension: str) -> bool:
    return judge not in work.wordings or dimension in work.wordings[judge]


def _wrong_judge(work: Work, told: _Told, rubric: Rubric, wanted: Sent) -> Iterator[str]:
    if rubric.literal_judging is not None:
        yield from _wrong_literal(told, rubric.literal_judging, wanted)
        return
    judging, shows_ours = rubric.judging, work.prompts.judge.choices.get("ours") == "include"
    texts = [("the definition", rubric.definition), ("the guidance", judging.guidance)]
    texts += [(f"note {at}", n.text) for at, n in enumerate(judging.notes, 1) if shows_ours or not n.ours]
    texts += [(f"issue {issue.letter}", issue.text) for issue in judging.issues]
    for at, example in enumerate(judging.examples, 1):
        texts += [(f"the message of example {at}", example.prompt), (f"the answer of example {at}", example.response)]
        texts += [(f"the assessment of example {at}", example.assessment)]
    yield from told.lacking(_in_template(texts, work.prompts.judge.system), told.manner.system)
    yield from told.letters("issues", rubric.issue_letters())
    yield from told.settings(wanted)


def _wrong_literal(told: _Told, literal: LiteralJudging, wanted: Sent) -> Iterator[str]:
    """What is otherwise in a request in imported wording, beside its message, which is compared row by row."""
    if told.manner.system != literal.system:
        yield told.says("was not shown the system text of the imported wording, and no other")
    if told.manner.schema_text:
        yield told.says("was given a schema, and imported wording has none")
    yield from told.settings(wanted)


# What a template must name for a text to be looked for: users may write prompts that go without.
_NAMED = {"the definition": "definition", "the guidance": "guidance", "the brief": "brief"}


def _in_template(texts: Iterable[tuple[str, str]], template: str) -> list[tuple[str, str]]:
    def is_named(what: str) -> bool:
        for start, name in (("note", "notes"), ("issue", "issues"), ("criterion", "criteria")):
            if what.startswith(start):
                return name in template
        return _NAMED.get(what, "examples") in template

    return [(what, text) for what, text in texts if is_named(what)]


def _of_authors(work: Work, client: SimulatorClient, manners: tuple[Manner, ...]) -> Iterator[str]:
    generate = work.sweep.generate
    if not work.makes_tests or generate is None:
        return
    wanted = _taken(work.models[generate.model].entry, generate.max_tokens, generate.temperature, generate.top_p)
    for number in dict.fromkeys(written.manner for written in client.queries()):
        manner = manners[number]
        dimension, rubric = _of_definition(work, manner)
        told = _Told(f"{generate.model}, which writes queries,", dimension, manner)
        yield from told.settings(wanted)
        if rubric is None:
            yield told.says("was not shown the definition of any dimension")
        elif rubric.generation:
            brief = [("the definition", rubric.definition), ("the brief", rubric.generation.brief)]
            yield from told.lacking(_in_template(brief, work.prompts.generate.system), manner.system)


def _of_validators(work: Work, client: SimulatorClient, manners: tuple[Manner, ...]) -> Iterator[str]:
    validate = work.sweep.validation
    if not work.makes_tests or not isinstance(validate, Validate):
        return
    wanted = _taken(work.models[validate.model].entry, validate.max_tokens, 0.0, None)
    for number in dict.fromkeys(check.manner for check in client.checks()):
        manner = manners[number]
        dimension, rubric = _of_definition(work, manner)
        told = _Told(f"validator {validate.model}", dimension, manner)
        yield from told.settings(wanted)
        if rubric is None:
            yield told.says("was not shown the definition of any dimension")
        elif rubric.validation:
            texts = [("the definition", rubric.definition)]
            texts += [(f"criterion {each.letter}", f"{each.letter}. {each.text}") for each in rubric.criteria]
            for at, example in enumerate(rubric.validation.examples, 1):
                texts += [(f"the message of example {at}", example.prompt)]
                texts += [(f"the assessment of example {at}", example.assessment)]
            yield from told.lacking(_in_template(texts, work.prompts.validation.system), manner.system)
            yield from told.letters("deductions", [each.letter for each in rubric.criteria])


def _of_definition(work: Work, manner: Manner) -> tuple[str, Rubric | None]:
    held = " ".join(manner.system.split())
    for dimension, rubric in work.rubrics.items():
        if " ".join(rubric.definition.split()) in held:
            return dimension, rubric
    return "no dimension", None


def shown_parts(marks: Mapping[str, str], **texts: str) -> Mapping[str, str]:
    """The fingerprints that must stand between the marks that a template has; without a text there are none."""
    return {marks[name]: fingerprint(text) for name, text in texts.items() if name in marks and text}
