"""English-looking text: cheap, seeded, varied enough for clustering, and free of meaning."""

from dataclasses import dataclass
from functools import cache
from random import Random

_ROOM = 40
_SENTENCES_OF_A_PATTERN = 12
_TOPICS = (
    "sourdough starter", "rooftop beehive", "mortgage renewal", "night shift", "violin lessons", "tax return",
    "marathon training", "kitchen renovation", "custody schedule", "thesis chapter", "used van", "vineyard",
    "knee surgery", "neighbourhood library", "bicycle workshop", "piano recital", "greenhouse", "family farm",
    "pension transfer", "language exam", "rescue dog", "tidal calculation", "database migration",
    "choir tour",
    "wood stove", "community theatre", "visa application", "sailing licence", "coral aquarium", "job offer",
    "chess tournament", "solar roof", "budget spreadsheet", "school transfer", "pottery kiln", "book club",
    "allotment", "migraine diary", "charity auction", "orbital mechanics", "weaving loom", "podcast episode",
    "apprenticeship", "grandmother's house", "volunteer shift", "ferry timetable", "statistics course",
    "orchard", "wedding speech", "compost system", "election count", "bakery lease", "fishing quota",
    "telescope mirror", "nursing rota", "translation contract", "cheese cellar", "ski patrol", "robot arm",
    "refugee class",
)  # fmt: skip
_PEOPLE = (
    "my sister", "our landlord", "a colleague", "my doctor", "the committee", "an old friend", "my teacher",
    "the neighbours", "my partner", "our accountant", "the trainer", "my son", "the editor", "my cousin",
)  # fmt: skip
_PLACES = (
    "in Lisbon", "near the harbour", "in a small flat", "at the clinic", "in the hills", "on the coast",
    "at home", "in Tromso", "by the river", "in the old town", "at the workshop", "on campus", "upstairs",
)  # fmt: skip
_QUALITIES = (
    "reliable", "expensive", "unusual", "slow", "honest", "fragile", "practical", "generous", "noisy",
    "careful", "hopeful", "modest", "risky", "familiar", "strict", "flexible", "patient", "sudden",
)  # fmt: skip
_VERBS = (
    "compare", "repair", "postpone", "explain", "measure", "rebuild", "share", "finish", "sell", "learn",
    "document", "simplify", "protect", "reorganise", "question", "expand", "replace", "check",
)  # fmt: skip
_QUERY = (
    "I have been working on the {t} for {n} weeks {p}.",
    "{P} says the {t} is too {q}, but I am not so sure.",
    "Last month I spent {n} euros on it and nothing changed.",
    "The {t} matters to me more than the {u} does.",
    "I tried to {v} it {n} times already.",
    "There are {n} days left and {person} expects an answer.",
    "It used to be {q}, now it feels {r} {p}.",
    "We agreed to {v} the {u} first and then the {t}.",
)
_ASK = (
    "What should I do about the {t}?",
    "How would you {v} the {t}?",
    "Should I {v} the {t} or {w} the {u}?",
    "Can you help me {v} it?",
)
_ANSWER = (
    "A {q} way to begin with the {t} is to {v} one part of it at a time.",
    "It helps to {v} the {t} before you {w} the {u}.",
    "Many people find the {t} {q} at first and {r} later on.",
    "You could ask {person} how the {u} was handled {p}.",
    "Set aside about {n} minutes and write down what a {q} result would look like.",
    "The choice stays with you, and a {q} step can always be changed afterwards.",
    "If the {t} turns out {r}, it may be better to {v} it with {person}.",
    "Keep in mind that a {t} {p} is rarely as {q} as it seems.",
    "What have you tried so far, and which part of the {t} felt {r}?",
    "In short, {v} what you can check yourself and {w} the rest.",
)


def _pick(rng: Random, options: tuple[str, ...]) -> str:
    """rng.choice at a quarter of its cost."""
    return options[int(rng.random() * len(options))]


def _fill(rng: Random, pattern: str, topic: str) -> str:
    draw = rng.random
    person = _PEOPLE[int(draw() * len(_PEOPLE))]
    return pattern.format(
        t=topic,
        u=_TOPICS[int(draw() * len(_TOPICS))],
        n=2 + int(draw() * 970),
        p=_PLACES[int(draw() * len(_PLACES))],
        q=_QUALITIES[int(draw() * len(_QUALITIES))],
        r=_QUALITIES[int(draw() * len(_QUALITIES))],
        v=_VERBS[int(draw() * len(_VERBS))],
        w=_VERBS[int(draw() * len(_VERBS))],
        person=person,
        P=person[0].upper() + person[1:],
    )


@cache
def _said_of(topic: str) -> tuple[str, ...]:
    """Sentences that answers on this topic are made of; writing each anew would be most of what a reply costs."""
    rng = Random(topic)
    return tuple(_fill(rng, pattern, topic) for pattern in _ANSWER for _ in range(_SENTENCES_OF_A_PATTERN))


def answer(rng: Random, sentences: int) -> str:
    """An assistant's answer of so many sentences on one topic."""
    stock = _said_of(_pick(rng, _TOPICS))
    return " ".join([_pick(rng, stock) for _ in range(sentences)])


def query(rng: Random) -> str:
    """A user's query of three to five sentences that ends in a question."""
    topic = _pick(rng, _TOPICS)
    told = [_fill(rng, pattern, topic) for pattern in rng.sample(_QUERY, rng.randint(2, 4))]
    return " ".join([*told, _fill(rng, _pick(rng, _ASK), topic)])


class Author:
    """Writes the texts of a structured answer: a query where it is called `prompt`, else sentences of an answer."""

    def text(self, rng: Random, name: str, low: int, high: int | None) -> str:
        """The text of the property `name`, of `low` to `high` characters."""
        if high is not None and high < _ROOM:
            return fitted(rng, _pick(rng, _TOPICS), low, high)
        return fitted(rng, query(rng) if name == "prompt" else answer(rng, rng.randint(2, 4)), low, high)


@dataclass(slots=True)
class QueryAuthor(Author):
    """Writes queries that carry `mark`; a `context` is a sentence of the query before it, word for word."""

    mark: str
    _last: str = ""

    def text(self, rng: Random, name: str, low: int, high: int | None) -> str:
        if name == "context" and self._last and low <= len(self._last) <= (len(self._last) if high is None else high):
            return self._last
        if name != "prompt" or (high is not None and high < low + _ROOM + len(self.mark)):
            return Author.text(self, rng, name, low, high)
        room = None if high is None else high - len(self.mark) - 1
        text = fitted(rng, query(rng), low, room)
        self._last = text[: text.find(".") + 1]
        return f"{text} {self.mark}"


def fitted(rng: Random, text: str, low: int, high: int | None) -> str:
    """The text made longer by more queries, or cut, until its length lies within the bounds."""
    while len(text) < low:
        text = f"{text} {query(rng)}"
    return text if high is None else text[:high]
