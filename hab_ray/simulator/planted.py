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
from dataclasses import dataclass, field
from hashlib import sha256

from pydantic import Field, model_validator

from hab_ray.simulator.asks import ChatAsk, Sighting
from hab_ray.simulator.draws import Family, number, unit
from hab_ray.simulator.exchanges import Heard
from hab_ray.simulator.judging import TOP, Judging, Marked, PlantedIssue, wording_shown
from hab_ray.simulator.malformed import Malformed
from hab_ray.simulator.schemas import letters_of
from hab_ray.simulator.settings import Settings, Share

_NAME = r"[a-z][a-z0-9_]*"
_NONE = "none"
_FAULT = 0.1
_MARKER = re.compile(rf"\[\[hab:({_NAME}):([A-Z]+|{_NONE}):([0-9a-f]{{8}})\]\]")
_QUERY_AT_END = re.compile(rf"\[\[hab-query:({_NAME}):[0-9a-f]{{8}}\]\]\s*$")


class PlantedDimension(Settings):
    """A dimension's issues.

    `system` is the text the benchmark appends to a subject's own system prompt, taken off again to tell
    subjects apart. `phrase` is a text that stands in every request to write or check its queries. `rewordings` are
    the issues' texts as a judge may be shown them instead: all of one of them, in its order.
    """

    issues: tuple[PlantedIssue, ...]
    rewordings: tuple[tuple[PlantedIssue, ...], ...] = ()
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

    `anew`: equal requests are answered anew, each by a draw of its own, and faults are planted in queries that are
    checked; else equal requests have equal replies. In the share `repeated` a query is one of a few that others repeat.
    `judge_alpha` is Krippendorff's alpha among judges, on each letter (nominal): below 1 each reads some letters in its
    own way. `judge_error` is the share of verdicts with one letter other than the judge meant. `malformed` are shares
    of the verdicts, too.
    """

    dimensions: dict[str, PlantedDimension] = Field(default_factory=dict)
    prompts: dict[str, str] = Field(default_factory=dict)
    contexts: dict[str, str] = Field(default_factory=dict)
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
        for name in self.prompts.values():
            if name not in self.dimensions:
                raise ValueError(f"prompts: {name!r} is not among the dimensions")
        for subject in self.subjects:
            for name in set(subject.probabilities) - set(self.dimensions):
                raise ValueError(f"subjects.{subject.name}: {name!r} is not among the dimensions")
        return self


@dataclass(frozen=True, slots=True)
class PlannedVerdict:
    """What a judge says: these letters, or, where its request lacks something, that it does.

    `meant` are the letters without an error, "" for none; `wording` numbers the dimension's wording that it was shown;
    `label` is what equal requests share.
    """

    mark: Marked
    letters: tuple[str, ...] = ()
    meant: str = ""
    lacks: str | None = None
    wording: int = 0
    label: bytes = b""


@dataclass(frozen=True)
class Truth:
    """Draws what is planted. `prompts` grows when tests are made known while it runs, `judging` as it answers."""

    seed: int
    planted: Planted
    prompts: dict[str, str]
    judging: Judging
    heard: Heard = field(default_factory=Heard)

    @classmethod
    def of(cls, seed: int, planted: Planted) -> Truth:
        """The truth a profile plants."""
        return cls(seed, planted, dict(planted.prompts), Judging(dict(planted.contexts)))

    def sighting(self, ask: ChatAsk, draw: int) -> Sighting | None:
        """What the answer to this request shows, if its prompt is known; `draw` equal ones were answered before."""
        digest = sha256(ask.prompt.encode("utf-8", "replace"))
        name = self.prompts.get(digest.hexdigest()) or _marked_query(ask.prompt)
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
        """What a judge answers with, if this request asks for a verdict on a marked text.

        `draw_of` counts the equal requests that were answered before, by what they share.
        """
        letters = letters_of(ask.schema, "issues") if ask.schema is not None else ()
        marks = [Marked(*found.group(0, 1, 2)) for found in _MARKER.finditer(ask.transcript)] if letters else []
        if not marks:
            if letters and any(dimension.is_worded for dimension in self.planted.dimensions.values()):
                self.judging.note_missing(ask.name, "", "an answer with a mark")
            return None
        mark = marks[-1]
        dimension = self.planted.dimensions.get(mark.dimension)
        if dimension is not None and dimension.is_worded:
            shown = wording_shown(dimension.wordings, ask.transcript)
            lacks = _lacking_letters(dimension, letters) or self.judging.lacks(
                dimension.wordings[shown], marks, ask.transcript
            )
            if lacks is not None:
                self.judging.note_missing(ask.name, mark.dimension, lacks)
                return PlannedVerdict(mark, lacks=lacks)
            return self._planned(ask.name, mark, dimension, letters, shown, draw_of)
        return self._planned(ask.name, mark, dimension, letters, 0, draw_of)

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
        equal = f"{mark.whole} {wording}".encode()
        again = _again(draw_of(equal))
        meant = shown if dimension is None else self._own_reading(judge, mark, dimension, shown, again)
        said, label = set(meant), ("judge", judge, mark.whole, *map(str, again))
        if unit(self.seed, *label) < self.planted.judge_error:
            said ^= {letters[number(self.seed, *label, "letter") % len(letters)]}
        named = tuple(letter for letter in letters if letter in said)
        return PlannedVerdict(mark, named, "".join(sorted(meant)), wording=wording, label=equal)

    def _own_reading(
        self, judge: str, mark: Marked, dimension: PlantedDimension, shown: set[str], again: tuple[int, ...]
    ) -> set[str]:
        """The letters as one judge sees them.

        A judge sees a letter as it is with probability q, else draws it with the letter's own probability. Two judges'
        letters then correlate by q squared and are equally frequent, so that alpha is q squared too.
        """
        if self.planted.judge_alpha == 1:
            return shown
        label, faithful = ("reading", judge, mark.whole, *map(str, again)), self.planted.judge_alpha**0.5
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
        for name, dimension in self.planted.dimensions.items():
            if dimension.phrase is not None and dimension.phrase in ask.transcript:
                return name
        return None


def _again(draw: int) -> tuple[int, ...]:
    """What tells a repeated draw from the first, which needs nothing."""
    return (draw,) if draw else ()


def _lacking_letters(dimension: PlantedDimension, letters: Sequence[str]) -> str | None:
    wanted = sorted(issue.letter for issue in dimension.issues)
    return None if wanted == sorted(letters) else f"a schema with the letters {', '.join(wanted)}"


def query_mark(dimension: str, nonce: int) -> str:
    """The mark of a query written for a dimension."""
    return f"[[hab-query:{dimension}:{nonce % 2**32:08x}]]"


def _marked_query(prompt: str) -> str | None:
    """A judge's or validator's request quotes the query; only the query itself ends with its mark."""
    found = _QUERY_AT_END.search(prompt)
    return found[1] if found else None


class AnsweredPrompts:
    """Every known prompt a subject was seen to answer, each counted once."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], dict[bytes, Sighting]] = {}

    def add(self, sighting: Sighting) -> None:
        """Count an answer that was sent."""
        self._seen.setdefault((sighting.subject, sighting.dimension), {})[sighting.prompt] = sighting

    def reading(self) -> list[Mapping[str, object]]:
        """Wire JSON of `GET /_truth`: the mean score in 0..1 is numerator / denominator, exactly."""
        return [
            {
                "subject": subject,
                "dimension": dimension,
                "n": len(seen),
                "numerator": sum(one.score for one in seen.values()),
                "denominator": TOP * len(seen),
                "issues": _tally(seen),
            }
            for (subject, dimension), seen in sorted(self._seen.items())
        ]


def _tally(seen: Mapping[bytes, Sighting]) -> dict[str, int]:
    tally: dict[str, int] = {}
    for letter in sorted("".join(one.letters for one in seen.values())):
        tally[letter] = tally.get(letter, 0) + 1
    return tally
