"""A run's copies of the user's own texts, whose files may change or go."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from hab_ray.given.rows import given_file
from hab_ray.storage.run import TEXTS
from hab_ray.work import Work


def keep_own_texts(work: Work) -> None:
    """Write the texts that a run's folder does not hold yet, each under its digest in the record."""
    for text in _own_texts(work):
        if not work.run.has(file := f"{TEXTS}/{sha256(text).hexdigest()}"):
            work.run.folder.put(file, text)


def _own_texts(work: Work) -> Iterator[bytes]:
    if work.sweep.rubrics:
        yield work.prompts.text
        yield "\n".join(work.themes).encode()
        yield from (rubric.canonical for rubric in work.rubrics.values())
    yield from (rubric.canonical for rubrics in work.wordings.values() for rubric in rubrics.values())
    yield from (given_file(variant.tests) for variant in work.sweep.variants.subjects if variant.tests is not None)
