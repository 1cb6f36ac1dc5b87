"""The index of keys: what was added is found at its newest place, whatever the order and number of files."""

from collections.abc import Callable
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hab_ray.storage.replies.keyindex import AnsweredKeys, KeyIndex, Keys, KeySet, RowPlace


def key(number: int) -> str:
    """A key; number 0 ends in zero bytes, which fixed-width texts lose."""
    return "11" + "00" * 31 if number == 0 else sha256(str(number).encode()).hexdigest()


def alike(number: int) -> str:
    """A key that begins as others do: the first 8 bytes, by which keys are sorted, decide nothing alone."""
    return f"{number // 20:016x}{number:048x}"


@pytest.mark.parametrize("name", [key, alike])
@given(files=st.lists(st.lists(st.integers(0, 60), max_size=30, unique=True), max_size=12))
def test_the_newest_place_of_every_key_is_found(name: Callable[[int], str], files: list[list[int]]) -> None:
    index, known = KeyIndex(), AnsweredKeys()
    expected: dict[str, RowPlace] = {}
    for number, rows in enumerate(files):
        keys = [name(n) for n in rows]
        index.add_keys(Keys.of(keys).in_file(number))
        known.add(keys)
        expected |= {k: RowPlace(number, row) for row, k in enumerate(keys)}
    asked = [name(n) for n in range(70)]
    assert index.places(asked) == expected
    assert {k for run in index.sorted_keys() for k in run} == set(known) == expected.keys()
    assert [k for k in asked if k in known] == [k for k in asked if k in expected]


def test_long_runs_are_not_merged_so_that_no_merge_needs_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hab_ray.storage.replies.keyindex.MAX_MERGED", 8)
    index = KeyIndex()
    for file in range(10):
        index.add_keys(Keys.of([key(n) for n in range(5 * file, 5 * file + 5)]).in_file(file))
    assert max(map(len, index.sorted_keys())) <= 8
    assert index.places([key(n) for n in range(60)]) == {key(n): RowPlace(n // 5, n % 5) for n in range(50)}


@given(st.sets(st.integers(0, 40)), st.lists(st.integers(0, 50), unique=True))
def test_a_set_knows_its_members(members: set[int], asked: list[int]) -> None:
    found = KeySet([key(n) for n in members]).hits(Keys.of([key(n) for n in asked]))
    assert found == [i for i, n in enumerate(asked) if n in members]


def test_a_search_during_an_addition_finds_all_keys_added_before(monkeypatch: pytest.MonkeyPatch) -> None:
    index, merge = KeyIndex(), Keys.before
    index.add([key(1)])
    found = []

    def before(newer: Keys, older: Keys) -> Keys:
        found.append(index.hits(Keys.of([key(1)])))
        return merge(newer, older)

    monkeypatch.setattr(Keys, "before", before)
    index.add([key(2)])
    assert found == [[0]]
