"""Names what a vendor did otherwise than the simulator did at the same questions."""

from __future__ import annotations

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
from hab_ray.doctor.recording import Exchange
from hab_ray.doctor.shapes import Shape, changes, leaf, shape, shown
from hab_ray.providers.http import is_page
from hab_ray.providers.vendor import WireProtocol
from hab_ray.visible import one_line

_AFTER = re.compile(r"\b(files|batches)/[^/?:]+")
# Headers of one connection, and those that every server sends as it likes.
_OF_ANY_SERVER = {
    *("date", "server", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection"),
    *("keep-alive", "vary", "via", "etag", "last-modified", "accept-ranges", "cache-control"),
}
# Fields whose texts come from a short list that code decides by; any other text is free.
_WORDS = STATES | {
    *("object", "role", "type", "endpoint", "finish_reason", "stop_reason", "finishReason", "modality"),
    *("completion_window", "purpose", "encoding_format"),
}
_OF_COUNTS = re.compile(r"(^|\.)(\w*counts?|\w*Stats|state)\.\w+$")
_MAX_QUOTE, _DEEPEST = 240, 64
_ENDED = "at its end"
_OK = 200
# How `hab simulate --replay` marks its answer to a request that its file does not have.
_UNRECORDED = "x-hab-unrecorded"
_LOOK = re.compile(r"^GET .*batches/\{id\}$")


Ranked = tuple[Rank, str]


@dataclass(frozen=True)
class Recording:
    """What was asked of a vendor or of the simulator: every exchange, and what came of each question."""

    exchanges: Sequence[Exchange]
    examined: Examined


@dataclass(frozen=True)
class ProtocolDifference:
    """Something that a vendor does otherwise; `verb` is the request that showed it, as method and path."""

    label: str
    verb: str
    what: str
    rank: Rank = Rank.COSMETIC

    def __str__(self) -> str:
        return one_line(f"{self.label}: {self.verb}: {self.what}" if self.verb else f"{self.label}: {self.what}")


@dataclass
class ComparedProtocols:
    """All that differs. `notes` are new fields, from which no trouble follows by itself, and what was not reached."""

    differences: list[ProtocolDifference] = field(default_factory=list)
    notes: list[ProtocolDifference] = field(default_factory=list)

    def differ(self, label: str, verb: str, words: Iterable[Ranked]) -> None:
        """Add differences, each once."""
        fresh = (ProtocolDifference(label, verb, what, rank) for rank, what in words)
        self.differences += [one for one in dict.fromkeys(fresh) if one not in self.differences]

    @property
    def serious(self) -> Sequence[ProtocolDifference]:
        """The differences that stop a sweep, make it dearer or may lose rows."""
        return [one for one in self.differences if one.rank is not Rank.COSMETIC]

    def note(self, label: str, verb: str, words: Iterable[str]) -> None:
        self.notes += [ProtocolDifference(label, verb, what) for what in words]


def compare(
    theirs: Recording, ours: Recording, protocols: Mapping[str, WireProtocol], models: Mapping[str, Model]
) -> ComparedProtocols:
    """Name every difference between a recording at vendors and the one at the simulator.

    `protocols` are the providers' own, `models` the sweep's by name.
    """
    compared = ComparedProtocols()
    labels = {exchange.label for exchange in ours.exchanges}
    served = [each for each in theirs.exchanges if each.label in labels and _UNRECORDED not in each.headers]
    at_vendors, at_simulator = _by_verb(served, protocols), _by_verb(ours.exchanges, protocols)
    for (label, verb), some in at_vendors.items():
        protocol = protocols[some[0].provider]
        reference = at_simulator.get((label, verb))
        if reference is not None:
            _compare_verb(label, verb, some, reference, protocol, compared)
            continue
        compared.differ(label, verb, _of_single(some, protocol))
        if _LOOK.search(verb):
            ended = at_simulator.get((label, f"{verb} {_ENDED}"), ())
            compared.differ(label, verb, _other_statuses(verb, some, ended))
        else:
            compared.note(label, verb, ["is asked of the vendor and not of the simulator"])
    for label, verb in sorted(at_simulator.keys() - at_vendors.keys()):
        if not _LOOK.search(verb):
            compared.note(label, verb, ["was not reached"])
    answers = {asked.label: asked for asked in ours.examined.asked}
    for asked in theirs.examined.asked:
        compared.differ(asked.label, "", _of_outcomes(asked, answers.get(asked.label), models[asked.question.model]))
    for bill in theirs.examined.bills:
        compared.differ("price", "", [(Rank.COSTS, bill)])
    return compared


def _by_verb(
    exchanges: Iterable[Exchange], protocols: Mapping[str, WireProtocol]
) -> dict[tuple[str, str], list[Exchange]]:
    """The exchanges of each question by what they ask; looks at a batch that has ended apart from those before."""
    found: defaultdict[tuple[str, str], list[Exchange]] = defaultdict(list)
    for exchange in exchanges:
        verb = _verb(exchange)
        if _LOOK.search(verb) and exchange.status == _OK:
            has_ended = any(not _is_open(protocols[exchange.provider], batch) for batch in _documents([exchange]))
            verb = f"{verb} {_ENDED}" if has_ended else verb
        found[exchange.label, verb].append(exchange)
    return found


def _is_open(protocol: WireProtocol, batch: Any) -> bool:
    """Whether a batch, as its vendor shows it, has not ended."""
    if not isinstance(batch, dict):
        return True
    if protocol.is_open is not None:
        return protocol.is_open(batch)
    return bool({str(batch.get(name)) for name in STATES} & protocol.open_states)


def _verb(exchange: Exchange) -> str:
    path = _AFTER.sub(r"\1/{id}", exchange.path.partition("?")[0]).replace("v1beta/", "v1/")
    command = exchange.request_headers.get("x-goog-upload-command")
    return f"{exchange.method} {path}" + (f" ({command})" if command else "")


def _compare_verb(
    label: str,
    verb: str,
    some: Sequence[Exchange],
    reference: Sequence[Exchange],
    protocol: WireProtocol,
    compared: ComparedProtocols,
) -> None:
    statuses = {exchange.status for exchange in reference}
    if not label.startswith(MALFORMED) and not any(map(_is_taken, statuses)) and all(_is_taken(e.status) for e in some):
        compared.note(label, verb, ["is taken by the vendor and refused by the simulator, so nothing was compared"])
        return
    like = [exchange for exchange in some if exchange.status in statuses]
    own = set(_of_single(reference, protocol))
    compared.differ(label, verb, _other_statuses(verb, some, reference))
    compared.differ(label, verb, (one for one in _of_single(some, protocol) if one not in own))
    compared.differ(label, verb, _missing_headers(like, reference))
    if not like:
        return
    compared.differ(label, verb, _other_documents(like, reference))
    theirs, ours = shape(_documents(like)), shape(_documents(reference))
    changed = changes(theirs, ours)
    ranked = ((of_field(verb, one.path, one.is_in_some), one.words) for one in changed.differences)
    compared.differ(label, verb, ranked)
    compared.note(label, verb, (f"new field `{path}`" for path in changed.unexpected))
    compared.differ(label, verb, _other_words(verb, theirs, ours, protocol))
    if verb.endswith(_ENDED):
        compared.differ(label, verb, _other_counts(theirs, ours))


def _is_taken(status: int | None) -> bool:
    return status is not None and 200 <= status < 300


def _other_statuses(verb: str, some: Sequence[Exchange], reference: Sequence[Exchange]) -> Iterator[Ranked]:
    statuses = {exchange.status for exchange in reference}
    for exchange in some:
        if exchange.status not in statuses:
            is_refused_by_all = exchange.label.startswith(MALFORMED)
            yield of_status(verb, exchange.status, is_refused_by_all), _other_status(exchange, statuses)


def _other_status(exchange: Exchange, statuses: Iterable[int | None]) -> str:
    expected = " or ".join(str(status) for status in sorted(status or 0 for status in statuses))
    if exchange.status is None:
        return f"no answer ({exchange.problem}), where the simulator answers {expected}"
    return f"HTTP {exchange.status}, where the simulator answers {expected}: {_quoted(exchange.body)}"


def _other_documents(some: Sequence[Exchange], reference: Sequence[Exchange]) -> Iterator[Ranked]:
    """What is wrong with answers that are no JSON objects, where the simulator's are."""
    if all(isinstance(document, dict) for exchange in reference for document in _documents([exchange]) or [None]):
        for exchange in some:
            rank = Rank.COSMETIC if exchange.method == "DELETE" else Rank.STOPS
            if not exchange.body.strip():
                yield rank, "an empty body"
            elif any(not isinstance(document, dict) for document in _documents([exchange])):
                yield rank, f"no JSON object: {_quoted(exchange.body)}"


def _of_single(some: Sequence[Exchange], protocol: WireProtocol) -> Iterator[Ranked]:
    """What is wrong with an answer by itself."""
    for exchange in some:
        if exchange.body and is_page(exchange.body):
            yield Rank.STOPS, f"a web page instead of an answer: {_quoted(exchange.body)}"
        elif exchange.body and not _documents([exchange]):
            yield Rank.STOPS, f"no JSON: {_quoted(exchange.body)}"
        for document in _documents([exchange]):
            yield from ((Rank.COSTS, what) for what in wrong_sums(protocol, document))


def wrong_sums(protocol: WireProtocol, document: Any) -> Iterator[str]:
    """Each sum that does not hold anywhere in an answer."""
    if isinstance(document, dict):
        yield from filter(None, (law.problem(document) for law in protocol.sums))
    members = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    for member in members:
        yield from wrong_sums(protocol, member)


def _documents(some: Iterable[Exchange]) -> list[Any]:
    """The JSON documents in the bodies of some answers: one, or one a line."""
    found: list[Any] = []
    for exchange in some:
        try:
            found.append(json.loads(exchange.body))
        except (ValueError, RecursionError):
            found += _lines(exchange.body)
    return [document for document in found if _is_shallow(document)]


def _is_shallow(document: Any) -> bool:
    """Whether a document is no deeper than any vendor's."""
    level = [document]
    for _ in range(_DEEPEST):
        if not level:
            return True
        level = [
            member
            for value in level
            if isinstance(value, dict | list)
            for member in (value.values() if isinstance(value, dict) else value)
        ]
    return False


def _lines(body: str) -> list[Any]:
    try:
        return [json.loads(line) for line in body.split("\n") if line.strip()]
    except (ValueError, RecursionError):
        return []


def _quoted(body: str) -> str:
    return one_line(body, _MAX_QUOTE) or "an empty body"


def _missing_headers(some: Sequence[Exchange], reference: Sequence[Exchange]) -> Iterator[Ranked]:
    if not some:
        return
    for name in sorted(_in_all(reference) - _OF_ANY_SERVER - _in_all(some)):
        yield of_header(name), f"no header `{name}`"


def _in_all(some: Sequence[Exchange]) -> frozenset[str]:
    """The headers that each of these answers has."""
    names: list[frozenset[str]] = [frozenset(exchange.headers) for exchange in some]
    return names[0].intersection(*names[1:])


def _other_words(verb: str, theirs: Shape, ours: Shape, protocol: WireProtocol) -> Iterator[Ranked]:
    """Words that the simulator does not use in a field whose texts code decides by."""
    for path in sorted(theirs.fields.keys() & ours.fields.keys()):
        name = leaf(path).removesuffix("[]")
        if name not in _WORDS or not ours.fields[path].texts:
            continue
        known = set(ours.fields[path].texts) | protocol.same_ends
        if name in STATES and not verb.endswith(_ENDED):
            known |= protocol.open_states
        strange = theirs.fields[path].texts - known
        if strange:
            rank = of_field(verb, path, is_in_some=False)
            yield rank, f"`{path}` is {shown(strange)}, where the simulator says {shown(ours.fields[path].texts)}"


def _other_counts(theirs: Shape, ours: Shape) -> Iterator[Ranked]:
    """Counts of an ended batch that are not those of its two rows."""
    for path in sorted(theirs.fields.keys() & ours.fields.keys()):
        if not _OF_COUNTS.search(path):
            continue
        seen, expected = _numbers(theirs, path), _numbers(ours, path)
        if seen != expected:
            yield Rank.LOSES, f"`{path}` is {shown(seen)}, where the simulator counts {shown(expected)}"


def _numbers(shape: Shape, path: str) -> set[str]:
    """The values of a count; a 64-bit one is a text in protobuf's JSON."""
    return {str(number) for number in shape.fields[path].numbers} | shape.fields[path].texts


def _of_outcomes(asked: AskedQuestion, reference: AskedQuestion | None, model: Model) -> Iterator[Ranked]:
    """What came of a question's calls, read as the engine reads them."""
    replies = [each for each in (reference.outcomes.values() if reference else ()) if isinstance(each, Reply)]
    ends = {reply.finish for reply in replies} | {Finish.OK}
    for call in asked.calls:
        outcome = asked.outcomes.get(call.key)
        match outcome:
            case None:
                reasons = "; ".join(asked.problems) or "the answer cannot be read, or came under another id"
                yield Rank.STOPS, f"unanswered: {reasons}"
            case Failure():
                yield Rank.STOPS, f"failed for good: {outcome.kind}: {outcome.message}"
            case Reply():
                if replies and outcome.finish not in ends:
                    said = " or ".join(sorted({reply.finish for reply in replies}))
                    yield Rank.LOSES, f"ended as {outcome.finish}, where the simulator's ends as {said}"
                if outcome.model_reported and not model.is_itself(outcome.model_reported):
                    what = f"answered by {outcome.model_reported}: the run would exclude it as substituted"
                    yield Rank.STOPS, what
                if not any(_problem_of_text(call, reply) for reply in replies):
                    yield from ((Rank.LOSES, what) for what in [_problem_of_text(call, outcome)] if what)


def _problem_of_text(call: ChatCall | EmbedCall, reply: Reply) -> str | None:
    """How an answer breaks the schema that it was asked to keep to; None where it does not."""
    if not isinstance(call, ChatCall) or call.schema_json is None:
        return None
    wanted = json.loads(call.schema_json).get("required") or []
    try:
        said = json.loads(reply.text)
    except (ValueError, RecursionError):
        return f"the answer does not keep to the schema: {_quoted(reply.text)}"
    gone = [name for name in wanted if not isinstance(said, dict) or name not in said]
    if not gone:
        return None
    return f"the answer does not keep to the schema: no {', '.join(gone)} in {_quoted(reply.text)}"
