"""Checks a sweep's models before it starts: retirement, prices, names, and the settings that they are called with."""

from collections import defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass
from datetime import date, timedelta

from hab_ray.calls import Params
from hab_ray.catalog.models import SURELY_LIKE, Model, ModelEntry, accepted
from hab_ray.catalog.prices import AHEAD, no_price
from hab_ray.catalog.settings import Unheeded, unheeded
from hab_ray.config.sections import Judge, Subject, Validate
from hab_ray.config.sweep import Sweep
from hab_ray.planning.problems import LEAVE_OUT, Problem, Severity
from hab_ray.stages.method.judge import JUDGE_SETTINGS
from hab_ray.stages.method.respond import PAPER_SETTINGS
from hab_ray.work import Work

NOTICE = timedelta(days=30)


@dataclass(frozen=True)
class Wanted:
    """How a model is called: the sweep's key, the caller's name, the settings, and those that the sweep sets itself."""

    key: str
    asked: str
    model: str
    params: Params
    named: Set[str]


def where_of(sweep: Sweep, model: str) -> str:
    """Return the sweep's keys that name a model."""
    return ", ".join(key for key, name, _ in sweep.modes_by_key() if name == model)


def lifecycle(sweep: Sweep, model: Model, today: date) -> Iterator[Problem]:
    """Find a model that is retired or that another answers, now or within the notice."""
    end = model.entry.lifecycle
    if end is None or end.ends - today > NOTICE:
        return
    where, days = f"{where_of(sweep, model.name)}: {model.name}", (end.ends - today).days
    if end.answered_by:
        yield _rerouted(sweep, model, end.answered_by, f"{where} is answered by {end.answered_by}", today)
    elif end.ends <= today:
        cause = f"{where} was retired on {end.ends} ({end.why})"
        yield Problem(Severity.ERROR, (model.name,), cause, LEAVE_OUT)
    else:
        cause = f"{where} ends on {end.ends}, in {days} days ({end.why})"
        yield Problem(Severity.WARNING, (model.name,), cause, "finish before that day, or use another model")


def _rerouted(sweep: Sweep, model: Model, other: str, cause: str, today: date) -> Problem:
    """Report a model name that another model answers, now or soon: its replies cost money but are excluded."""
    end = model.entry.lifecycle
    assert end is not None
    now = end.ends <= today
    when = f"since {end.ends}" if now else f"from {end.ends} on, in {(end.ends - today).days} days"
    if sweep.accept_substitutes:
        taken = f"{cause} {when} ({end.why}), and its replies are taken for {model.name}'s (accept_substitutes: true)"
        return Problem(Severity.WARNING, (model.name,), taken, f"name {other} itself")
    lost = f"{cause} {when} ({end.why}): replies would be paid for and excluded as substituted"
    severity = Severity.ERROR if now else Severity.WARNING
    before = "" if now else "finish before that day, or "
    return Problem(severity, (model.name,), lost, f"{before}name {other}, or set `accept_substitutes: true`")


def unheeded_settings(work: Work) -> dict[Unheeded, list[str]]:
    """Return settings that are not sent to a model or have no effect, with the callers they affect."""
    found: dict[Unheeded, list[str]] = defaultdict(list)
    for wanted in _wanted(work.sweep):
        for setting in unheeded(work.models[wanted.model].entry, wanted.params):
            found[setting].append(wanted.asked)
    return found


def settings(work: Work) -> Iterator[Problem]:
    """Find settings that the vendor refuses, which would fail every call, and settings that have no effect."""
    for wanted in _wanted(work.sweep):
        entry = work.models[wanted.model].entry
        for field, cause, remedy in _refused(wanted.model, entry, accepted(entry, wanted.params)):
            yield Problem(Severity.ERROR, (wanted.model,), f"{wanted.key}.{field}: {cause}", remedy)
        for setting in unheeded(entry, wanted.params):
            if setting.field in wanted.named:
                what = "is sent and has no effect" if setting.sent else "is not sent"
                cause = f"{wanted.key}.{setting.field}: {setting.value} {what} on {wanted.model} ({setting.why})"
                remedy = "leave it out, or choose another model"
                yield Problem(Severity.WARNING, (wanted.model,), cause, remedy)


def _wanted(sweep: Sweep) -> Iterator[Wanted]:
    if sweep.generate and not sweep.gives_tests:
        made = sweep.generate
        params = Params(made.max_tokens, made.temperature, made.top_p)
        yield Wanted("generate", "generate", made.model, params, made.model_fields_set)
        if isinstance(sweep.validation, Validate):
            params = Params(sweep.validation.max_tokens, temperature=0.0)
            yield Wanted("validate", "validate", sweep.validation.model, params, frozenset())
    for number, subject in enumerate(sweep.subjects):
        yield _wanted_of(f"subjects.{number}.params", subject.name, subject, PAPER_SETTINGS)
    for number, judge in enumerate(sweep.judges):
        yield _wanted_of(f"judges.{number}.params", f"judge {judge.name}", judge, JUDGE_SETTINGS)


def _wanted_of(key: str, asked: str, entry: Subject | Judge, usual: Params) -> Wanted:
    return Wanted(key, asked, entry.model, entry.params.over(usual), entry.params.model_fields_set)


def _refused(name: str, entry: ModelEntry, sent: Params) -> Iterator[tuple[str, str, str]]:
    """Yield each setting that the catalogue says is refused: its name, the cause and the remedy."""
    highest = entry.highest_temperature
    if sent.temperature is not None and sent.temperature > highest:
        cause = f"{sent.temperature:g} is more than {name} accepts (0 to {highest:g})"
        yield "temperature", cause, f"give at most {highest:g}, or choose another model"
    if sent.effort is not None and not entry.takes_effort(sent.effort):
        levels = ", ".join(entry.efforts or ())
        yield "effort", f"{name} has no effort level {sent.effort!r}", f"give one of {levels}, or leave it out"
    elif sent.effort and sent.effort.isdecimal() and int(sent.effort) > entry.thinking_reserve:
        key = f"providers.{entry.provider}.models.{entry.wire}.thinking_reserve"
        cause = f"{sent.effort} tokens of thinking are more than the {entry.thinking_reserve} reserved for it on {name}"
        yield "effort", cause, f"give at most {entry.thinking_reserve}, or set {key}: {sent.effort}"
    limit = entry.output_limit(sent.max_tokens)
    if entry.most_output is not None and limit > entry.most_output:
        reserve = limit - sent.max_tokens
        thinking = f" and {reserve} for thinking" if reserve else ""
        cause = f"{sent.max_tokens}{thinking} is more than {name} writes ({entry.most_output} tokens)"
        room = entry.most_output - reserve
        yield "max_tokens", cause, f"give at most {room}" if room > 0 else "correct `most_output` or `thinking_reserve`"


def unlisted(work: Work) -> Iterator[Problem]:
    """Find names of the form provider/model that the catalogue has under another or a similar name.

    A misspelt name usually has no price; that error suggests names itself.
    """
    for model in work.models.values():
        entry, where = model.entry, where_of(work.sweep, model.name)
        if model.name in work.catalog.models or entry.wire in work.catalog.providers[entry.provider].models:
            continue
        near = {name: work.catalog.find(name) for name in work.catalog.near(model.name, SURELY_LIKE)}
        if same := next((name for name, other in near.items() if other.wire == entry.wire), None):
            cause = (
                f"{where}: of {model.name} nothing is known but its price: not what it takes, reports or when it ends"
            )
            yield Problem(Severity.WARNING, (model.name,), cause, f"name {same}, under which the catalogue has it")
        elif near and entry.price and not any(other.covers(entry.wire) for other in near.values()):
            cause = f"{where}: {model.name} is not in the catalogue"
            yield Problem(Severity.WARNING, (model.name,), cause, f"did you mean {' or '.join(near)}?")


def price(model: Model) -> Iterator[Problem]:
    """Find a model without a price."""
    if model.entry.price is None:
        cause, _, remedy = no_price(model.entry).partition("; ")
        yield Problem(Severity.ERROR, (model.name,), cause, remedy)


def rise(sweep: Sweep, model: Model, today: date) -> Iterator[Problem]:
    """Find a model that soon costs more by the price list."""
    now = model.entry.price
    for then in model.entry.later:
        if now and then.start - today <= NOTICE and (then.price.input > now.input or then.price.output > now.output):
            old, new = (f"${price.input:g} and ${price.output:g}" for price in (now, then.price))
            cause = (
                f"{where_of(sweep, model.name)}: {model.name} costs {old} per million tokens of input and output, and "
                f"{new} from {then.start} on, in {(then.start - today).days} days"
            )
            remedy = f"finish before that day, or give a budget for it: calls reserve that from {then.start - AHEAD} on"
            yield Problem(Severity.WARNING, (model.name,), cause, remedy)
            return
