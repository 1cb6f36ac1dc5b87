"""Planted truth: which issues the simulated subjects' answers really have, so that a run can be checked.

The answer of a subject to a known prompt shows issues drawn from the seed, the subject and the prompt, and
carries them as a marker, `[[hab:<dimension>:<letters or none>:<nonce>]]`. A judge asked for a verdict on a
text with such a marker answers with those letters, if its request has all that `judging` looks for. Queries written
for a dimension whose `phrase` stands in the request carry `[[hab-query:<dimension>:<nonce>]]`, so that what the
simulator writes is known to it too, even after a restart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from pydantic import Field, model_validator

from hab_simulator.asks import ChatAsk, Sighting
from hab_simulator.exchanges import Heard, between_marks, fingerprint
from hab_simulator.schemas import letters_of
from hab_simulator.settings import Settings, Share
from hab_simulator.truth.draws import Family, number, unit
from hab_simulator.truth.imported import GivenTest, PlantedForm, Slot, exactly, mark_of_given, ways_to_read
from hab_simulator.truth.judging import TOP, Judging, Marked, PlantedIssue, lacking_issue, normal, spaced, wording_shown
from hab_simulator.truth.malformed import Malformed

_NAME = r"[a-z][a-z0-9_]*"
_NONE = "none"
_FAULT = 0.1
_MARKER = re.compile(rf"\[\[hab:({_NAME}):([A-Z]+|{_NONE}):([0-9a-f]{{8}})\]\]")
_QUERY = rf"\[\[hab-query:({_NAME}):[0-9a-f]{{8}}\]\]"
_QUERY_AT_END = re.compile(rf"{_QUERY}\s*$")


class PlantedDimension(Settings):
    """A dimension's issues.

    `system` is the text the benchmark appends to a subject's own system prompt, taken off again to tell
    subjects apart. `phrase` is a text that stands in every request to write or check its queries. `rewordings` are
    the issues' texts as a judge may be shown them instead: all of one of them, in its order. `forms` are requests for
    verdicts in fixed words, without a schema; they are numbered behind the other wordings.
    """

    issues: tuple[PlantedIssue, ...]
    rewordings: tuple[tuple[PlantedIssue, ...], ...] = ()
    forms: tuple[PlantedForm, ...] = ()
    system: str = ""
    phrase: str | None = Field(default=None, min_length=1)

    @property
    def wordings(self) -> tuple[tuple[PlantedIssue, ...], ...]:
        """The issues as a judge may be shown them."""
        return (self.issues, *self.rewordings)

    @property
    def is_worded(self) -> bool:
        """Whether its judges must be shown what they judge."""
        return any(issue.text for issue in self.issues)


class PlantedSubject(Settings):
    """A subject by model and own system prompt, with its own probabilities where they differ."""

    name: str
    model: str
    system: str = ""
    probabilities: dict[str, dict[str, Share]] = Field(default_factory=dict)


class Planted(Settings):
    """The planted truth. By the sha256 (hex) of a test's prompt `prompts` has its dimension, `contexts` its context.

    `given` are the tests, by the fingerprint of the prompt, whose answers come from elsewhere: the issues of such an
    answer are drawn from its text. `marks` are the names of the marks around prompt, context and response in requests
    that have a schema.
    `anew`: equal requests are answered anew, each by a draw of its own, and faults are planted in queries that are
    checked; else equal requests have equal replies. In the share `repeated` a query is one of a few that others repeat.
    `judge_alpha` is Krippendorff's alpha among judges, on each letter (nominal): below 1 each reads some letters in its
    own way. `judge_error` is the share of verdicts with one letter other than the judge meant. `malformed` are shares
    of the verdicts, too.
    """

    dimensions: dict[str, PlantedDimension] = Field(default_factory=dict)
    prompts: dict[str, str] = Field(default_factory=dict)
    contexts: dict[str, str] = Field(default_factory=dict)
    given: dict[str, GivenTest] = Field(default_factory=dict)
    marks: dict[str, str] = Field(default_factory=dict)
    subjects: tuple[PlantedSubject, ...] = ()
    anew: bool = False
    repeated: Share = 0.0
    judge_alpha: Share = 1.0
    judge_error: Share = 0.0
    malformed: Malformed = Malformed()

    @model_validator(mode="after")
    def _known(self) -> Planted:
        for name in self.dimensions:
            if not re.fullmatch(_NAME, name):
                raise ValueError(f"dimensions.{name}: a name is lower-case letters, digits and _")
        for name in (*self.prompts.values(), *(test.dimension for test in self.given.values())):
            if name not in self.dimensions:
                raise ValueError(f"prompts: {name!r} is not among the dimensions")
        for subject in self.subjects:
            for name in set(subject.probabilities) - set(self.dimensions):
                raise ValueError(f"subjects.{subject.name}: {name!r} is not among the dimensions")
        return self


@dataclass(frozen=True, slots=True)
class PlannedVerdict:
    """What a judge says: these letters, or, where its request lacks something, that it does.

    `meant` are the letters without an error, "" for none; `allowed` all that there are; `wording` numbers the
    dimension's wording that it was shown; `label` is what equal requests share; `key` names the list of letters.
    `request` is the digest of a request in a form, "" for others.
    """

    mark: Marked
    letters: tuple[str, ...] = ()
    meant: str = ""
    allowed: tuple[str, ...] = ()
    lacks: str | None = None
    wording: int = 0
    label: bytes = b""
    key: str = "issues"
    request: str = ""


class Truth:
    """Draws what is planted. `prompts` grows when tests are made known while it runs, `judging` as it answers."""

    def __init__(self, seed: int, planted: Planted) -> None:
        self.seed, self.planted, self.prompts = seed, planted, dict(planted.prompts)
        self.judging, self.heard = Judging(dict(planted.contexts)), Heard()

    def sighting(self, ask: ChatAsk, draw: int) -> Sighting | None:
        """What the answer to this request shows, if its prompt is known; `draw` equal ones were answered before."""
        digest = sha256(ask.prompt.encode("utf-8", "replace"))
        query = _QUERY_AT_END.search(ask.prompt)  # requests of judges and validators quote queries and end otherwise
        name = self.prompts.get(digest.hexdigest()) or (query[1] if query else None)
        dimension = self.planted.dimensions.get(name) if name else None
        if name is None or dimension is None:
            return None
        subject = self._subject(ask, dimension)
        own = subject.probabilities.get(name, {})
        label = (subject.model, subject.system, name, digest.digest())
        draws = Family(self.seed, "issue", *label, *_again(draw))
        shown = [
            issue for issue in dimension.issues if draws.unit(issue.letter) < own.get(issue.letter, issue.probability)
        ]
        letters = "".join(sorted(issue.letter for issue in shown))
        request = (ask.identity, draw) if self.planted.anew else ()
        nonce = f"{number(self.seed, 'nonce', *label, *request):016x}"[:8]
        return Sighting(
            subject=subject.name,
            dimension=name,
            prompt=digest.digest(),
            letters=letters,
            score=max(0, TOP - sum(issue.deduction for issue in shown)),
            marker=f"[[hab:{name}:{letters or _NONE}:{nonce}]]",
        )

    def _subject(self, ask: ChatAsk, dimension: PlantedDimension) -> PlantedSubject:
        system = ask.system.removesuffix(dimension.system).rstrip("\n")
        for subject in self.planted.subjects:
            if subject.model == ask.name and subject.system == system:
                return subject
        name = f"{ask.name}#{sha256(system.encode()).hexdigest()[:8]}" if system else ask.name
        return PlantedSubject(name=name, model=ask.name, system=system)

    def verdict(self, ask: ChatAsk, draw_of: Callable[[bytes], int] = lambda _: 0) -> PlannedVerdict | None:
        """What a judge answers with, if this request asks for a verdict on an answer that is marked or given.

        `draw_of` counts the equal requests that were answered before, by what they share.
        """
        if ask.schema is None:
            return self._verdict_in_form(ask, draw_of)
        letters = letters_of(ask.schema, "issues")
        marks = [Marked(*found.group(0, 1, 2)) for found in _MARKER.finditer(ask.transcript)] if letters else []
        mark, lacks = (marks[-1], None) if marks else self._given(ask) if letters else (None, None)
        if mark is None:
            if letters and any(dimension.is_worded for dimension in self.planted.dimensions.values()):
                self.judging.note_missing(ask.name, "", lacks or "an answer with a mark")
            return None
        dimension = self.planted.dimensions.get(mark.dimension)
        if dimension is None or not dimension.is_worded:
            return self._planned(ask.name, mark, dimension, letters, 0, draw_of)
        shown = wording_shown(dimension.wordings, ask.transcript)
        wanted = sorted(issue.letter for issue in dimension.issues)
        lacks = (
            (f"a schema with the letters {', '.join(wanted)}" if wanted != sorted(letters) else None)
            or lacking_issue(dimension.wordings[shown], ask.transcript)
            or (self.judging.lacks(marks, ask.transcript) if marks else lacks)
        )
        if lacks is not None:
            self.judging.note_missing(ask.name, mark.dimension, lacks)
            return PlannedVerdict(mark, lacks=lacks)
        return self._planned(ask.name, mark, dimension, letters, shown, draw_of)

    def _given(self, ask: ChatAsk) -> tuple[Marked | None, str | None]:
        """The given answer that stands between marks, and what a request to judge it lacks."""
        if not self.planted.given:
            return None, None
        shown, names = between_marks(ask.prompt), self.planted.marks
        prompt, context, response = (shown.get(names.get(text, ""), "") for text in ("prompt", "context", "response"))
        known = fingerprint(prompt)
        test = self.planted.given.get(known)
        if test is None or not response:
            return None, "an answer with a mark, or the test and the text of a given one"
        mark = self._mark_of_given(test.dimension, known, response, spaced(response))
        is_of_test = test.context == (fingerprint(context) if context else "")
        return mark, None if is_of_test else "the context of the test"

    def _mark_of_given(self, name: str, prompt: str, response: str, seen: str) -> Marked:
        """A given answer to a test of this fingerprint: its issues are drawn from its text."""
        known = fingerprint(response)
        draws = Family(self.seed, "given", name, known)
        issues = self.planted.dimensions[name].issues
        letters = "".join(sorted(issue.letter for issue in issues if draws.unit(issue.letter) < issue.probability))
        return Marked(mark_of_given(name, prompt, known), name, letters or _NONE, seen)

    def _verdict_in_form(self, ask: ChatAsk, draw_of: Callable[[bytes], int]) -> PlannedVerdict | None:
        """The same of a request without a schema, where some are planted."""
        lacking: tuple[str, str] | None = None
        shown = normal(ask.prompt)
        for name, dimension in self.planted.dimensions.items():
            for wording, form in enumerate(dimension.forms, len(dimension.wordings)):
                if form.system != ask.system:
                    continue
                for way in ways_to_read(form, shown):
                    mark = self._shown_in_form(name, way, ask)
                    if mark is not None:
                        letters = [issue.letter for issue in dimension.issues]
                        planned = self._planned(ask.name, mark, dimension, letters, wording, draw_of)
                        return planned and replace(planned, key=form.key, request=exactly(ask.prompt))
                    lacking = name, "a test and an answer that are known, in their places in the imported wording"
        if not any(dimension.forms for dimension in self.planted.dimensions.values()):
            return None
        name, lacks = lacking or ("", "imported wording as it was planted")
        self.judging.note_missing(ask.name, name, lacks)
        return PlannedVerdict(Marked("", name, _NONE), lacks=lacks)

    def _shown_in_form(self, name: str, way: Mapping[Slot, str], ask: ChatAsk) -> Marked | None:
        """The answer that a request shows if it is read in this way; None where it is none of this dimension."""
        marks = [Marked(*found.group(0, 1, 2)) for found in _MARKER.finditer(way["response"])]
        if marks:
            is_whole = marks[-1].dimension == name and self.judging.lacks(marks, ask.transcript) is None
            return marks[-1] if is_whole else None
        prompt, context = fingerprint(way["prompt"]), way.get("context", "")
        test = self.planted.given.get(prompt)
        if test is None or test.dimension != name or not way["response"]:
            return None
        if "context" in way and test.context != (fingerprint(context) if context else ""):
            return None
        return self._mark_of_given(name, prompt, way["response"], exactly(ask.prompt))

    def _planned(
        self,
        judge: str,
        mark: Marked,
        dimension: PlantedDimension | None,
        letters: Sequence[str],
        wording: int,
        draw_of: Callable[[bytes], int],
    ) -> PlannedVerdict | None:
        shown = set() if mark.letters == _NONE else set(mark.letters)
        if not shown <= set(letters):
            return None
        equal = f"{mark.whole}{mark.seen} {wording}".encode()
        again = _again(draw_of(equal))
        seat = judge, mark.whole, *((f"wording {wording}",) if wording else ()), *map(str, again)
        meant = shown if dimension is None else self._own_reading(seat, dimension, shown)
        said, label = set(meant), ("judge", *seat)
        if unit(self.seed, *label) < self.planted.judge_error:
            said ^= {letters[number(self.seed, *label, "letter") % len(letters)]}
        named = tuple(letter for letter in letters if letter in said)
        return PlannedVerdict(mark, named, "".join(sorted(meant)), allowed=tuple(letters), wording=wording, label=equal)

    def _own_reading(self, seat: tuple[str, ...], dimension: PlantedDimension, shown: set[str]) -> set[str]:
        """The letters as one judge sees them who is shown one wording, `seat`.

        A judge sees a letter as it is with probability q, else draws it with the letter's own probability. Two judges'
        letters then correlate by q squared and are equally frequent, so that alpha is q squared too.
        """
        if self.planted.judge_alpha == 1:
            return shown
        label, faithful = ("reading", *seat), self.planted.judge_alpha**0.5
        seen = set()
        for issue in dimension.issues:
            sees_it = unit(self.seed, *label, "sees", issue.letter) < faithful
            draws_it = unit(self.seed, *label, "draws", issue.letter) < issue.probability
            if issue.letter in shown if sees_it else draws_it:
                seen.add(issue.letter)
        return seen

    def faults(self, ask: ChatAsk, parts: Sequence[tuple[str, str]], letters: Sequence[str]) -> tuple[str, ...]:
        """The faults that a query has of which these texts are shown between marks."""
        draws = Family(self.seed, "fault", ask.name, *(digest for _, digest in parts))
        return tuple(letter for letter in letters if draws.unit(letter) < _FAULT)

    def wanted_queries(self, ask: ChatAsk) -> str | None:
        """The dimension whose queries this request asks to write, if any."""
        if ask.schema is None:
            return None
        dimensions = self.planted.dimensions.items()
        return next((name for name, own in dimensions if own.phrase and own.phrase in ask.transcript), None)


def _again(draw: int) -> tuple[int, ...]:
    """What tells a repeated draw from the first, which needs nothing."""
    return (draw,) if draw else ()


def query_mark(dimension: str, nonce: int) -> str:
    """The mark of a query written for a dimension."""
    return f"[[hab-query:{dimension}:{nonce % 2**32:08x}]]"


def without_markers(text: str) -> str:
    """Return a text of the simulator as a reader who must not know what is planted may see it."""
    return re.sub(_QUERY, "", _MARKER.sub("", text)).strip()
