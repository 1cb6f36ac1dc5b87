"""Tests in other words than their own, as variants of subjects are asked them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from hab_ray.rows import ChosenTest, Paraphrase

Paraphrases = Mapping[str, Paraphrase]


def as_asked(tests: Iterable[ChosenTest], words: Paraphrases | None) -> list[ChosenTest]:
    """Tests in the words in which a subject is asked them, under the ids that they have.

    `words` are by the id of a test or by its prompt; None: in the tests' own. A test that has none is not asked.
    """
    if words is None:
        return list(tests)
    pairs = ((test, words.get(test.id) or words.get(test.prompt)) for test in tests)
    return [replace(test, prompt=own.prompt, context=own.context) for test, own in pairs if own is not None]
