"""Names the differences between a vendor's and the simulator's answers to the same questions."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hab_ray.calls import ChatCall, EmbedCall, Failure, Finish, Reply
from hab_ray.catalog.models import Model
from hab_ray.doctor.examination import MALFORMED, AskedQuestion, Examined
from hab_ray.doctor.ranks import STATES, Rank, of_field, of_header, of_status
from hab_ray.doctor.shapes import Shape, changes, leaf, shape, shown
from hab_ray.doctor.tap import Exchange
from hab_ray.providers.http import is_page
from hab_ray.providers.vendor import WireProtocol
from hab_ray.visible import one_line

_RESOURCE = re.compile(r"\b(files|batches)/[^/?:]+")
# Headers of one connection, and those that any server may send or not.
_GENERIC_HEADERS = {
    *("date", "server", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection"),
    *("keep-alive", "vary", "via", "etag", "last-modified", "accept-ranges", "cache-control"),
}
# Fields with a fixed set of values on which clients branch; other text is free.
_ENUM_FIELDS = STATES | {
    *("object", "role", "type", "endpoint", "finish_reason", "stop_reason", "finishReason", "modality"),
    *("completion_window", "purpose", "encoding_format"),
}
_COUNT_PATH = re.compile(r"(^|\.)(\w*counts?|\w*Stats|state)\.\w+$")
_MAX_QUOTE, _MAX_DEPTH = 240, 64
_ENDED = "at its end"
_OK = 200
# `hab simulate --replay` marks its answer to an unrecorded request with this header.
_UNRECORDED = "x-hab-unrecorded"
_POLL = re.compile(r"^GET .*batches/\{id\}$")


Ranked = tuple[Rank, str]


@dataclass(frozen=True)
class ProtocolDifference:
    """A difference of a vendor from the simulator; `verb` is the method and path of the request that showed it."""

    label: str
    verb: str
    what: str
    rank: Rank = Rank.COSMETIC

    def __str__(self) -> str:
        return one_line(f"{self.label}: {self.verb}: {self.what}" if self.verb else f"{self.label}: {self.what}")


@dataclass
class ComparedProtocols:
    """All differences. `notes` are harmless by themselves: new fields, and requests that were not compared."""

    differences: list[ProtocolDifference] = field(default_factory=list)
    notes: list[ProtocolDifference] = field(default_factory=list)

    def differ(self, label: str, verb: str, words: Iterable[Ranked]) -> None:
        """Add differences, each once."""
        fresh = (ProtocolDifference(label, verb, what, rank) for rank, what in words)
        self.differences += [one for one in dict.fromkeys(fresh) if one not in self.differences]

    @property
    def serious(self) -> Sequence[ProtocolDifference]:
        """The differences that stop a sweep, raise its cost or may lose rows."""
        return [one for one in self.differences if one.rank is not Rank.COSMETIC]

    def note(self, label: str, verb: str, words: Iterable[str]) -> None:
        self.notes += [ProtocolDifference(label, verb, what) for what in words]


def compare(
    theirs: Examined, ours: Examined, protocols: Mapping[str, WireProtocol], models: Mapping[str, Model]
) -> ComparedProtocols:
    """Name every difference between the vendors' answers and the simulator's.

    `protocols` are by provider, `models` are the sweep's by name.
    """
    compared = ComparedProtocols()
    labels = {exchange.label for exchange in ours.exchanges}
    recorded = [each for each in theirs.exchanges if each.label in labels and _UNRECORDED not in each.headers]
    at_vendors, at_simulator = _by_verb(recorded, protocols), _by_verb(ours.exchanges, protocols)
    for (label, verb), exchanges in at_vendors.items():
        protocol = protocols[exchanges[0].provider]
        reference = at_simulator.get((label, verb))
        if reference is not None:
            _compare_verb(label, verb, exchanges, reference, protocol, compared)
            continue
        compared.differ(label, verb, _flaws(exchanges, protocol))
        if _POLL.search(verb):
            ended = at_simulator.get((label, f"{verb} {_ENDED}"), ())
            compared.differ(label, verb, _other_statuses(verb, exchanges, ended))
        else:
            compared.note(label, verb, ["is sent to the vendor and not to the simulator"])
    for label, verb in sorted(at_simulator.keys() - at_vendors.keys()):
        if not _POLL.search(verb):
            compared.note(label, verb, ["was not reached"])
    references = {asked.label: asked for asked in ours.asked}
    for asked in theirs.asked:
        reference_asked = references.get(asked.label)
        compared.differ(asked.label, "", _other_outcomes(asked, reference_asked, models[asked.question.model]))
    for bill in theirs.bills:
        compared.differ("price", "", [(Rank.COSTS, bill)])
    return compared


def _by_verb(
    exchanges: Iterable[Exchange], protocols: Mapping[str, WireProtocol]
) -> dict[tuple[str, str], list[Exchange]]:
    """Group exchanges by label and verb, with polls of an ended batch apart from earlier ones."""
    found: defaultdict[tuple[str, str], list[Exchange]] = defaultdict(list)
    for exchange in exchanges:
        verb = _verb(exchange)
        if _POLL.search(verb) and exchange.status == _OK:
            has_ended = any(not _is_open(protocols[exchange.provider], batch) for batch in _documents([exchange]))
            verb = f"{verb} {_ENDED}" if has_ended else verb
        found[exchange.label, verb].append(exchange)
    return found


def _is_open(protocol: WireProtocol, batch: Any) -> bool:
    if not isinstance(batch, dict):
        return True
    if protocol.is_open is not None:
        return protocol.is_open(batch)
    return bool({str(batch.get(name)) for name in STATES} & protocol.open_states)


def _verb(exchange: Exchange) -> str:
    path = _RESOURCE.sub(r"\1/{id}", exchange.path.partition("?")[0]).replace("v1beta/", "v1/")
    command = exchange.request_headers.get("x-goog-upload-command")
    return f"{exchange.method} {path}" + (f" ({command})" if command else "")


def _compare_verb(
    label: str,
    verb: str,
    theirs: Sequence[Exchange],
    reference: Sequence[Exchange],
    protocol: WireProtocol,
    compared: ComparedProtocols,
) -> None:
    statuses = {exchange.status for exchange in reference}
    is_malformed = label.startswith(MALFORMED)
    if not is_malformed and not any(map(_is_success, statuses)) and all(_is_success(e.status) for e in theirs):
        compared.note(label, verb, ["is accepted by the vendor and refused by the simulator: nothing was compared"])
        return
    alike = [exchange for exchange in theirs if exchange.status in statuses]
    known_flaws = set(_flaws(reference, protocol))
    compared.differ(label, verb, _other_statuses(verb, theirs, reference))
    compared.differ(label, verb, (flaw for flaw in _flaws(theirs, protocol) if flaw not in known_flaws))
    if not alike:
        return
    compared.differ(label, verb, _missing_headers(alike, reference))
    compared.differ(label, verb, _other_documents(alike, reference))
    their_shape, our_shape = shape(_documents(alike)), shape(_documents(reference))
    changed, unexpected = changes(their_shape, our_shape)
    compared.differ(label, verb, ((of_field(verb, one.path, one.is_in_some), one.words) for one in changed))
    compared.note(label, verb, (f"new field `{path}`" for path in unexpected))
    compared.differ(label, verb, _other_enum_values(verb, their_shape, our_shape, protocol))
    if verb.endswith(_ENDED):
        compared.differ(label, verb, _other_counts(their_shape, our_shape))


def _is_success(status: int | None) -> bool:
    return status is not None and 200 <= status < 300


def _other_statuses(verb: str, theirs: Sequence[Exchange], reference: Sequence[Exchange]) -> Iterator[Ranked]:
    statuses = {exchange.status for exchange in reference}
    for exchange in theirs:
        if exchange.status not in statuses:
            is_refused_by_all = exchange.label.startswith(MALFORMED)
            yield of_status(verb, exchange.status, is_refused_by_all), _other_status(exchange, statuses)


def _other_status(exchange: Exchange, statuses: Iterable[int | None]) -> str:
    expected = " or ".join(str(status) for status in sorted(status or 0 for status in statuses))
    if exchange.status is None:
        return f"no answer ({exchange.problem}), where the simulator answers {expected}"
    return f"HTTP {exchange.status}, where the simulator answers {expected}: {_quoted(exchange.body)}"


def _other_documents(theirs: Sequence[Exchange], reference: Sequence[Exchange]) -> Iterator[Ranked]:
    """Yield answers that are not JSON objects if all of the simulator's are."""
    if all(isinstance(document, dict) for exchange in reference for document in _documents([exchange]) or [None]):
        for exchange in theirs:
            rank = Rank.COSMETIC if exchange.method == "DELETE" else Rank.STOPS
            if not exchange.body.strip():
                yield rank, "an empty body"
            elif any(not isinstance(document, dict) for document in _documents([exchange])):
                yield rank, f"not a JSON object: {_quoted(exchange.body)}"


def _flaws(exchanges: Sequence[Exchange], protocol: WireProtocol) -> Iterator[Ranked]:
    """Yield what is wrong with answers by themselves."""
    for exchange in exchanges:
        documents = _documents([exchange])
        if exchange.body and is_page(exchange.body):
            yield Rank.STOPS, f"a web page instead of an answer: {_quoted(exchange.body)}"
        elif exchange.body and not documents:
            yield Rank.STOPS, f"not JSON: {_quoted(exchange.body)}"
        yield from ((Rank.COSTS, wrong) for document in documents for wrong in wrong_sums(protocol, document))


def wrong_sums(protocol: WireProtocol, document: Any) -> Iterator[str]:
    """Yield each of the protocol's sums that does not hold somewhere in an answer."""
    if isinstance(document, dict):
        yield from filter(None, (law.problem(document) for law in protocol.sums))
    for member in _members(document):
        yield from wrong_sums(protocol, member)


def _members(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _documents(exchanges: Iterable[Exchange]) -> list[Any]:
    """Return the JSON documents in the answers' bodies, one each or one per line, without too deep ones."""
    found: list[Any] = []
    for exchange in exchanges:
        try:
            found.append(json.loads(exchange.body))
        except (ValueError, RecursionError):
            found += _lines(exchange.body)
    return [document for document in found if _is_shallow(document)]


def _is_shallow(document: Any) -> bool:
    level = [document]
    for _ in range(_MAX_DEPTH):
        if not level:
            return True
        level = [member for value in level for member in _members(value)]
    return False


def _lines(body: str) -> list[Any]:
    try:
        return [json.loads(line) for line in body.split("\n") if line.strip()]
    except (ValueError, RecursionError):
        return []


def _quoted(body: str) -> str:
    return one_line(body, _MAX_QUOTE) or "an empty body"


def _missing_headers(theirs: Sequence[Exchange], reference: Sequence[Exchange]) -> Iterator[Ranked]:
    for name in sorted(_common_headers(reference) - _GENERIC_HEADERS - _common_headers(theirs)):
        yield of_header(name), f"no header `{name}`"


def _common_headers(exchanges: Sequence[Exchange]) -> frozenset[str]:
    names: list[frozenset[str]] = [frozenset(exchange.headers) for exchange in exchanges]
    return names[0].intersection(*names[1:])


def _other_enum_values(verb: str, theirs: Shape, ours: Shape, protocol: WireProtocol) -> Iterator[Ranked]:
    """Yield values of enumerated fields that the simulator does not use."""
    for path in sorted(theirs.fields.keys() & ours.fields.keys()):
        name = leaf(path).removesuffix("[]")
        if name not in _ENUM_FIELDS or not ours.fields[path].texts:
            continue
        known = set(ours.fields[path].texts) | protocol.same_ends
        if name in STATES and not verb.endswith(_ENDED):
            known |= protocol.open_states
        if strange := theirs.fields[path].texts - known:
            rank = of_field(verb, path, is_in_some=False)
            yield rank, f"`{path}` is {shown(strange)}, where the simulator says {shown(ours.fields[path].texts)}"


def _other_counts(theirs: Shape, ours: Shape) -> Iterator[Ranked]:
    """Yield counts of an ended batch that differ from the simulator's for the same two rows."""
    for path in sorted(theirs.fields.keys() & ours.fields.keys()):
        if not _COUNT_PATH.search(path):
            continue
        seen, expected = _counts(theirs, path), _counts(ours, path)
        if seen != expected:
            yield Rank.LOSES, f"`{path}` is {shown(seen)}, where the simulator counts {shown(expected)}"


def _counts(shape: Shape, path: str) -> set[str]:
    """Return the values of a count; protobuf's JSON has 64-bit numbers as text."""
    return {str(number) for number in shape.fields[path].numbers} | shape.fields[path].texts


def _other_outcomes(asked: AskedQuestion, reference: AskedQuestion | None, model: Model) -> Iterator[Ranked]:
    """Yield what is wrong with the outcomes of a question's calls as the engine reads them."""
    replies = [each for each in (reference.outcomes.values() if reference else ()) if isinstance(each, Reply)]
    finishes = {reply.finish for reply in replies}
    for call in asked.calls:
        outcome = asked.outcomes.get(call.key)
        match outcome:
            case None:
                reasons = "; ".join(asked.problems) or "the answer cannot be read, or came under another id"
                yield Rank.STOPS, f"unanswered: {reasons}"
            case Failure():
                yield Rank.STOPS, f"failed permanently: {outcome.kind}: {outcome.message}"
            case Reply():
                if replies and outcome.finish not in {*finishes, Finish.OK}:
                    expected = " or ".join(sorted(finishes))
                    yield Rank.LOSES, f"ended as {outcome.finish}, where the simulator's ends as {expected}"
                if outcome.model_reported and not model.is_itself(outcome.model_reported):
                    yield Rank.STOPS, f"answered by {outcome.model_reported}: the run would exclude it as substituted"
                violation = _schema_violation(call, outcome)
                if violation and not any(_schema_violation(call, reply) for reply in replies):
                    yield Rank.LOSES, violation


def _schema_violation(call: ChatCall | EmbedCall, reply: Reply) -> str | None:
    if not isinstance(call, ChatCall) or call.schema_json is None:
        return None
    required = json.loads(call.schema_json).get("required") or []
    try:
        answer = json.loads(reply.text)
    except (ValueError, RecursionError):
        return f"the answer violates the schema: {_quoted(reply.text)}"
    missing = [name for name in required if not isinstance(answer, dict) or name not in answer]
    return f"the answer violates the schema: no {', '.join(missing)} in {_quoted(reply.text)}" if missing else None
