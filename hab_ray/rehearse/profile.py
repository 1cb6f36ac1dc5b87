"""What the simulator is told: the accounts with their models and prices, and the truth to be recovered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256

from pydantic import ValidationError

from hab_ray.calls import clean_text
from hab_ray.catalog.models import ModelEntry, Purpose, Thinking, UsdPrice
from hab_ray.catalog.prices import NANO
from hab_ray.config.sections import Subject
from hab_ray.errors import ConfigError
from hab_ray.providers import load_vendor
from hab_ray.providers.vendor import WireProtocol
from hab_ray.rehearse.deductions import deductions_of
from hab_ray.rehearse.imported import form_of
from hab_ray.rehearse.staging import own_account
from hab_ray.rehearse.trouble import Trouble
from hab_ray.rows import ChosenTest
from hab_ray.rubric import LiteralJudging, Rubric
from hab_ray.work import Work, given_tests
from hab_simulator import (
    BatchSettings,
    FixedLatency,
    GivenTest,
    Latency,
    Malformed,
    NoLatency,
    Planted,
    PlantedDimension,
    PlantedIssue,
    PlantedSubject,
    Profile,
    Service,
    SimulatedAccount,
    SimulatedModel,
    SimulatedPrice,
    SimulatedSampling,
    SimulatedThinking,
    fingerprint,
)

_FENCE = re.compile(r"""fence\(\s*["'](\w+)["']\s*,\s*(\w+)\s*\)""")
_THOUGHTS = (64, 1024)
_LONG_CONTEXT = 10_000_000
_REPEATED = 0.1
_SERVICE = {Purpose.CHAT: Service.CHAT, Purpose.EMBEDDING: Service.EMBEDDINGS}


@dataclass(frozen=True)
class Play:
    """How the simulator plays: its seed, how long replies and batches take (seconds), what goes wrong.

    `judge_error` is the share of verdicts with one letter wrong, which must be noticed.
    """

    seed: int = 0
    latency: Latency = field(default_factory=NoLatency)
    turnaround_s: float = 2.0
    trouble: Trouble = field(default_factory=Trouble)
    judge_error: float = 0.0


def profile_of(work: Work, play: Play) -> Profile:
    """The profile for the rehearsal of a staged work.

    Raises:
        ConfigError: the given tests, or judges whose replies come malformed, cannot be told apart; or a built-in
            rubric has other letters than the paper.
    """
    given = given_tests(work)
    points, trouble = deductions_of(work), play.trouble
    if trouble.verdicts != Malformed():
        _check_judges(work)
    every = [*(test for tests in given.values() for test in tests), *_paraphrases(work)]
    planted = Planted(
        dimensions={name: _dimension(work, name, points[name], play.seed) for name in work.rubrics},
        prompts=_told_apart(every),
        contexts=contexts(every),
        given=_given_tests(work),
        marks=dict(marks_of(work.prompts.judge.user)),
        subjects=_subjects(work),
        anew=True,
        repeated=_REPEATED,
        judge_alpha=trouble.judge_alpha,
        judge_error=play.judge_error,
        malformed=trouble.verdicts,
    )
    return Profile(
        seed=play.seed,
        accounts=_accounts(work, trouble.queue_tokens),
        latency=play.latency,
        faults=trouble.calls,
        batch=BatchSettings(turnaround=FixedLatency(value_s=play.turnaround_s), lines=trouble.lines),
        batch_faults=trouble.batches,
        planted=planted,
    )


def _paraphrases(work: Work) -> Iterator[ChosenTest]:
    """The tests as they are asked in other words, each file's once."""
    files = {subject.tests: subject.name for subject in work.sweep.varied_subjects if subject.tests is not None}
    for name in files.values():
        for words in work.paraphrases[name].values():
            for own in words.values():
                yield ChosenTest(own.of, own.dimension, own.prompt, own.context, "", None)


def marks_of(template: str) -> Mapping[str, str]:
    """The names of the marks that a template puts around each text, by the text's own name in it."""
    return {text: name for name, text in _FENCE.findall(template)}


def digest(prompt: str) -> str:
    """A prompt as the simulator knows it."""
    return sha256(prompt.encode("utf-8", "replace")).hexdigest()


def contexts(tests: Iterable[ChosenTest]) -> dict[str, str]:
    """The contexts of those tests that have one, by the digest of the prompt."""
    return {digest(test.prompt): clean_text(test.context) for test in tests if test.context}


def played_as(work: Work) -> Mapping[str, str]:
    """By subject of the sweep, the subject under which the simulator counts it.

    The simulator sees model and system prompt, so variants that differ in neither share one truth.
    """
    first: dict[tuple[str, str], str] = {}
    return {s.name: first.setdefault((_wire(work, s), _system(s)), s.name) for s in _asked(work)}


def _asked(work: Work) -> tuple[Subject, ...]:
    return (*work.sweep.subjects, *work.sweep.varied_subjects)


IssueTexts = tuple[tuple[str, str], ...]


def wordings_in(work: Work, dimension: str) -> tuple[IssueTexts, ...]:
    """The letters and texts of a dimension's issues in the order in which judges are shown them: each way once.

    The rubric's own way comes first; where judges have variants, theirs follow.
    """
    return tuple(dict.fromkeys(map(_issue_texts, _rubrics(work, dimension))))


def forms_in(work: Work, dimension: str) -> tuple[LiteralJudging, ...]:
    """The imported wordings in which judges are asked in a dimension: each once."""
    found = (rubric.literal_judging for rubric in _rubrics(work, dimension))
    return tuple(dict.fromkeys(literal for literal in found if literal is not None))


def _rubrics(work: Work, dimension: str) -> list[Rubric]:
    return [work.rubrics[dimension], *(own[dimension] for own in work.wordings.values() if dimension in own)]


def wordings_shown(work: Work) -> Mapping[tuple[str, str], int]:
    """By judge and dimension the number of the wording that the judge is shown, of `wordings_in`, then `forms_in`."""
    found = {}
    for dimension in work.rubrics:
        known = [*wordings_in(work, dimension), *forms_in(work, dimension)]
        for judge in (*work.sweep.judges, *work.sweep.varied_judges):
            own = work.wordings.get(judge.name, work.rubrics)
            if dimension in own:
                rubric = own[dimension]
                found[judge.name, dimension] = known.index(rubric.literal_judging or _issue_texts(rubric))
    return found


def _issue_texts(rubric: Rubric) -> IssueTexts:
    return tuple((issue.letter, issue.text) for issue in rubric.judging.issues)


def _given_tests(work: Work) -> dict[str, GivenTest]:
    """The tests that given answers answer, by the fingerprint of the prompt.

    Raises:
        ConfigError: a rehearsal cannot tell them or the answers apart.
    """
    if work.sweep.responses is None:
        return {}
    template = work.prompts.judge.user
    if not {"prompt", "response"} <= marks_of(template).keys():
        raise ConfigError(
            "prompts.yaml: judge: user puts no fence around prompt or response, by which a rehearsal knows given "
            "answers; put them in fence(...), or rehearse the built-in prompts"
        )
    found: dict[str, ChosenTest] = {}
    for test in (test for tests in given_tests(work).values() for test in tests):
        other = found.setdefault(fingerprint(test.prompt), test)
        if other is not test:
            raise ConfigError(_alike(other, test))
    return {
        known: GivenTest(dimension=test.dimension, context=fingerprint(test.context) if test.context else "")
        for known, test in found.items()
    }


def _subjects(work: Work) -> tuple[PlantedSubject, ...]:
    names = set(played_as(work).values())
    played = (subject for subject in _asked(work) if subject.name in names)
    return tuple(PlantedSubject(name=s.name, model=_wire(work, s), system=_system(s)) for s in played)


def _wire(work: Work, subject: Subject) -> str:
    return work.models[subject.model].entry.wire


def _system(subject: Subject) -> str:
    """A subject's own system prompt as the simulator has it once the dimension's is taken off."""
    return subject.system.rstrip("\n")


def _check_judges(work: Work) -> None:
    """Raise ConfigError where judges share a model and a wording of the issues.

    Which of them got a malformed reply could not be told.
    """
    first: dict[tuple[str, str, int], str] = {}
    for (judge, dimension), wording in wordings_shown(work).items():
        wire = work.models[work.judge(judge).model].entry.wire
        other = first.setdefault((wire, dimension, wording), judge)
        if other != judge:
            raise ConfigError(
                f"--faults: verdicts: the judges {other} and {judge} ask the same model, so that a rehearsal "
                "cannot tell whose reply was malformed; leave one of them out"
            )


def system_of(work: Work, dimension: str) -> str:
    """What is added to the system prompt of everybody who is asked a dimension's tests.

    Raises:
        ConfigError: its tests do not share one text.
    """
    given = given_tests(work).get(dimension, []) if work.sweep.tests not in (None, "seeds") else []
    systems = {test.system for test in given} or {work.rubrics[dimension].system}
    if len(systems) > 1:
        raise ConfigError(
            f"tests: the tests of {dimension} have {len(systems)} different `system` texts; a rehearsal can tell "
            "subjects apart only where a dimension's tests share one"
        )
    return systems.pop()


def _dimension(work: Work, name: str, points: Mapping[str, int], seed: int) -> PlantedDimension:
    first, *others = (
        tuple(PlantedIssue.drawn(seed, name, letter, points[letter], text) for letter, text in texts)
        for texts in wordings_in(work, name)
    )
    forms = tuple(form_of(name, literal) for literal in forms_in(work, name))
    return PlantedDimension(system=system_of(work, name), issues=first, rewordings=tuple(others), forms=forms)


def _told_apart(tests: Iterable[ChosenTest]) -> dict[str, str]:
    """The dimension of each prompt, by its digest."""
    found: dict[str, ChosenTest] = {}
    for test in tests:
        other = found.setdefault(digest(test.prompt), test)
        if other is not test:
            raise ConfigError(_alike(other, test))
    return {prompt: test.dimension for prompt, test in found.items()}


def _alike(one: ChosenTest, other: ChosenTest) -> str:
    return (
        f"tests: {one.id} and {other.id} have the same prompt, by which a rehearsal tells tests apart; leave one of "
        "them out"
    )


def _accounts(work: Work, queue_tokens: Mapping[str, int]) -> dict[str, SimulatedAccount]:
    models: dict[tuple[str, str], dict[str, SimulatedModel]] = {}
    for model in work.models.values():
        name, wire = model.entry.provider, model.entry.wire
        protocol = load_vendor(work.catalog.providers[name].kind).protocol
        played = models.setdefault((own_account(name, protocol), protocol.played_as), {})
        played[wire] = _model(model.entry, protocol, queue_tokens.get(wire))
    try:
        return {name: SimulatedAccount(kind=kind, models=played) for (name, kind), played in models.items()}
    except ValidationError as error:
        cause = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise ConfigError(
            f"the simulator has no such vendor: {cause}; install the package that adds it (an entry point of the group "
            "hab_simulator.vendors), or give the provider a `kind` that is played"
        ) from None


def _model(entry: ModelEntry, protocol: WireProtocol, queue_tokens: int | None) -> SimulatedModel:
    least, most = _THOUGHTS
    return SimulatedModel(
        serves=frozenset({_SERVICE[entry.purpose]}),
        sampling=SimulatedSampling(entry.sampling),
        thinking=_thinking(entry, protocol),
        thinking_tokens=(min(least, entry.thinking_reserve), min(most, entry.thinking_reserve)),
        context_tokens=_LONG_CONTEXT,
        price=_price(entry.price) if entry.price else SimulatedPrice(),
        batch_price=_price(entry.batch.price) if entry.batch and entry.batch.price else None,
        batch_queue_tokens=queue_tokens,
    )


def _thinking(entry: ModelEntry, protocol: WireProtocol) -> SimulatedThinking:
    """As the catalogue says; but the simulator holds that who always thinks takes no `max_tokens`, as OpenAI does."""
    odd = protocol.is_openais_online and entry.output_limit_field == "max_tokens" and entry.thinking is Thinking.ALWAYS
    return SimulatedThinking.OPTIONAL if odd else SimulatedThinking(entry.thinking)


def _price(price: UsdPrice) -> SimulatedPrice:
    """The same price to the nano-dollar: ours is held as an integer, the simulator's as a decimal."""
    parts = price.model_dump(exclude_none=True)
    return SimulatedPrice(**{name: Decimal(round(part * NANO)) / NANO for name, part in parts.items()})
