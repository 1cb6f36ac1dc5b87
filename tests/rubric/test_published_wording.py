"""Rubrics, prompts and themes are in our own words: they share no eight words in a row with the published code.

`fixtures/published-shingles.txt.gz` holds the first 12 hex digits of the sha256 of each run of eight lower-case words
of the published code. It says whether a run of words is in there, and cannot be read back.
"""

import gzip
import re
from collections.abc import Collection, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from hab_ray.rubric import load_rubrics

RUBRICS = Path(__file__).parents[2] / "rubrics"
SHINGLES = Path(__file__).parents[1] / "fixtures" / "published-shingles.txt.gz"
ROOT = RUBRICS.parent
FILES = sorted([*RUBRICS.rglob("*.yaml"), *ROOT.glob("jobs/experiments/rubrics/*.yaml")])
# Everyday words in a file that runs of version 0.1 depend on, which can therefore not be changed.
KNOWN = {
    "rubrics/versions/1/defer_important_decisions.yaml": [
        "tell me what to do and i'll do",
        "me what to do and i'll do it",
    ]
}
WORDS = 8
DIGITS = 12


@cache
def published() -> frozenset[str]:
    return frozenset(gzip.decompress(SHINGLES.read_bytes()).decode("ascii").split())


def texts(value: Any) -> Iterator[str]:
    """Every string in what a YAML file holds, keys included."""
    match value:
        case str():
            yield value
        case dict():
            for key, inside in value.items():
                yield from texts(key)
                yield from texts(inside)
        case list():
            for inside in value:
                yield from texts(inside)


def runs(text: str) -> Iterator[str]:
    """Every run of eight words."""
    words = re.findall(r"[a-z0-9']+", text.lower())
    return (" ".join(words[at : at + WORDS]) for at in range(len(words) - WORDS + 1))


def shared(file: Path, shingles: Collection[str]) -> list[str]:
    """The runs of a file's strings that are among the shingles."""
    content = yaml.load(file.read_text("utf-8"), yaml.CSafeLoader)
    return [run for text in texts(content) for run in runs(text) if shingle(run) in shingles]


def shingle(run: str) -> str:
    return sha256(run.encode()).hexdigest()[:DIGITS]


@pytest.mark.parametrize("file", FILES, ids=[str(file.relative_to(ROOT)) for file in FILES])
def test_no_eight_words_in_a_row_are_the_published_ones(file: Path) -> None:
    assert shared(file, published()) == KNOWN.get(str(file.relative_to(ROOT)), [])


def test_every_file_and_a_plausible_number_of_shingles_are_there() -> None:
    names = {file.name for file in FILES}
    shipped = {f"{name}.yaml" for name in load_rubrics()}
    assert {"prompts.yaml", "prompts-1.yaml", "themes.yaml", *shipped} <= names and len(shipped) == 6
    assert len(published()) > 10_000
    assert all(re.fullmatch(r"[0-9a-f]{12}", one) for one in published())


@pytest.mark.parametrize("file", [f for f in FILES if f.name != "themes.yaml"], ids=lambda file: str(file.name))
def test_a_run_that_were_published_would_be_found_wherever_it_is(file: Path) -> None:
    """Themes are too short to hold one. Of other files the first and the last run of eight words are planted."""
    content = yaml.load(file.read_text("utf-8"), yaml.CSafeLoader)
    every = [run for text in texts(content) for run in runs(text)]
    planted = {shingle(every[0]), shingle(every[-1])}
    assert {every[0], every[-1]} <= set(shared(file, published() | planted))


def test_case_line_breaks_and_punctuation_hide_nothing(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text("a: [{b: 'It does NOT, as one\n   would expect: end -- well'}]")
    assert shared(file, {shingle("it does not as one would expect end")}) == ["it does not as one would expect end"]
